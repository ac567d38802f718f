"""Training: `fit`, its configuration, and the history of what happened."""

from squircuit.training.config import TrainingConfig
from squircuit.training.fit import fit
from squircuit.training.history import Epoch, History

__all__ = ["Epoch", "History", "TrainingConfig", "fit"]
