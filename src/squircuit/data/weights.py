"""How much each row counts: sample weights, checked where they enter."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from squircuit.data.cells import as_numbers
from squircuit.data.frames import plain
from squircuit.data.tabular import open_source
from squircuit.errors import DataError, ParameterError, suggestion

Weights = NDArray[np.float64]


def as_weights(values: Any, rows: int, name: str = "weights") -> Weights:
    """Weights of some rows, (n,): finite, from 0 upwards, and not all 0.

    Args:
        values: an array, a tensor, a list or a column of a data frame.
        rows: how many there are.
        name: for errors.

    Example:
        >>> as_weights([1, 0, 2], rows=3)
        array([1., 0., 2.])
        >>> as_weights([1, -2, 2], rows=3)
        Traceback (most recent call last):
        squircuit.errors.DataError: weights: row 1 has the weight -2. Fix: pass finite weights, ...
    """
    found = plain(values)
    if found.dtype.kind not in "fiub":
        raise DataError(
            f"{name}: {type(values).__name__} of {found.dtype}. Fix: pass one number for each row."
        )
    if found.shape != (rows,):
        raise DataError(
            f"{name}: shape {found.shape} for {rows} rows. Fix: pass one number for each row, ({rows},)."
        )
    weights = found.astype(np.float64)
    wrong = np.flatnonzero(~((weights >= 0) & (weights < np.inf)))
    if len(wrong):
        raise DataError(
            f"{name}: row {wrong[0]} has the weight {weights[wrong[0]]:g}. "
            "Fix: pass finite weights, from 0 upwards."
        )
    if not weights.any():
        raise DataError(
            f"{name}: all weights are zero, so no row counts. Fix: pass one above 0 for some rows."
        )
    return weights


def with_mean_1(weights: Weights, whole: Weights | None = None) -> Weights:
    """Weights above 0 divided by their mean, or by that of a whole of which they are some, without overflow.

    Example:
        >>> with_mean_1(np.array([1e308, 1e308, 4e307]))
        array([1.25, 1.25, 0.5 ])
    """
    whole = weights if whole is None else whole
    largest = whole.max()
    return np.asarray(weights / largest / (whole / largest).mean())


def weight_column(path: Any, name: str, **form: Any) -> Weights:
    """The weights that a column of a file holds, (n,); ``form`` is header, delimiter, encoding."""
    source = open_source(path, **form)
    if name not in source.names:
        near = suggestion(name, source.names, all_known=False)
        raise ParameterError(f"{source.path}: no column {name!r} of weights. Fix: {near}")
    parts = []
    for chunk in source.chunks([name]):
        values = as_numbers(chunk.cells[0], name, chunk.place)
        if np.isnan(values).any():
            where = chunk.place(int(np.argmax(np.isnan(values))))
            raise DataError(
                f"{where}, column {name!r}: the weight is missing. Fix: write 0, or leave out the row."
            )
        parts.append(values)
    found = np.concatenate(parts)
    return as_weights(found, len(found), f"{source.path}, column {name!r}")
