"""Rounded numbers as what they were before: anywhere in the cell that was rounded to them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squircuit.data.rows import Rows
from squircuit.data.schema import Schema

COMMON = 6
"""Rows from which the cell of a value is worth ends of its own."""


def spread(rows: Rows[NDArray[Any]], schema: Schema, seed: int) -> Rows[NDArray[Any]]:
    r"""The rows with the numbers of columns that have a step δ spread evenly over their cells,

    .. math:: x' = x + \delta u, \qquad u \sim U(-\tfrac12, \tfrac12).

    A density of numbers that are rounded can be as high as one likes at the numbers that occur, without
    knowing more of the rows. Of spread numbers it cannot: :math:`E_u \log p(x') + \log \delta` is at most the
    log-probability that a sample is rounded to x (Jensen), and equal to it where p is even in the cell.

    Reference: Theis, van den Oord and Bethge, A note on the evaluation of generative models, 2016.

    Args:
        rows: as a model takes them.
        schema: of their columns; those without a step stay as they are.
        seed: of u.

    Example:
        >>> from squircuit.data import Column
        >>> schema = Schema((Column("price", "continuous", step=0.01),))
        >>> moved = spread(Rows.of(np.array([[1.25], [np.nan]])), schema, 0).x
        >>> moved.round(2).tolist(), bool(moved[0, 0] == 1.25)
        ([[1.25], [nan]], False)
    """
    steps = np.array([column.step for column in schema.columns])
    if not steps.any():
        return rows
    rng = np.random.default_rng([seed, len(rows)])
    x = np.asarray(rows.x, dtype=np.float64).copy()
    for v in np.flatnonzero(steps):
        x[:, v] += steps[v] * (rng.random(len(x)) - 0.5)
    return replace(rows, x=x)


def cell_ends(values: NDArray[np.float64], step: float) -> NDArray[np.float64]:
    """The ends of the cells in which several values lie, in order; none without a step.

    Example:
        >>> cell_ends(np.array([0.1, -0.2, 0.3, 0.0, 0.4, 0.2, 7.2]), 1.0)
        array([-0.5,  0.5])
    """
    if not step:
        return np.zeros(0)
    places, counts = np.unique(np.rint(values[~np.isnan(values)] / step), return_counts=True)
    often = places[counts >= COMMON]
    return np.unique(np.concatenate([often - 0.5, often + 0.5])) * step
