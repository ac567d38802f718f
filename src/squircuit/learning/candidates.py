"""Which candidates suit a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from squircuit.data import Table
from squircuit.errors import ParameterError, suggestion
from squircuit.learning.members import Candidate, GaussianMixture, Tree

KINDS = ("mixtures", "trees")
"""Kinds of candidates."""
ROWS_A_COMPONENT = 4
"""At least, on average."""
FEW_ROWS = 4000


def candidates(table: Table, kinds: Sequence[str], work: float) -> list[Candidate]:
    """The candidates for a table, the most promising first, as many as fit into some work.

    The list is a function of the table's shape and types and of the work alone, so that the same call tries
    the same candidates wherever it runs.
    """
    if isinstance(kinds, str) or not kinds:
        raise ParameterError(f"members={kinds!r}. Fix: pass a list of kinds, some of {', '.join(KINDS)}.")
    for kind in kinds:
        if kind not in KINDS:
            raise ParameterError(f"members: there is no kind {kind!r}. Fix: {suggestion(kind, KINDS)}")
    made: list[Candidate] = []
    if "mixtures" in kinds:
        made += _small(table) if len(table) < FEW_ROWS else _large(table)
    if "trees" in kinds:
        made += _trees(table)
    return list(_affordable(made, table, work))


def _affordable(made: Sequence[Candidate], table: Table, work: float) -> Iterator[Candidate]:
    """The first of them at least, and others as long as there is work left for them."""
    left = work
    for number, candidate in enumerate(made):
        cost = candidate.work(len(table), table.schema)
        if cost <= left or not number:
            left -= cost
            yield candidate


def _small(table: Table) -> list[Candidate]:
    """All kinds of covariance, with strong priors, for tables of some hundred rows."""
    rows = len(table) * 4 // 5
    counts = [count for count in (1, 2, 3, 5, 8, 15) if count * ROWS_A_COMPONENT <= rows]
    return [
        GaussianMixture(count, covariance, knots, prior)
        for count in counts
        for covariance in ("full", "diagonal", "tied")
        for prior in (1.0, 10.0)
        for knots in _knots(table, (0, 5, 15))
    ]


def _large(table: Table) -> list[Candidate]:
    counts = [count for count in (100, 20, 400, 50, 200) if count * 20 <= len(table)] or [20]
    return [GaussianMixture(count, knots=knots) for count in counts for knots in _knots(table, (200, 0, 30))]


def _trees(table: Table) -> list[Candidate]:
    kinds = ("transformed",) if has_numbers(table) else ("hermite",)
    return [Tree(units, kind) for kind in kinds for units in (8, 16)]


def _knots(table: Table, offered: tuple[int, ...]) -> tuple[int, ...]:
    return offered if has_numbers(table) else (0,)


def has_numbers(table: Table) -> bool:
    """Some column is not discrete."""
    return any(not column.is_discrete for column in table.columns)
