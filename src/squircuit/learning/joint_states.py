"""Discrete columns that depend on each other so much that they are better seen as one."""

from __future__ import annotations

import itertools
import math
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from squircuit.data import Rows, Table

Groups: TypeAlias = tuple[tuple[int, ...], ...]
"""Columns of each group, none in two of them."""

LEAST = 0.1
"""Mutual information in nats from which two columns are seen as one."""
ROWS = 20_000
"""Enough to know it."""


def groups_of(table: Table, most: int) -> Groups:
    """Groups of discrete columns, each of which is one column of all combinations of its states.

    The two columns, or groups, with the most mutual information become one, again and again, as long as it is
    more than 0.1 nats, beyond what chance gives. Columns with gaps stay alone: a combination of which a part
    is missing teaches a mixture nothing.

    Args:
        table: of rows.
        most: combinations of a group at most; 0: no groups.

    Example:
        >>> import squircuit as sq
        >>> month = np.arange(600) % 12
        >>> coin = np.random.default_rng(0).integers(2, size=600)
        >>> groups_of(sq.data.table({"month": month, "season": month // 3, "coin": coin}), 64)
        ((0, 1),)
    """
    cells = table.cells.take(slice(None, None, max(1, len(table) // ROWS)))
    gaps = set(np.nonzero(table.missing)[1].tolist())
    sizes = {v: column.size for v, column in enumerate(table.columns) if column.size > 1 and v not in gaps}
    codes: dict[tuple[int, ...], NDArray[np.int64]] = {(v,): cells.x[:, v].astype(np.int64) for v in sizes}
    known: dict[tuple[tuple[int, ...], tuple[int, ...]], float] = {}
    while True:
        for a, b in itertools.combinations(sorted(codes), 2):
            if (a, b) not in known and math.prod(sizes[v] for v in a + b) <= most:
                known[a, b] = _information(codes[a], codes[b], cells.weights)
        pair = max(known, key=lambda pair: known[pair], default=None)
        if pair is None or known[pair] <= LEAST:
            return tuple(group for group in sorted(codes) if len(group) > 1)
        left, right = (codes.pop(group) for group in pair)
        codes[tuple(sorted(pair[0] + pair[1]))] = np.unique(
            left * (right.max() + 1) + right, return_inverse=True
        )[1]
        known = {other: found for other, found in known.items() if not set(pair) & set(other)}


def _information(left: NDArray[np.int64], right: NDArray[np.int64], weights: Any) -> float:
    """The mutual information of two columns of states in nats, less what independent columns would show."""
    width = int(right.max()) + 1
    counts = np.bincount(left * width + right, weights=weights, minlength=(int(left.max()) + 1) * width)
    joint = counts.reshape(-1, width) / counts.sum()
    across, along = joint.sum(axis=1, keepdims=True), joint.sum(axis=0, keepdims=True)
    seen = joint > 0
    found = float((joint[seen] * np.log(joint[seen] / (across * along)[seen])).sum())
    return found - (np.count_nonzero(across) - 1) * (np.count_nonzero(along) - 1) / (2 * len(left))


def joined(rows: Rows[Tensor], groups: Groups, sizes: dict[int, int]) -> Rows[Tensor]:
    """The rows with the number of its combination in the first column of each group, and 0 in the others.

    Where a cell of a group is missing, so is its combination.

    Example:
        >>> rows = Rows(torch.tensor([[2.0, 9.0, 1.0], [1.0, 9.0, 0.0]]))
        >>> joined(rows, ((0, 2),), {0: 3, 2: 2}).x
        tensor([[5., 9., 0.],
                [2., 9., 0.]])
    """
    x, gaps = rows.x.clone(), rows.missing.clone()
    for group in groups:
        number = torch.zeros_like(x[:, 0])
        for v in group:
            number = number * sizes[v] + rows.x[:, v]
        x[:, list(group)], gaps[:, list(group)] = 0.0, False
        x[:, group[0]], gaps[:, group[0]] = number, rows.missing[:, list(group)].any(dim=1)
    return Rows(x, gaps, rows.weights)


def split_rows(rows: Rows[Tensor], groups: Groups) -> Tensor:
    """Which rows show some columns of a group and lack others: (n,)."""
    found = torch.zeros(len(rows.x), dtype=torch.bool)
    for group in groups:
        gaps = rows.missing[:, list(group)]
        found |= gaps.any(dim=1) & ~gaps.all(dim=1)
    return found
