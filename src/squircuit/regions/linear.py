"""The linear region graph: one variable at a time."""

from __future__ import annotations

from collections.abc import Sequence

from squircuit.errors import ParameterError, is_whole
from squircuit.regions._arguments import check_integer
from squircuit.regions.region_graph import Builder, RegionGraph


def linear(d: int, order: Sequence[int] | None = None) -> RegionGraph:
    """Split off one variable at a time: {0}, {0,1}, {0,1,2}, …

    This is the structure of a matrix-product state (tensor train), which the paper represents as
    a circuit; its depth is d-1.

    Args:
        d: number of variables.
        order: a permutation of 0, …, d-1 in which the variables join; the natural order by default.

    Example:
        >>> linear(4)
        RegionGraph(4 variables, 7 regions, depth 3)
        >>> [sorted(region.scope) for region in linear(3, order=[2, 0, 1]).regions]
        [[2], [0], [0, 2], [1], [0, 1, 2]]
    """
    check_integer("linear", "d", d, minimum=1)
    first, *others = _checked_order(d, order)
    builder = Builder()
    region = builder.leaf(first)
    for variable in others:
        region = builder.split([region, builder.leaf(variable)])
    return builder.finish()


def _checked_order(d: int, order: Sequence[int] | None) -> list[int]:
    if order is None:
        return list(range(d))
    if not all(is_whole(variable) for variable in order) or sorted(order) != list(range(d)):
        raise ParameterError(
            f"linear: order must be a permutation of 0, …, {d - 1}, got {order!r}"
            ". Fix: pass each number once."
        )
    return [int(variable) for variable in order]
