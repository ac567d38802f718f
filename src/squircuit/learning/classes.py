"""The density of rows and their labels: a model of each class, from one model of all, mixed by shares."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from squircuit.data import Dataset
from squircuit.data.given import rows_of
from squircuit.errors import DataError, ParameterError
from squircuit.models import SquaredCircuit, mixture
from squircuit.progress import steps
from squircuit.training import TrainingConfig, fit

BLOCK = 2**19
"""Cells that are scored at once."""


def fit_classes(
    model: SquaredCircuit,
    data: Any,
    labels: Any = None,
    valid: Any = None,
    valid_labels: Any = None,
    config: TrainingConfig | dict[str, Any] | None = None,
    names: Sequence[Any] | None = None,
    **overrides: Any,
) -> SquaredCircuit:
    r"""A model with the label as a variable: p(x, y) = π_y p(x | y).

    Every class has a copy of the model, which is trained on from its present weights with the rows of the
    class, and keeps those weights where validation rows of the class are less likely afterwards. So on those
    rows log p(x) is at most log 1/π_y less than before, and mostly it is more. The mixture is a model like
    others: log p(x) is :meth:`~squircuit.SquaredCircuit.log_prob`, log p(x, y)
    :meth:`~squircuit.SquaredCircuit.component_log_prob`, whose softmax is p(y | x), also given a part of x;
    :meth:`~squircuit.SquaredCircuit.component` is the model of one class.

    Args:
        model: of all classes, trained on all rows; it is not changed.
        data: rows (n, d), or a `Dataset` with labels, whose validation images and labels serve then.
        labels: of the rows, (n,).
        valid, valid_labels: rows of validation; none: the last weights are kept.
        config, overrides: options of the training of each class, as for :func:`squircuit.fit`.
        names: of the classes, in the order of the sorted labels; default the labels themselves.

    Returns:
        The mixture, with ``notes["classes"]``.

    Example:
        >>> import squircuit as sq
        >>> x, y = torch.randint(2, (80, 4)), torch.arange(2).repeat(40)
        >>> x[:, 0] = y
        >>> model = sq.SquaredCircuit(sq.build(sq.regions.balanced_tree(4), sq.Categorical(2), units=2))
        >>> both = fit_classes(model, x, y, epochs=20, progress=False)
        >>> both.component_log_prob([[1, 0, 0, 0]]).argmax(dim=1), both.notes["classes"]
        (tensor([1]), ['0', '1'])
    """
    if isinstance(data, Dataset):
        data, labels, valid, valid_labels = _parts(data, valid)
    rows, codes, kinds = _checked(model, data, labels)
    held = None if valid is None else _checked(model, valid, valid_labels, kinds)
    shown = [str(kind) for kind in (kinds if names is None else names)]
    if len(shown) != len(kinds):
        raise ParameterError(f"fit_classes: {len(shown)} names for {len(kinds)} classes. Fix: one for each.")
    members = []
    counts = np.bincount(codes, minlength=len(kinds)).tolist()
    for number in steps(range(len(kinds)), [float(count) for count in counts]):
        part = None if held is None else held[0][held[1] == number]
        members.append(_trained(model, rows[codes == number], part, config, overrides))
    made = mixture(members, [float(count) for count in counts])
    made.notes = {"classes": shown}
    return made


def accuracy(model: SquaredCircuit, rows: Any, codes: NDArray[Any]) -> float:
    """The share of rows whose class is the likeliest of p(y | x): codes are numbers of classes, (n,).

    Example:
        >>> import squircuit as sq
        >>> circuit = sq.build(sq.regions.linear(2), sq.Categorical(2), units=2)
        >>> pair = sq.mixture([sq.SquaredCircuit(circuit, seed) for seed in (0, 1)])
        >>> 0 <= accuracy(pair, [[0, 1], [1, 1]], np.array([0, 1])) <= 1
        True
    """
    x = torch.as_tensor(rows)
    step = max(1, BLOCK // max(1, x.shape[1]))
    with torch.no_grad():
        found = [model.component_log_prob(part).argmax(dim=1).cpu() for part in torch.split(x, step)]
    return float((torch.cat(found).numpy() == codes).mean())


def _parts(data: Dataset, valid: Any) -> tuple[Any, Any, Any, Any]:
    if data.labels is None:
        raise DataError(f"{data!r} has no labels. Fix: sq.data.load({data.name!r}, labels=True).")
    if valid is not None:
        raise ParameterError("fit_classes: valid= besides a Dataset, which has its own. Fix: leave it out.")
    return data.train, data.labels["train"], data.valid, data.labels["valid"]


def _checked(
    model: SquaredCircuit, data: Any, labels: Any, kinds: NDArray[Any] | None = None
) -> tuple[Tensor, NDArray[np.int64], NDArray[Any]]:
    """Rows, the number of the class of each, and the classes."""
    rows = torch.as_tensor(rows_of(model.schema, data)[0])
    known = np.asarray(labels)
    if known.shape != (len(rows),):
        raise DataError(
            f"fit_classes: labels of shape {known.shape} for {len(rows)} rows. Fix: pass one for each row."
        )
    found = np.unique(known) if kinds is None else kinds
    if len(found) < 2 or not np.isin(known, found).all():
        raise DataError("fit_classes: one class, or others in validation. Fix: check the labels.")
    return rows, np.searchsorted(found, known), found


def _trained(
    model: SquaredCircuit, rows: Tensor, valid: Tensor | None, config: Any, overrides: dict[str, Any]
) -> SquaredCircuit:
    """The model of one class."""
    member = copy.deepcopy(model).train()
    held = valid if valid is not None and len(valid) else None
    fit(member, rows, held, config, **overrides)
    if held is not None and _score(member, held) < _score(model, held):
        return model
    return member


@torch.no_grad()
def _score(model: SquaredCircuit, rows: Tensor) -> float:
    step = max(1, BLOCK // max(1, rows.shape[1]))
    return sum(float(model.log_prob(part).double().sum()) for part in torch.split(rows, step))
