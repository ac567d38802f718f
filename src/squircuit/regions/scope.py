"""Scopes, the sets of variables that functions depend on, and regions: a scope and the ways to split it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import index

Scope = frozenset[int]
"""A set of variables; variables are the integers 0, 1, …, d-1."""

LONGEST = 6  # scopes up to this size are written out in full


def list_variables(scope: Iterable[int]) -> str:
    """Write a scope as a set, with an ellipsis if it is long.

    Example:
        >>> list_variables({2, 0, 1})
        '{0,1,2}'
        >>> list_variables(range(784))
        '{0,1,2,…,783}'
    """
    names = [str(variable) for variable in sorted(scope)]
    if len(names) > LONGEST:
        names = [*names[:3], "…", names[-1]]
    return "{" + ",".join(names) + "}"


def describe(scope: Scope) -> str:
    """Describe a scope in a few words, for error messages and summaries.

    Example:
        >>> describe(frozenset({0, 1, 2}))
        '{0,1,2}'
        >>> describe(frozenset(range(784)))
        '{0,1,2,…,783} (784 variables)'
    """
    count = f" ({len(scope)} variables)" if len(scope) > LONGEST else ""
    return list_variables(scope) + count


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
