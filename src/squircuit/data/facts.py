"""What has been seen of a column, piece by piece: enough to infer its type without keeping its cells."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from squircuit.data.cells import Cells, Place, Values, is_missing, number, numbers

FAR, NEAR = 1e30, 1e-30
"""Models compute in single precision, which ends at 3e38 and 1e-38."""
MOST = 4096
"""Distinct values are counted up to here."""


class Text(NamedTuple):
    """A cell that is no number, and where it is."""

    cell: str
    where: str


class Number(NamedTuple):
    """A number, and where it is."""

    size: float
    where: str


@dataclass(frozen=True)
class Facts:
    """Facts about the cells of a column; those of two pieces add up to those of the whole.

    Args:
        missing, count: cells that are missing, and others.
        numbers: how many of the others are numbers.
        low, high, mean, squares: of the finite numbers; squares is Σ (x − mean)².
        integral: whether every number is an integer.
        distinct: different values, numbers or (of cells read as objects) texts; at most `MOST` + 1.
        text: the first cell that is no number.
        farthest: of numbers that no model computes with, the one that is farthest from 0, and where it is.

    Example:
        >>> here = lambda row: f"row {row}"
        >>> seen = Facts.of(np.array([1.0, 2.0]), here) + Facts.of(np.array([6.0, np.nan]), here)
        >>> seen.count, seen.missing, seen.mean, seen.deviation, seen.integral
        (3, 1, 3.0, 2.160246899469287, True)
    """

    missing: int = 0
    count: int = 0
    numbers: int = 0
    low: float = math.inf
    high: float = -math.inf
    mean: float = 0.0
    squares: float = 0.0
    integral: bool = True
    distinct: frozenset[Any] = frozenset()
    text: Text | None = None
    farthest: Number | None = None

    @staticmethod
    def of(cells: Cells, place: Place) -> Facts:
        """The facts of one piece of a column."""
        values, wrong = numbers(cells)
        known = values[np.isfinite(values)]
        gone = int(np.isnan(values).sum()) if wrong is None else sum(is_missing(cell) for cell in cells)
        mean, squares = _moments(known)
        return Facts(
            missing=gone,
            count=len(cells) - gone,
            numbers=int((~np.isnan(values)).sum()),
            low=float(known.min(initial=math.inf)),
            high=float(known.max(initial=-math.inf)),
            mean=mean,
            squares=squares,
            integral=bool((known == np.floor(known)).all()),
            distinct=_distinct(cells, values),
            text=None if wrong is None else Text(str(cells[wrong]), place(wrong)),
            farthest=_farthest(values, place),
        )

    def __add__(self, other: Facts) -> Facts:
        n, m = self.numbers, other.numbers
        total, step = max(n + m, 1), other.mean - self.mean
        return Facts(
            missing=self.missing + other.missing,
            count=self.count + other.count,
            numbers=n + m,
            low=min(self.low, other.low),
            high=max(self.high, other.high),
            mean=self.mean + step * m / total,
            squares=self.squares + other.squares + step * step * n * m / total,
            integral=self.integral and other.integral,
            distinct=_union(self.distinct, other.distinct),
            text=self.text or other.text,
            farthest=max((n for n in (self.farthest, other.farthest) if n), default=None),
        )

    @property
    def deviation(self) -> float:
        """The standard deviation of the numbers."""
        return math.sqrt(self.squares / max(self.numbers, 1))

    def categories(self) -> tuple[Any, ...]:
        """The distinct values in order: numbers (integers where they are), or texts if any cell is one."""
        if self.text is not None:
            return tuple(sorted({str(value) for value in self.distinct}))
        return tuple(sorted({_plain(value) for value in self.distinct}))


def _moments(known: Values) -> tuple[float, float]:
    """Mean and Σ (x − mean)²; infinite where numbers are too large, which `infer` says with their place."""
    if not len(known):
        return 0.0, 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        return float(known.mean()), float(np.square(known - known.mean()).sum())


def _farthest(values: Values, place: Place) -> Number | None:
    sizes = np.where(np.isfinite(values), np.abs(values), 0.0)
    row = int(np.argmax(sizes)) if len(sizes) else -1
    return Number(float(sizes[row]), place(row)) if row >= 0 and sizes[row] > FAR else None


def _distinct(cells: Cells, values: Values) -> frozenset[Any]:
    """Texts of cells that were read as objects, because "01" may turn out to be a text; else numbers."""
    if cells.dtype != object:
        return _union(frozenset(np.unique(values[~np.isnan(values)]).tolist()), frozenset())
    found: set[str] = set()
    for cell in set(cells.tolist()):
        if not is_missing(cell):
            found.add(str(cell).strip())
        if len(found) > MOST:
            break  # too many to be categories: which they are does not matter
    return frozenset(found)


def _union(left: frozenset[Any], right: frozenset[Any]) -> frozenset[Any]:
    union = left | right
    return union if len(union) <= MOST else frozenset(list(union)[: MOST + 1])


def _plain(value: Any) -> int | float:
    read = number(value)
    exact = math.nan if read is None else read
    return int(exact) if math.isfinite(exact) and exact == int(exact) else exact
