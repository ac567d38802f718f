"""A region: a set of variables and the ways to split it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import index

from squircuit.regions.scope import Scope

Partition = tuple[int, ...]
"""One way to split a region: the indices of the regions it splits into."""


@dataclass(frozen=True)
class Region:
    """A set of variables and the alternative ways to split it.

    Args:
        scope: the variables of the region.
        partitions: each one lists the indices of child regions; a leaf has none.

    Example:
        >>> Region(frozenset({3})).is_leaf
        True
    """

    scope: Scope
    partitions: tuple[Partition, ...] = ()

    def __post_init__(self) -> None:
        # Lists and sets are welcome too; frozen here so that graphs stay hashable and comparable.
        # `index` turns numpy integers into ints, and refuses floats.
        object.__setattr__(self, "scope", frozenset(map(index, self.scope)))
        object.__setattr__(self, "partitions", tuple(tuple(map(index, part)) for part in self.partitions))

    @property
    def is_leaf(self) -> bool:
        """Whether the region is not split any further."""
        return not self.partitions

    def children(self) -> Iterator[int]:
        """The indices of the child regions over all partitions."""
        return (child for partition in self.partitions for child in partition)
