"""Where a training run is."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from squircuit.training.history import Epoch


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
        rows = [Epoch.from_dict(row) for row in document["rows"]]
        best = math.inf if document["best"] is None else document["best"]
        return State(**{**document, "best": best, "rows": rows})
