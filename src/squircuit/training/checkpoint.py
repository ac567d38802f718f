"""A run in a folder: its options, history, checkpoint and best weights, and whether they fit together.

Every file is written in one step. What a checkpoint holds is looked at before anything of it is used.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, final

from torch import Tensor

from squircuit import storage
from squircuit.errors import DataError, FormatError, ParameterError, Wording
from squircuit.models import SquaredCircuit
from squircuit.optim.stacks import real_view
from squircuit.storage.atomic import replace, sweep
from squircuit.storage.documents import ContentError
from squircuit.storage.locks import FolderLock
from squircuit.storage.words import one_line, printable, quoted, without_fix
from squircuit.training.config import UNITS, TrainingConfig
from squircuit.training.evaluation import evaluate
from squircuit.training.feed import Data
from squircuit.training.history import Epoch, History, count_of, number_of, require_entries, rows_of

CHECKPOINT = "checkpoint.safetensors"
FILES = ("config.json", "history.jsonl", CHECKPOINT, "best.safetensors")
FREE = ("progress", "tensorboard", "checkpoint_minutes", "shard")
"""Options that do not change the result: a resumed run may have others."""
PRIVATE = ("progress", "tensorboard")
"""Options in which processes that train together may differ: process 0 shows and writes."""
COUNTS = ("epoch", "position", "step", "best_epoch", "waited")
ENDS = ("running", "interrupted", "finished", "early stopping: ", "stopped by a callback: ", "failed: ")
"""What `stopped` begins with."""


@dataclass
class State:
    """How far a run is; with the tensors of `Loop`, all that a resumed run needs.

    Args:
        epoch: epochs done.
        position: steps done in the present epoch.
        step: steps done.
        best: best validation loss in nats.
        best_epoch: its epoch, from 1; 0: there was no validation yet.
        waited: validations since then.
        seconds: of training so far.
        stopped: why the run ended, or "running".
        rows: of the history.
    """

    epoch: int = 0
    position: int = 0
    step: int = 0
    best: float = math.inf
    best_epoch: int = 0
    waited: int = 0
    seconds: float = 0.0
    stopped: str = "running"
    rows: list[Epoch] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        best = None if math.isinf(self.best) else self.best
        return {**vars(self), "best": best, "rows": [row.to_dict() for row in self.rows]}

    @staticmethod
    def from_dict(document: dict[str, Any]) -> State:
        """What `to_dict` described; a ContentError says what is wrong with anything else."""
        require_entries("a state", document, [field.name for field in fields(State)])
        counts = {name: count_of(name, document[name]) for name in COUNTS}
        best = math.inf if document["best"] is None else number_of("best", document["best"])
        seconds, stopped = number_of("seconds", document["seconds"]), document["stopped"]
        if math.isnan(best) or not 0 <= seconds < math.inf:
            raise ContentError(f"best={best}, seconds={seconds}")
        is_line = isinstance(stopped, str) and printable(stopped, 1000) == stopped
        if not is_line or not stopped.startswith(ENDS):
            raise ContentError(f"stopped={quoted(stopped)}")
        return State(**counts, best=best, seconds=seconds, stopped=stopped, rows=rows_of(document["rows"]))

    def require_within(self, epochs: int, steps: int) -> None:
        """Raise a ContentError where a run of so many epochs, of so many steps each, is never here."""
        if self.epoch > epochs or self.position > steps or self.best_epoch > self.epoch:
            raise ContentError(f"epoch {self.epoch} of {epochs}, step {self.position} of {steps}")
        if self.step != self.epoch * steps + self.position or len(self.rows) != self.epoch:
            raise ContentError(
                f"{self.step} steps and {len(self.rows)} rows of history after {self.epoch} epochs"
            )
        goes_on = self.stopped in ("running", "interrupted")
        if (goes_on and self.epoch == epochs) or (self.stopped == "finished" and self.epoch < epochs):
            raise ContentError(f"{self.stopped} after {self.epoch} of {epochs} epochs")


@final
class RunFolder:
    """The files of one training run.

    Args:
        path: of the folder; made where it is missing.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            if self.path.exists() and not self.path.is_dir():
                raise ParameterError(f"{path} is a file", where="run", fix="pass a folder")
        except OSError as error:  # over-long names, folders that may not be looked into
            raise self._cannot(error) from error

    @contextmanager
    def locked(self) -> Iterator[None]:
        """The folder, made where it is missing, for this process alone; what killed ones left is deleted."""
        is_new = not self.path.exists()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = FolderLock(self.path).__enter__()
        except OSError as error:
            raise self._cannot(error) from error
        try:
            for name in FILES:
                sweep(self.path / name)
            yield
        finally:
            lock.__exit__()
            if is_new:
                with suppress(OSError):
                    self.path.rmdir()  # where nothing has been written

    def require_usable(self) -> None:
        """Refuse, before any work is done, a folder that cannot be written to, or in which another trains."""
        try:
            self._require_place()
            FolderLock(self.path).require_free()
        except OSError as error:
            raise self._cannot(error) from error

    def _require_place(self) -> None:
        """Refuse what cannot be a folder that files are written to."""
        wanted = self.path.absolute()
        there = next(place for place in (wanted, *wanted.parents) if place.exists())
        if not there.is_dir():
            raise ParameterError(f"{there} is a file", where=self._argument, fix="pass another folder")
        if not os.access(there, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, f"{there} may not be written to")
        for part in wanted.relative_to(there).parts:
            (there / part).exists()  # a name that is too long raises

    def _cannot(self, error: OSError) -> FormatError:
        return FormatError(
            f"files cannot be written there ({error.strerror or error})",
            where=self._argument,
            fix="pass a folder that can be made, that you may write to, and that has room",
        )

    @property
    def _argument(self) -> Wording:
        shown = reprlib.repr(str(self.path))
        return Wording(f"run={shown}", f"--run {shown[1:-1]}")

    @property
    def is_begun(self) -> bool:
        """The folder holds a run."""
        return (self.path / "config.json").exists()

    def begin(self, identity: Mapping[str, Any], first_checkpoint: Callable[[], None]) -> None:
        """Write the first checkpoint, then what the run is of, which makes the folder one of a run."""
        first_checkpoint()
        replace(self.path / "config.json", (json.dumps(identity, indent=2) + "\n").encode())

    def require_same(self, identity: Mapping[str, Any]) -> None:
        """Refuse to go on with a run of another configuration, model or data."""
        found = self._identity()
        for name, value in identity["config"].items():
            other = found["config"].get(name)
            if name not in FREE and other != value:
                raise ParameterError(
                    f"the run there has {name}={quoted(other)}, this one {name}={value!r}",
                    where=str(self.path),
                    value=value,
                    fix=Wording("pass ", "--set ") + f"{name}={quoted(other)}, or another folder",
                )
        for name, words in (("model", "model"), ("train", "training data"), ("valid", "validation data")):
            if found.get(name) != identity[name]:
                error = ParameterError if name == "model" else DataError
                raise error(
                    f"{self.path}: the run there is of another {words}. Fix: pass that, or another folder."
                )

    def _identity(self) -> dict[str, Any]:
        path = self.path / "config.json"
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(found["config"], dict):
                return dict(found)
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise FormatError(
                f"{path}: damaged ({one_line(error)}). Fix: start again in another folder."
            ) from error
        raise FormatError(f"{path}: damaged. Fix: start again in another folder.")

    def save(self, tensors: Mapping[str, Tensor], document: Mapping[str, Any]) -> None:
        """Write the checkpoint."""
        storage.write(self.path / CHECKPOINT, tensors, document, "checkpoint")

    def load(self) -> storage.Stored:
        """The checkpoint."""
        return storage.read(self.path / CHECKPOINT, "checkpoint")

    def write_history(self, rows: Sequence[Epoch]) -> None:
        """One JSON object a line for each epoch."""
        lines = "".join(json.dumps(row.to_dict()) + "\n" for row in rows)
        replace(self.path / "history.jsonl", lines.encode())

    def history(self) -> History:
        """What `write_history` wrote last; the best epoch is the first of the lowest validation loss."""
        path = self.path / "history.jsonl"
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
            rows = rows_of([json.loads(line) for line in lines])
            unit = self._identity()["config"].get("unit")
            if unit not in UNITS:
                raise ContentError(f"its unit is {quoted(unit)}")
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise FormatError(
                f"{self.path}: no history of a run ({path.name}: {without_fix(error)}). "
                "Fix: pass the folder of a run."
            ) from error
        scored = [(row.valid, row.epoch) for row in rows if row.valid is not None]
        best = min(scored)[1] if scored else len(rows)  # without validation the last weights are the best
        return History(rows, unit, best, "as far as the folder tells")

    def write_best(self, model: SquaredCircuit) -> None:
        """The model with its best weights, which it has now."""
        model.save(self.path / "best.safetensors")


