"""Binary trees over variables: one at a time, halved in their order, halved at random."""

from __future__ import annotations

import random
from collections.abc import Sequence

from squircuit.errors import ParameterError, is_whole
from squircuit.regions._checks import check_integer
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
    _add_balanced(builder, range(d))
    return builder.finish()


def random_tree(d: int, seed: int = 0, repetitions: int = 1) -> RegionGraph:
    """Halve a random permutation of the variables until one is left, as often as asked.

    Each repetition is one more way to split the root. Repetitions share no region, not even leaves,
    as condition (U4) of the paper asks; with more than one the graph is in general not structured.
    The idea is that of RAT-SPNs (Peharz et al., 2019), to which the paper refers in the appendix.

    Args:
        d: number of variables.
        seed: a non-negative integer; the same seed gives the same graph.
        repetitions: number of random trees; more than one needs d of at least 2.

    Example:
        >>> random_tree(8, seed=1)
        RegionGraph(8 variables, 15 regions, depth 3)
        >>> len(random_tree(8, repetitions=5).root.partitions)
        5
    """
    check_integer("random_tree", "d", d, minimum=1)
    check_integer("random_tree", "seed", seed, minimum=0)
    check_integer("random_tree", "repetitions", repetitions, minimum=1)
    builder = Builder()
    if d == 1:
        _check_one_variable(repetitions)
        _add_balanced(builder, [0])
    else:
        shuffler = random.Random(int(seed))
        builder.split(*(_add_halves(builder, shuffler.sample(range(d), d)) for _ in range(repetitions)))
    return builder.finish()


def _add_balanced(builder: Builder, variables: Sequence[int]) -> int:
    """Add a balanced binary tree over the variables, and return its root."""
    if len(variables) == 1:
        return builder.leaf(variables[0])
    return builder.split(_add_halves(builder, variables))


def _add_halves(builder: Builder, variables: Sequence[int]) -> tuple[int, int]:
    """Add a balanced tree over each half of two or more variables, and return the two roots."""
    middle = (len(variables) + 1) // 2
    return _add_balanced(builder, variables[:middle]), _add_balanced(builder, variables[middle:])


def _checked_order(d: int, order: Sequence[int] | None) -> list[int]:
    if order is None:
        return list(range(d))
    if not all(is_whole(variable) for variable in order) or sorted(order) != list(range(d)):
        raise ParameterError(
            f"linear: order must be a permutation of 0, …, {d - 1}, got {order!r}"
            ". Fix: pass each number once."
        )
    return [int(variable) for variable in order]


def _check_one_variable(repetitions: int) -> None:
    if repetitions > 1:
        raise ParameterError(
            f"random_tree: one variable cannot be split, so repetitions must be 1, got {repetitions}"
            ". Fix: pass repetitions=1."
        )
