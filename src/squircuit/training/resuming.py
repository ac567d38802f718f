"""Whether a checkpoint is one of this run: looked at before anything of it is used."""

from __future__ import annotations

import math
from collections.abc import Mapping

from torch import Tensor

from squircuit.models import SquaredCircuit
from squircuit.optim.stacks import real_view
from squircuit.storage.documents import ContentError
from squircuit.storage.words import printable
from squircuit.training.averaging import wearing
from squircuit.training.evaluation import evaluate
from squircuit.training.state import State


def require_fitting(
    found: Mapping[str, Tensor], held: Mapping[str, Tensor], optimiser: Mapping[str, Tensor], state: State
) -> None:
    """Raise a ContentError unless all tensors are there, of the right form, and numbers.

    Args:
        found: the tensors of the checkpoint.
        held: those that a run has from its first moment: weights, averages, sums.
        optimiser: those that it has after a step; a weight that had no gradient yet has none of them.
        state: where the run is.
    """
    for name in held:
        if name not in found:
            raise ContentError(f"{name} is missing")
    known = {**held, **optimiser}
    for name, value in found.items():
        if name not in known:
            raise ContentError(f"it holds {printable(name, 80)}, which is no part of the run")
        _require_form(name, value, known[name])
        _require_numbers(name, value, state)
    _require_whole_states(found, optimiser)


def _require_form(name: str, value: Tensor, known: Tensor) -> None:
    if (value.shape, value.dtype) != (known.shape, known.dtype):
        raise ContentError(
            f"{name} has the shape {tuple(value.shape)} of {value.dtype}, "
            f"not {tuple(known.shape)} of {known.dtype}"
        )


def _require_numbers(name: str, value: Tensor, state: State) -> None:
    """All is finite while training goes on; of a run that failed, the best weights are."""
    goes_on = state.stopped in ("running", "interrupted")
    if (goes_on or name.startswith("best.")) and not bool(real_view(value).isfinite().all()):
        raise ContentError(f"{name} holds numbers that are not finite")
    if name.startswith("optimiser.step.") and not 0 <= value.item() <= state.step:
        raise ContentError(f"{name} is {value.item():g} after {state.step} steps")
    if name.startswith("optimiser.exp_avg_sq.") and bool((value < 0).any()):
        raise ContentError(f"{name} holds mean squares below 0")


def _require_whole_states(found: Mapping[str, Tensor], optimiser: Mapping[str, Tensor]) -> None:
    """A weight has all of the optimiser's state, or none."""
    begun = {_weight(name) for name in found if name in optimiser}
    for name in optimiser:
        if _weight(name) in begun and name not in found:
            raise ContentError(f"{name} is missing")


def _weight(name: str) -> str:
    """The weight that some state of the optimiser is of."""
    return name.split(".", 2)[2]


def require_models(model: SquaredCircuit, found: Mapping[str, Tensor], state: State) -> None:
    """Raise a ContentError where the model of the checkpoint, or its best one, is no distribution."""
    kinds = ("best.", "model.") if state.stopped in ("running", "interrupted") else ("best.",)
    for kind in kinds:
        weights = {n.removeprefix(kind): v for n, v in found.items() if n.startswith(kind)}
        with wearing(model, weights):
            log_z = evaluate(model, None).log_z
        if not math.isfinite(log_z):
            raise ContentError(f"log Z of the weights {kind}* is {log_z}")
