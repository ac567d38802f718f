"""What happened in a training run."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, final

from squircuit.data.schema import aligned
from squircuit.errors import FormatError
from squircuit.storage.documents import ContentError
from squircuit.storage.words import one_line, printable, quoted


@final
@dataclass(frozen=True)
class Epoch:
    """One pass through the training data.

    Args:
        epoch: from 1.
        step: steps so far.
        train: mean loss of the steps of this epoch.
        valid: loss of the validation data; None where there was no validation.
        log_z: exact log Z at the validation, in double precision; None where there was none.
        normalised: Z is 1 by construction, or was; False: every score is divided by a computed Z.
        lr: learning rate of the last step.
        seconds: of training so far.
    """

    epoch: int
    step: int
    train: float
    valid: float | None
    log_z: float | None
    normalised: bool
    lr: float
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, which has no infinity: that is a text."""
        return {
            k: str(v) if isinstance(v, float) and not math.isfinite(v) else v for k, v in asdict(self).items()
        }

    @staticmethod
    def from_dict(document: Mapping[str, Any]) -> Epoch:
        """The row that :meth:`to_dict` described; a ContentError says what is wrong with any other."""
        require_entries("an epoch", document, [field.name for field in fields(Epoch)])
        kinds = {field.name: str(field.type) for field in fields(Epoch)}
        return Epoch(**{name: _entry(name, document[name], kind) for name, kind in kinds.items()})


@final
@dataclass(frozen=True)
class History:
    """What happened in a training run; print it for a table.

    Args:
        rows: one for each epoch.
        unit: of the losses: "bits" per dimension or "nats" a row.
        best_epoch: whose weights the model has now, from 1; 0: those from before the training.
        stopped: why it ended: "finished", "early stopping: …", "stopped by a callback: …", "interrupted",
            "failed: …", or "running".

    Example:
        >>> first = Epoch(1, 10, 2.5, 2.4, 0.0, True, 0.1, 1.0)
        >>> rows = [first, Epoch(2, 20, 2.0, 2.1, 1e-7, True, 0.05, 2.0)]
        >>> print(History(rows, "nats", best_epoch=2, stopped="finished"))
        epoch  step  train   valid   log Z     lr    seconds
        1      10    2.5000  2.4000  0         0.1   1.0
        2      20    2.0000  2.1000  1.0e-07   0.05  2.0
        finished after 2 epochs; best in epoch 2: valid 2.1000 nats
    """

    rows: Sequence[Epoch]
    unit: str
    best_epoch: int
    stopped: str

    @property
    def best(self) -> Epoch | None:
        """The row of the epoch whose weights the model has."""
        return next((row for row in self.rows if row.epoch == self.best_epoch), None)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        rows = [row.to_dict() for row in self.rows]
        return {"unit": self.unit, "best_epoch": self.best_epoch, "stopped": self.stopped, "rows": rows}

    @staticmethod
    def from_dict(document: Mapping[str, Any]) -> History:
        """The history that :meth:`to_dict` described."""
        try:
            require_entries("a history", document, [field.name for field in fields(History)])
            unit, stopped = (_text(name, document[name]) for name in ("unit", "stopped"))
            best = count_of("best_epoch", document["best_epoch"])
            return History(rows_of(document["rows"]), unit, best, stopped)
        except ValueError as error:
            raise FormatError(
                f"not the description of a history: {one_line(error)}. Fix: use to_dict."
            ) from error

    def __str__(self) -> str:
        header = ("epoch", "step", "train", "valid", "log Z", "lr", "seconds")
        lines = [header, *(_cells(row) for row in self.rows)]
        return f"{aligned(lines)}\n{self.stopped} after {len(self.rows)} epochs{self._best_in_words()}"

    def _best_in_words(self) -> str:
        best = self.best
        if best is None:
            return ""
        name, value = ("train", best.train) if best.valid is None else ("valid", best.valid)
        return f"; best in epoch {best.epoch}: {name} {value:.4f} {in_words(self.unit)}"


def rows_of(found: Any) -> list[Epoch]:
    """The rows of a history that were plain data; they are epochs 1, 2, …."""
    if not isinstance(found, list | tuple):
        raise ContentError("the rows are no list")
    rows = [Epoch.from_dict(row) for row in found]
    for number, row in enumerate(rows, start=1):
        if row.epoch != number:
            raise ContentError(f"row {number} is of epoch {row.epoch}")
    return rows


def require_entries(what: str, found: Any, names: Sequence[str]) -> None:
    """Raise a ContentError unless this is a mapping with these entries and no others."""
    if not isinstance(found, Mapping):
        raise ContentError(f"{quoted(found)} is not {what}")
    for name in names:
        if name not in found:
            raise ContentError(f"{what} has no {name}")
    for name in found:
        if name not in names:
            raise ContentError(f"{what} has no entry {quoted(name)}")


def count_of(name: str, value: Any) -> int:
    """A whole number from 0 upwards, or a ContentError."""
    if type(value) is not int or not 0 <= value < 2**63:
        raise ContentError(f"{name}={quoted(value)} is no number of things")
    return value


def number_of(name: str, value: Any) -> float:
    """A number, also one that is not finite and therefore a text; or a ContentError."""
    if value in ("inf", "-inf", "nan"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > sys.float_info.max:
        raise ContentError(f"{name}={quoted(value)} is no number")
    return value


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or printable(value, 1000) != value:
        raise ContentError(f"{name}={quoted(value)} is no short text")
    return value


def _entry(name: str, value: Any, kind: str) -> Any:
    """An entry of an epoch, of the type that it is declared with."""
    if value is None and kind.endswith("None"):
        return None
    if kind == "bool":
        if not isinstance(value, bool):
            raise ContentError(f"{name}={quoted(value)} is neither true nor false")
        return value
    return count_of(name, value) if kind == "int" else number_of(name, value)


def in_words(unit: str) -> str:
    return "bits per dimension" if unit == "bits" else unit


def loss_text(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def log_z_text(value: float | None) -> str:
    """
    >>> log_z_text(0.0), log_z_text(-2.5e-7), log_z_text(12.34)
    ('0', '-2.5e-07', '12.34')
    """
    if value is None:
        return "–"
    return f"{value:.1e}" if 0 < abs(value) < 1e-3 or not math.isfinite(value) else f"{value:.5g}"


def _cells(row: Epoch) -> tuple[str, ...]:
    log_z = log_z_text(row.log_z) + ("" if row.normalised else " *")
    losses = (loss_text(row.train), loss_text(row.valid))
    return str(row.epoch), str(row.step), *losses, log_z, f"{row.lr:.3g}", f"{row.seconds:.1f}"
