"""Random balanced binary trees, side by side under one root."""

from __future__ import annotations

import random

from squircuit.errors import ParameterError
from squircuit.regions._arguments import check_integer
from squircuit.regions.balanced_tree import add_balanced, add_halves
from squircuit.regions.region_graph import Builder, RegionGraph


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
        add_balanced(builder, [0])
    else:
        shuffler = random.Random(int(seed))
        builder.split(*(add_halves(builder, shuffler.sample(range(d), d)) for _ in range(repetitions)))
    return builder.finish()


def _check_one_variable(repetitions: int) -> None:
    if repetitions > 1:
        raise ParameterError(
            f"random_tree: one variable cannot be split, so repetitions must be 1, got {repetitions}"
            ". Fix: pass repetitions=1."
        )
