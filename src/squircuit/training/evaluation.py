"""Which weights of a model are judged, present ones or averages, and how good they are."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, final

import torch
from torch import Tensor, nn

from squircuit.models import SquaredCircuit
from squircuit.optim import Polar
from squircuit.optim.stacks import real_view
from squircuit.training.feed import Batch, Feed
from squircuit.training.processes import Processes
from squircuit.training.spread import require_complete
from squircuit.training.steps import weighted

Weights = dict[str, Tensor]
"""Weights by the names that the model gives them."""


class Scores(NamedTuple):
    """What a validation finds.

    Args:
        loss: mean −log p in nats of the rows, weighted where they have weights; None without data.
        log_z: exact, in double precision.
        normalised: Z is 1 by construction and the weights are on the manifold; else scores were divided by Z.
    """

    loss: float | None
    log_z: float
    normalised: bool


@torch.no_grad()
def evaluate(model: SquaredCircuit, data: Feed | None, processes: Processes | None = None) -> Scores:
    """Scores with the present weights; the model is in evaluation mode for it: never in TF32."""
    mode = model.training
    model.eval()
    try:
        loss = None if data is None else mean_loss(model, data, processes or Processes())
        return Scores(loss, float(model.log_partition()), model.is_normalised())
    finally:
        model.train(mode)


def mean_loss(model: SquaredCircuit, data: Feed, processes: Processes) -> float:
    """−Σ w log p / Σ w in nats, normalised by the exact Z where weights of the model are off the manifold."""
    total, count, impossible = 0.0, 0, 0
    blocks = data.blocks(processes.share)
    for rows in in_step(model, data, processes) if model.is_spread else blocks:
        log_p = model.log_prob(rows.x, rows.gaps).double()
        total -= weighted(log_p, rows.weights).sum().item()
        impossible += int((log_p == -torch.inf).sum())
        count += len(rows)
    sums = torch.tensor([total, impossible, count], dtype=torch.float64)
    processes.sum([sums])
    total, impossible, count = sums[0].item(), int(sums[1]), int(sums[2])
    if impossible:
        warnings.warn(
            f"{impossible} of {count} validation rows have probability 0: their loss is infinite. "
            "Fix: look at these rows, or build a model with wider functions.",
            stacklevel=2,
        )
    return total / count  # the sum of the weights: their mean is 1


def in_step(model: SquaredCircuit, data: Feed, processes: Processes) -> Iterator[Batch]:
    """The own blocks of rows, while processes that have fewer of them call the model as often as the others.

    They hold its weights together, so each needs all.
    """
    processes.share.require_enough(data.count, "validation data")
    blocks, known = data.blocks(processes.share), None
    while True:
        block = next(blocks, None)
        is_there, has_gaps = processes.any(block is not None, block is not None and block.gaps is not None)
        if not is_there:
            return
        require_complete(has_gaps)
        if block is not None:
            yield block
            known = block.x[:1]
        elif known is not None:
            model.log_prob(known)


def warn_if_off_manifold(scores: Scores, optimiser: str) -> None:
    """Warn where the weights of a unitary model have left the manifold."""
    if not scores.normalised:
        fix = (
            "a smaller lr"
            if optimiser == Polar.name
            else f"optimiser={Polar.name!r} in place of {optimiser!r}"
        )
        warnings.warn(
            f"the weights are off the manifold (log Z = {scores.log_z:.2g}): validation divides by the exact "
            f"Z, but the training loss flatters the model. Fix: {fix}.",
            stacklevel=2,
        )


def in_unit(nats: float, unit: str, variables: int) -> float:
    """A loss in the unit of the user.

    Example:
        >>> in_unit(math.log(2) * 6, "bits", 3)
        2.0
    """
    return nats if unit == "nats" else nats / (variables * math.log(2))


def weights_of(model: nn.Module) -> Weights:
    """Copies of all weights by name."""
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


@torch.no_grad()
def put(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Set the weights, in place, so that a captured step sees them."""
    for name, parameter in model.named_parameters():
        parameter.copy_(weights[name])


@contextmanager
def using(model: nn.Module, weights: Mapping[str, Tensor]) -> Iterator[None]:
    """The model has other weights while this lasts."""
    own = weights_of(model)
    put(model, weights)
    try:
        yield
    finally:
        put(model, own)


@final
class Average:
    """a ← δa + (1 − δ)w after every step, δ = min(decay, (1 + t)/(10 + t)), so that it forgets the start.

    Args:
        model: whose weights are averaged.
        decay: δ in the long run.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._model, self._decay, self.weights = model, decay, weights_of(model)

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Update the average after step t, which counts from 0."""
        decay = min(self._decay, (1 + step) / (10 + step))
        averages = [real_view(value) for value in self.weights.values()]
        present = [real_view(parameter.detach()) for parameter in self._model.parameters()]
        torch._foreach_lerp_(averages, present, 1 - decay)
