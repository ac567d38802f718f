"""Models of classes: how they are trained from a data set with labels, and what commands ask of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from torch import Tensor

from squircuit import data
from squircuit.data import Dataset, Rows
from squircuit.data.registry import LABELLED
from squircuit.errors import ParameterError, suggestion
from squircuit.learning import accuracy, fit_classes
from squircuit.models import SquaredCircuit
from squircuit.training import TrainingConfig


def labelled(name: str, wishes: object) -> Dataset:
    """A data set with its labels."""
    if name not in LABELLED:
        raise ParameterError(
            f"--classes: no labels of {name} are known. Fix: one of {', '.join(LABELLED)}; of a table, the "
            "class is a column like others."
        )
    if wishes:
        raise ParameterError(f"--columns: the data set {name!r} has its types. Fix: leave the option out.")
    return data.load(name, labels=True)


def by_class(model: SquaredCircuit, source: Dataset, training: TrainingConfig) -> SquaredCircuit:
    """The mixture of models of the classes, each trained on from the model of all."""
    return fit_classes(model, source, config=replace(training, progress=False, tensorboard=False))


def of_class(model: SquaredCircuit, name: str | None) -> SquaredCircuit:
    """The model of one class, by its name; None: all of it."""
    if name is None:
        return model
    if name not in model.classes:
        fix = (
            suggestion(name, model.classes) if model.classes else "train one by squircuit fit DATA --classes."
        )
        what = "is none of the model" if model.classes else "but the model has no classes"
        raise ParameterError(f"--class {name}: {what}. Fix: {fix}")
    return model.component(model.classes.index(name))


def accuracy_of(model: SquaredCircuit, name: str, part: str, rows: Rows[Tensor]) -> float | None:
    """The share of images whose class is the likeliest; None where there are no classes or no labels."""
    if not model.classes or name not in LABELLED:
        return None
    labels = (data.load(name, labels=True).labels or {})[part]
    codes = np.array([model.classes.index(str(label)) for label in labels.tolist()])
    return accuracy(model, rows.x, codes) if rows.is_complete else None