def identity(model: SquaredCircuit, config: TrainingConfig, data: Data) -> dict[str, Any]:
    """What a run is of: its options, and what tells models and data from others."""
    precision = sorted({str(p.dtype) for p in model.parameters()})
    structure = hashlib.sha256(f"{model.structure.to_json()} {precision}".encode()).hexdigest()
    valid = None if data.valid is None else data.valid.fingerprint()
    return {"config": config.to_dict(), "model": structure, "train": data.train.fingerprint(), "valid": valid}


def told(model: SquaredCircuit, config: TrainingConfig, data: Data) -> dict[str, str]:
    """What all processes of a run must have been given, by its name in an error."""
    found = identity(model, config, data)
    options = {f"option {n}": str(value) for n, value in found["config"].items() if n not in PRIVATE}
    names = {"model": "model", "train": "training data", "valid": "validation data"}
    return {words: str(found[name]) for name, words in names.items()} | options


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


def require_models(
    model: SquaredCircuit,
    found: Mapping[str, Tensor],
    state: State,
    holding: Callable[[dict[str, Tensor]], AbstractContextManager[None]],
) -> None:
    """Raise a ContentError where the model of the checkpoint, or its best one, is no distribution.

    Args:
        model, found, state: the model, the tensors of the checkpoint, and where the run is.
        holding: gives the model other weights for a while.
    """
    kinds = ("best.", "model.") if state.stopped in ("running", "interrupted") else ("best.",)
    for kind in kinds:
        weights = {n.removeprefix(kind): v for n, v in found.items() if n.startswith(kind)}
        with holding(weights):
            log_z = evaluate(model, None).log_z
        if not math.isfinite(log_z):
            raise ContentError(f"log Z of the weights {kind}* is {log_z}")
