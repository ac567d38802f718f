"""Rows sorted by which of their cells are missing: those of one pattern share all that EM computes of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

ROWS = 8192
"""Rows of a pattern at a time: their features stay in the cache."""
NUMBERS = 2**20
"""Numbers at a time of rows that are each seen by themselves."""
ALONE = 4
"""Rows for each column from which a pattern is a group; rows of rarer ones are seen one by one."""


@final
@dataclass(frozen=True)
class Part:
    """Some rows of a group.

    Args:
        seen: which numbers are seen, (D,) of every row, or (B, D).
        x: (B, D) numbers, 0 where they are missing.
        states: (B, C) of categorical columns, −1 where they are missing.
        weight: (B,).
        index: (B,): the place of each row in the table.
    """

    seen: Tensor
    x: Tensor
    states: Tensor
    weight: Tensor
    index: Tensor


@final
@dataclass(frozen=True)
class Group:
    """Rows of one pattern, or rows that lack as many numbers each.

    Args:
        seen: which numbers are seen, (D,) of every row, or (B, D).
        index: (B,), their places in the table.
        size: rows at a time.
        x: (n, D) of the whole table, 0 where it is missing.
        states: (n, C).
        weight: (n,).
    """

    seen: Tensor
    index: Tensor
    size: int
    x: Tensor
    states: Tensor
    weight: Tensor

    def parts(self) -> Iterator[Part]:
        """All rows, some at a time."""
        for start in range(0, len(self.index), self.size):
            some = slice(start, start + self.size)
            seen, index = self.seen if self.seen.ndim == 1 else self.seen[some], self.index[some]
            yield Part(seen, self.x[index], self.states[index], self.weight[index], index)


def grouped(x: Tensor, states: Tensor, weight: Tensor, components: int) -> list[Group]:
    """The rows in groups.

    Args:
        x: (n, D) numbers, NaN where they are missing.
        states: (n, C), −1 where they are missing.
        weight: (n,).
        components: K, of the mixture that looks at them.

    Example:
        >>> x = torch.tensor([[1.0, float("nan")], [2.0, 3.0], [4.0, 5.0]])
        >>> for group in grouped(x, torch.zeros(3, 0, dtype=torch.long), torch.ones(3), components=4):
        ...     print(group.seen.tolist(), group.index.tolist())
        [True, True] [1, 2]
        [[True, False]] [0]
    """
    seen, rows = ~x.isnan(), (x.nan_to_num(nan=0.0), states, weight)
    if bool(seen.all()):
        everything = torch.arange(len(x), device=x.device)
        return [Group(seen[0], everything, ROWS, *rows)] if len(x) else []
    patterns, which, counts = torch.unique(seen, dim=0, return_inverse=True, return_counts=True)
    shared = patterns.all(dim=1) | (counts >= ALONE * x.shape[1])
    order, ends = which.argsort(stable=True), counts.cumsum(0)
    groups = [
        Group(patterns[p], order[ends[p] - counts[p] : ends[p]], ROWS, *rows)
        for p in shared.nonzero()[:, 0].tolist()
    ]
    lacked = torch.where(shared, 0, (~patterns).sum(dim=1))[which]  # 0: the row has a group
    for count in torch.unique(lacked).tolist():
        if count:
            index = (lacked == count).nonzero()[:, 0]
            size = max(1, NUMBERS // (components * (count + 1) ** 2))
            groups.append(Group(patterns[which[index]], index, size, *rows))
    return groups


def gaps_of(missing: NDArray[np.bool_]) -> tuple[int, int]:
    """How many patterns of gaps have a group of their own, and the missing cells of all other rows.

    Example:
        >>> half = np.arange(40) % 2 == 0
        >>> gaps_of(np.stack([half, half], axis=1)), gaps_of(np.eye(40, dtype=bool))
        ((1, 0), (0, 40))
    """
    counts = missing.sum(axis=1)
    with_gaps, some = missing[counts > 0], counts[counts > 0]
    if not len(some):
        return 0, 0
    packed = np.packbits(with_gaps, axis=1)
    _, which, shared = np.unique(packed, axis=0, return_inverse=True, return_counts=True)
    is_group = shared >= ALONE * missing.shape[1]
    return int(is_group.sum()), int(some[~is_group[which.ravel()]].sum())
