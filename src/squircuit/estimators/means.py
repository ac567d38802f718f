"""What the members of a mixture expect in the gaps of rows, averaged by their shares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from squircuit.data import Column, Rows
from squircuit.estimators.base import decoded, levels
from squircuit.models import SquaredCircuit

Numbers = NDArray[np.float64]


@torch.no_grad()
def means(
    members: Sequence[tuple[float, SquaredCircuit]],
    rows: Rows[NDArray[Any]],
    columns: Sequence[Column],
    parts: frozenset[int] = frozenset(),
) -> dict[int, NDArray[Any]]:
    """Column → the means of Σ_m w_m p_m(x_v | y) in all rows, of the columns that some row lacks.

    Of texts and parts of dates it is the most probable category, of periodic columns the mean direction.
    Members that hold what is known of a row to be impossible have no say in it.

    Args:
        members: the w_m and p_m.
        rows: (n, d), as the members take them.
        columns: d of them.
        parts: those that are parts of dates.
    """
    lacked = {v: column for v, column in enumerate(columns) if rows.missing[:, v].any()}
    logs = [member.log_prob(rows.x, rows.missing).cpu().numpy() for _, member in members]
    possible = np.stack(logs) > -np.inf
    possible |= ~possible.any(axis=0)  # then one of them will say which row it is
    total: dict[int, Any] = dict.fromkeys(lacked, 0.0)
    for (share, member), known in zip(members, possible, strict=True):
        for v, found in _expected(member, rows.take(known), lacked).items():
            every = np.zeros((len(rows), found.shape[1]))
            every[known] = share * found
            total[v] = total[v] + every
    shares = np.array([share for share, _ in members]) @ possible
    return {v: _answer(column, total[v] / shares[:, None], v in parts) for v, column in lacked.items()}


def _expected(
    member: SquaredCircuit, rows: Rows[NDArray[Any]], columns: dict[int, Column]
) -> dict[int, Numbers]:
    """Column → numbers of which means may be taken: (n, 1), probabilities, or a point on the circle."""
    found: dict[int, Numbers] = {}
    numbers = {v: column for v, column in columns.items() if not column.is_discrete}
    if numbers:
        filled = member.impute(rows.x, rows.missing, "mean").cpu().numpy()
        for v, column in numbers.items():
            turn = 2 * math.pi * (filled[:, v : v + 1] - column.low) / (column.high - column.low or 1.0)
            is_circle = column.kind == "periodic"
            found[v] = np.concatenate([np.cos(turn), np.sin(turn)], 1) if is_circle else filled[:, v : v + 1]
    if len(numbers) < len(columns):
        values = member.marginals(rows.x, rows.missing).values
        found |= {v: values[v].cpu().numpy() for v in columns if v not in numbers}
    return found


def _answer(column: Column, mean: Numbers, is_part: bool) -> NDArray[Any]:
    """A mean as a cell has it: (n, …) → (n,)."""
    if column.is_text or (is_part and column.is_discrete):
        return decoded(column, mean.argmax(axis=1))
    if column.is_discrete:
        expected: Numbers = mean @ levels(column)
        return expected
    if column.kind != "periodic":
        return mean[:, 0]
    turn = np.arctan2(mean[:, 1], mean[:, 0]) / (2 * math.pi)
    return np.asarray(column.low + np.mod(turn, 1.0) * (column.high - column.low))
