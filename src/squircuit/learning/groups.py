"""Rows sorted by which of their cells are missing: those of one pattern share all that EM computes of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

ROWS = 8192
"""Rows at a time: their features stay in the cache."""
MATRICES = 2**22
"""Numbers of all covariances of patterns at a time."""
ALONE = 64
"""A pattern with so many rows is a group of its own; smaller ones are taken together."""


@final
@dataclass(frozen=True)
class Part:
    """Some rows of each of P patterns, B of them; those that fill up have weight 0.

    Args:
        x: (P, B, D) numbers, 0 where they are missing.
        states: (P, B, C) of categorical columns, −1 where they are missing.
        weight: (P, B).
        index: (P, B): the place of each row in the table.
    """

    x: Tensor
    states: Tensor
    weight: Tensor
    index: Tensor


@final
@dataclass(frozen=True)
class Group:
    """Rows of P patterns.

    Args:
        seen: (P, D), which numbers are seen.
        index: (P, B), rows of each pattern; −1 fills up.
        x: (n, D) of the whole table, 0 where it is missing.
        states: (n, C).
        weight: (n,).
    """

    seen: Tensor
    index: Tensor
    x: Tensor
    states: Tensor
    weight: Tensor

    def parts(self) -> Iterator[Part]:
        """All rows, some at a time."""
        for index in torch.split(self.index, max(1, ROWS // len(self.seen)), 1):
            place = index.clamp(min=0)
            weight = torch.where(index >= 0, self.weight[place], 0.0)
            yield Part(self.x[place], self.states[place], weight, index)


def grouped(x: Tensor, states: Tensor, weight: Tensor, matrices: int) -> list[Group]:
    """The rows in groups of patterns.

    Args:
        x: (n, D) numbers, NaN where they are missing.
        states: (n, C), −1 where they are missing.
        weight: (n,).
        matrices: numbers that a pattern takes: K D² of full covariances.

    Example:
        >>> x = torch.tensor([[1.0, float("nan")], [2.0, 3.0], [4.0, float("nan")]])
        >>> for group in grouped(x, torch.zeros(3, 0, dtype=torch.long), torch.ones(3), matrices=4):
        ...     print(group.seen.tolist(), group.index.tolist())
        [[True, True]] [[1]]
        [[True, False]] [[0, 2]]
    """
    seen, filled = ~x.isnan(), x.nan_to_num(nan=0.0)
    if bool(seen.all()):
        everything = torch.arange(len(x), device=x.device)[None]
        return [Group(seen[:1], everything, filled, states, weight)] if len(x) else []
    patterns, which, counts = torch.unique(seen, dim=0, return_inverse=True, return_counts=True)
    order, ends = which.argsort(stable=True), counts.cumsum(0)
    starts = ends - counts
    sizes = torch.where(counts < ALONE, 2 ** counts.double().log2().ceil().long(), counts)
    groups = []
    for size in sorted(set(sizes.tolist())):
        of_size = (sizes == size).nonzero()[:, 0]
        at_a_time = max(1, MATRICES // max(matrices, 1)) if size < ALONE else 1
        for some in torch.split(of_size, at_a_time):
            place = starts[some, None] + torch.arange(size, device=x.device)
            index = torch.where(place < ends[some, None], order[place.clamp(max=len(x) - 1)], -1)
            groups.append(Group(patterns[some], index, filled, states, weight))
    return groups
