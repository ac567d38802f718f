"""Scopes: the set of variables that a region, or a function over it, depends on."""

from __future__ import annotations

from collections.abc import Iterable

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
