"""Where a training run is."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any

from squircuit.storage.documents import ContentError
from squircuit.storage.words import printable
from squircuit.training.config import shown
from squircuit.training.history import Epoch, count_of, number_of, require_entries, rows_of

COUNTS = ("epoch", "position", "step", "best_epoch", "waited")
ENDS = ("running", "interrupted", "finished", "early stopping: ", "failed: ")
"""What `stopped` begins with."""


@dataclass
class State:
    """Where a run is; with the tensors of `Loop`, all that a resumed run needs.

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
            raise ContentError(f"stopped={shown(stopped)}")
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
