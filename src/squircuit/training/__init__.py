"""Training: `fit`, its configuration, the history of what happened, and what is called meanwhile."""

from squircuit.training.callbacks import Callback, Event, StopTraining
from squircuit.training.config import TrainingConfig
from squircuit.training.distributed import Distributed
from squircuit.training.fit import fit
from squircuit.training.history import Epoch, History
from squircuit.training.processes import Processes

__all__ = [
    "Callback",
    "Distributed",
    "Epoch",
    "Event",
    "History",
    "Processes",
    "StopTraining",
    "TrainingConfig",
    "fit",
]
