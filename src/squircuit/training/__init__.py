"""Training: `fit`, its configuration, and the history of what happened."""

from squircuit.training.config import TrainingConfig
from squircuit.training.fit import fit
from squircuit.training.history import Epoch, History
from squircuit.training.processes import Processes

__all__ = ["Epoch", "History", "Processes", "TrainingConfig", "fit"]
