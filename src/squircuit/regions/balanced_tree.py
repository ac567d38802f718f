"""The balanced binary tree over variables in their natural order."""

from __future__ import annotations

from collections.abc import Sequence

from squircuit.regions._arguments import check_integer
from squircuit.regions.region_graph import Builder, RegionGraph


def balanced_tree(d: int) -> RegionGraph:
    """Halve the variables 0, …, d-1 until one is left; the first half takes the odd one.

    This is the structure of a binary tree tensor network (TTN); its depth is ⌈log₂ d⌉.

    Args:
        d: number of variables.

    Example:
        >>> balanced_tree(8)
        RegionGraph(8 variables, 15 regions, depth 3)
        >>> [sorted(region.scope) for region in balanced_tree(3).regions]
        [[0], [1], [0, 1], [2], [0, 1, 2]]
    """
    check_integer("balanced_tree", "d", d, minimum=1)
    builder = Builder()
    add_balanced(builder, range(d))
    return builder.finish()


def add_balanced(builder: Builder, variables: Sequence[int]) -> int:
    """Add a balanced binary tree over the variables, and return its root."""
    if len(variables) == 1:
        return builder.leaf(variables[0])
    return builder.split(add_halves(builder, variables))


def add_halves(builder: Builder, variables: Sequence[int]) -> tuple[int, int]:
    """Add a balanced tree over each half of two or more variables, and return the two roots."""
    middle = (len(variables) + 1) // 2
    return add_balanced(builder, variables[:middle]), add_balanced(builder, variables[middle:])
