"""Which candidates suit a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest

import numpy as np

from squircuit.data import Table
from squircuit.errors import ParameterError, suggestion
from squircuit.learning.joint_states import groups_of
from squircuit.learning.latent import LatentMixture
from squircuit.learning.members import Candidate, GaussianMixture, Tree

KINDS = ("mixtures", "trees")
"""Kinds of candidates."""
ROWS_A_COMPONENT = 4
"""The least rows of a component, on average."""
ROWS_A_COLUMN = 5
"""Below, each of many candidates is good at some row by chance: only those with few parameters are tried."""
ROWS_OF_MANY = 20
"""The same where rows are many."""
FEW_ROWS = 4000
"""Below, every row is held out once, in one of the folds; above, a part of the rows is."""
FEW_DISCRETE_ROWS = 1000
"""Likewise, where no column is a number: candidates cost more, and one start differs more from another."""
FOLDS = 5
WIDTHS = (1.0, 1.5, 2.5)
"""How much wider Gaussians of few rows take part, as they are too narrow."""
OF_TREES = (("average", 0.99), ("lr_free", 0.05))
"""Training of trees whose columns are all discrete."""
ROUNDS = 5
"""Times that good candidates for many rows are tried: each is another one, and their mixture is better."""
RANK = 3
"""The least rank of covariances of low rank."""
COLUMNS_A_RANK = 10
"""They have one for so many columns."""
REPEATED = 0.5
"""The share of different numbers in a column below which held-out rows are likely to repeat those seen."""
NEARLY_NONE = 1e-4
"""A prior so weak that components may be as narrow as such repeats."""
JOINT = 512
"""States of discrete columns that are seen as one, at most."""
JOINT_OF_FEW = 64
"""The same of few rows."""


def candidates(table: Table, kinds: Sequence[str], work: float) -> list[Candidate]:
    """The candidates for a table, the most promising first, as many as fit into some work.

    The list is a function of the table's shape and types and of the work alone, so that the same call tries
    the same candidates wherever it runs. Of columns that are numbers, trees are tried only where mixtures are
    not: a variable that is in a block of one member and alone in another has no table of marginals.
    """
    if isinstance(kinds, str) or not kinds:
        raise ParameterError(f"members={kinds!r}. Fix: pass a list of kinds, some of {', '.join(KINDS)}.")
    for kind in kinds:
        if kind not in KINDS:
            raise ParameterError(f"members: there is no kind {kind!r}. Fix: {suggestion(kind, KINDS)}")
    made: list[Candidate] = []
    if "mixtures" in kinds and not any(column.kind == "periodic" for column in table.columns):
        made += _small(table) if len(table) < few_rows(table) else _large(table)
    if "trees" in kinds and (not made or not has_numbers(table)):
        made = _alternating(made, _trees(table), len(table))
    if not made:
        raise ParameterError(
            f"members={list(kinds)!r}: mixtures do not suit columns on a circle. Fix: add 'trees'."
        )
    return list(_affordable(made, table, work))


def _affordable(made: Sequence[Candidate], table: Table, work: float) -> Iterator[Candidate]:
    """The first of them at least, and others as long as there is work left for them."""
    left, fits = work, FOLDS + 1 if len(table) < few_rows(table) else 1
    for number, candidate in enumerate(made):
        cost = fits * candidate.work(table)
        if cost <= left or not number:
            left -= cost
            yield candidate


def _small(table: Table) -> list[Candidate]:
    """Candidates for some hundred rows: few components, strong priors, and some of every kind."""
    rows = len(table) * 4 // 5
    if not has_numbers(table):
        counts = [count for count in (2, 3, 5, 8, 15, 30) if count * ROWS_A_COMPONENT <= rows]
        return [LatentMixture(2, 256, 256), *map(GaussianMixture, [1, *counts])]
    grid = [
        *_grid((3, 5), ("full",), (64, 16), (30.0, 3.0)),
        *_grid((1, 3), ("low-rank",), (0, 64), (1.0,)),
        *_grid((1,), ("full",), (0, 64), (3.0,)),
        *_grid((1, 3), ("full",), (0, 32), (3.0, 10.0), independent=0.5),
        *_grid((3, 8), ("full",), (0,), (0.3,)),
        *_grid((20, 50, 10), ("full",), (0, 64), (1.0,)),
        *_grid((15, 5), ("tied",), (32,), (3.0,)),
        *_grid((8, 3), ("low-rank",), (32,), (0.3,)),
        *_grid((3, 15, 5), ("full",), (32,), (10.0,)),
        *_grid((2, 8), ("full",), (64, 0), (3.0,)),
        *_grid((15, 5), ("full",), (128, 0), (10.0, 1.0)),
        *_grid((50,), ("tied",), (0, 64), (1.0,)),
        *_grid((5,), ("low-rank",), (64,), (3.0, 1.0)),
        *_grid((100, 200), ("full",), (0, 64), (3.0,)),
        *_grid((3, 5, 8), ("full",), (32, 128), (30.0, 3.0)),
        *_grid((3, 5, 15), ("full",), (16, 1000), (10.0,)),
        *_grid((100,), ("tied",), (64,), (0.3, 10.0)),
        *_grid((3, 5), ("full",), (64, 16), (30.0, 3.0), repeat=1),
        *_grid((20, 10), ("full",), (0, 64), (1.0,), repeat=1),
        *_grid((3, 15), ("full",), (32, 128), (10.0,), repeat=1),
        *_grid((3, 8), ("full",), (0,), (0.3,), repeat=1),
    ]
    joint = JOINT_OF_FEW if groups_of(table, JOINT_OF_FEW) else 0
    if joint:
        grid[1:1] = _grid((5, 15), ("full",), (32,), (3.0,), joint=joint)
    if has_repeats(table):
        grid[4:4] = _grid((50, 100, 200), ("full",), (1000, 0), (NEARLY_NONE,))
    if rows < ROWS_A_COLUMN * (len(table.columns) + 1):
        grid = [one for one in grid if one.components == 1 or one.independent]
    return _suited(grid, table, ROWS_A_COMPONENT * len(table) / max(rows, 1))


def _large(table: Table) -> list[Candidate]:
    """Candidates for thousands of rows: many components, as many knots as the columns ask for."""
    if not has_numbers(table):
        by_em = [GaussianMixture(count, prior=0.3) for count in (50, 20) if count * 20 <= len(table)]
        return [*(LatentMixture(count) for count in (8, 4)), *by_em, LatentMixture(16)]
    if any(column.is_discrete for column in table.columns):
        return _suited(_mixed(table), table, ROWS_OF_MANY)
    grid = [
        *_wide((100,), "full", 1000),
        *_wide((200,), "low-rank", 64),
        *_wide((50, 200), "full", 1000),
        *_wide((100,), "full", 0),
        *_wide((100,), "full", 32),
        *_wide((400,), "tied", 64),
        *_wide((400, 20), "full", 1000),
        *_wide((20, 200), "full", 0),
        *_wide((200,), "full", 128),
    ]
    for repeat in range(1, ROUNDS):
        grid += _wide((200,), "low-rank", 64, repeat) + _wide((100,), "full", 32, repeat)
        grid += _wide((100, 50), "full", 1000, repeat) + _wide((200, 100), "full", 0, repeat)
        grid += _wide((100,), "low-rank", 1000, repeat - 1) + _wide((100,), "full", 128, repeat - 1)
    if has_repeats(table):
        grid[3:3] = _grid((100, 200), ("full",), (1000, 0), (NEARLY_NONE,), widths=(1.0,))
    return _suited(grid, table, ROWS_OF_MANY)


def _wide(counts: Sequence[int], covariance: str, knots: int, repeat: int = 0) -> list[GaussianMixture]:
    """Mixtures of many components, for many rows."""
    return _grid(counts, (covariance,), (knots,), (0.3,), repeat, widths=(1.0,))


def _mixed(table: Table) -> list[GaussianMixture]:
    """Where each component has states beside its Gaussian, it takes more of them: what depends on what."""
    joint = JOINT if groups_of(table, JOINT) else 0
    grid = [
        *_grid((100,), ("full",), (1000,), (0.3,), widths=(1.0,), joint=joint),
        *_grid((400, 200), ("full",), (1000,), (1.0,), widths=(1.0,), joint=joint),
        *_grid((30,), ("full",), (1000,), (0.3,), widths=(1.0,), joint=joint),
        *_grid((100,), ("full",), (1000,), (0.3,), 1, widths=(1.0,), joint=joint),
        *_grid((200,), ("low-rank",), (1000,), (0.3,), widths=(1.0,), joint=joint),
        *_grid((100,), ("full",), (0,), (0.3,), widths=(1.0,), joint=joint),
        *_grid((400, 200), ("full",), (1000,), (1.0,), 1, widths=(1.0,), joint=joint),
    ]
    if joint:
        grid.insert(3, *_grid((200,), ("full",), (1000,), (1.0,), widths=(1.0,)))
    return grid


def _grid(
    counts: Sequence[int],
    covariances: Sequence[str],
    knots: Sequence[int],
    priors: Sequence[float],
    repeat: int = 0,
    widths: tuple[float, ...] = WIDTHS,
    joint: int = 0,
    independent: float = 0.0,
) -> list[GaussianMixture]:
    """Mixtures with all combinations of some settings, for the so many-th time."""
    ranks = {"low-rank": RANK}
    return [
        GaussianMixture(
            count, covariance, most, 0, prior, ranks.get(covariance), repeat, widths, joint, independent
        )
        for most in knots
        for prior in priors
        for covariance in covariances
        for count in counts
    ]


def _suited(grid: Sequence[GaussianMixture], table: Table, rows: float) -> list[Candidate]:
    """Those with so many rows a component, and one alone; a low rank grows with the columns, and is below."""
    numbers = sum(not column.is_discrete for column in table.columns)
    fitting = [one for one in grid if one.components == 1 or one.components * rows <= len(table)]
    rank = max(RANK, numbers // COLUMNS_A_RANK)
    ranked = [one if one.rank is None else replace(one, rank=rank) for one in fitting]
    return [one for one in ranked if one.rank is None or one.rank < numbers]


def _trees(table: Table) -> list[Candidate]:
    if has_numbers(table):
        return [Tree(units, "transformed") for units in (8, 16)]
    units = (2, 4, 2, 4) if len(table) >= FEW_ROWS else (2, 2, 2, 2)
    return [Tree(each, "hermite", 24, 15, 16, draw, OF_TREES) for draw, each in enumerate(units, start=1)]


def _alternating(mixtures: Sequence[Candidate], trees: Sequence[Candidate], rows: int) -> list[Candidate]:
    """One of each kind in turn, for they err differently; of some thousand rows, trees learn more."""
    pair = (mixtures, trees) if rows >= FEW_ROWS else (trees, mixtures)
    return [one for both in zip_longest(*pair) for one in both if one is not None]


def few_rows(table: Table) -> int:
    """The number of rows below which each row is held out once."""
    return FEW_ROWS if has_numbers(table) else FEW_DISCRETE_ROWS


def has_repeats(table: Table) -> bool:
    """Some column of numbers has few different ones: then a density may be very high at each of them.

    Example:
        >>> import numpy as np, squircuit as sq
        >>> rolls = np.random.default_rng(0).integers(1, 7, (60, 1)).astype(float)
        >>> rolls_and_noise = rolls + np.random.default_rng(1).normal(size=(60, 1))
        >>> [has_repeats(sq.data.table(x, {"0": "continuous"})) for x in (rolls, rolls_and_noise)]
        [True, False]
    """
    numbers = [v for v, column in enumerate(table.columns) if not column.is_discrete]
    known = [table.rows[~table.missing[:, v], v] for v in numbers]
    return any(len(np.unique(cells)) < REPEATED * len(cells) for cells in known)


def has_numbers(table: Table) -> bool:
    """Some column is not discrete."""
    return any(not column.is_discrete for column in table.columns)
