"""What happened in a training run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, final

from squircuit.data.schema import aligned
from squircuit.errors import FormatError


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
        """The row that :meth:`to_dict` described."""
        values: dict[str, Any] = {k: float(v) if isinstance(v, str) else v for k, v in document.items()}
        return Epoch(**values)


@final
@dataclass(frozen=True)
class History:
    """What happened in a training run; print it for a table.

    Args:
        rows: one for each epoch.
        unit: of the losses: "bits" per dimension or "nats" a row.
        best_epoch: whose weights the model has now, from 1; 0: those from before the training.
        stopped: why it ended: "finished", "early stopping: …", "interrupted", "failed: …", or "running".

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
            rows = [Epoch.from_dict(row) for row in document["rows"]]
            return History(rows, document["unit"], document["best_epoch"], document["stopped"])
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"not the description of a history: {error!r}. Fix: use to_dict.") from error

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
