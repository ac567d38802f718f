"""What has been seen of a column, piece by piece: enough to infer its type without keeping its cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from squircuit.data.cells import Cells, Mask, Place, Values, is_missing, number, numbers

FAR, NEAR = 1e30, 1e-30
"""Models compute in single precision, which ends at 3e38 and 1e-38."""
MOST = 4096
"""Distinct values are counted up to here."""
BLOCK = 2**20
"""Numbers of a table that are looked at at once."""
FEW = 64
"""Up to here Python finds different numbers faster than NumPy."""


class Text(NamedTuple):
    """A cell that is no number, and where it is."""

    cell: str
    where: str


class Number(NamedTuple):
    """A number, and where it is."""

    size: float
    where: str


@dataclass(frozen=True, slots=True)
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
        return Facts.of_columns([cells], place)[0]

    @staticmethod
    def of_columns(columns: Sequence[Cells], place: Place) -> list[Facts]:
        """The facts of pieces of columns of one length, many columns at a time: some tables have 10⁵."""
        width = max(1, BLOCK // max(1, len(columns[0])))
        parts = (columns[start : start + width] for start in range(0, len(columns), width))
        return [facts for part in parts for facts in _together(part, place)]

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


def _together(columns: Sequence[Cells], place: Place) -> list[Facts]:
    """The facts of some columns, whose numbers are computed with as one (d, n) array."""
    read = [numbers(cells) for cells in columns]
    values = np.concatenate([found for found, _ in read]).reshape(len(columns), -1)
    length, known, gaps = values.shape[1], np.isfinite(values), np.isnan(values)
    mean, squares = _moments(values, known)
    moments = (
        np.where(known, values, math.inf).min(axis=1, initial=math.inf).tolist(),
        np.where(known, values, -math.inf).max(axis=1, initial=-math.inf).tolist(),
        mean.tolist(),
        squares.tolist(),
        (~known | (values == np.floor(values))).all(axis=1).tolist(),
    )
    found = []
    shared: dict[frozenset[Any], frozenset[Any]] = {}  # the columns of an image have mostly the same ones
    far = _farthest(values, known, place)
    parts = zip(columns, read, gaps.sum(axis=1).tolist(), far, *moments, strict=True)
    for cells, (own, wrong), gap, farthest, low, high, middle, square, whole in parts:
        gone = gap if wrong is None else sum(is_missing(cell) for cell in cells)
        text = None if wrong is None else Text(str(cells[wrong]), place(wrong))
        distinct = _distinct(cells, own)
        distinct = shared.setdefault(distinct, distinct)
        found.append(
            Facts(
                gone, length - gone, length - gap, low, high, middle, square, whole, distinct, text, farthest
            )
        )
    return found


def _moments(values: Values, known: Mask) -> tuple[Values, Values]:
    """Means and Σ (x − mean)² of columns, of the known of their values, (d, n); (d,) each.

    They are infinite where numbers are too large, which `infer` says with their place.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.where(known, values, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
        return mean, np.where(known, np.square(values - mean[:, None]), 0.0).sum(axis=1)


def _farthest(values: Values, known: Mask, place: Place) -> list[Number | None]:
    sizes = np.where(known, np.abs(values), 0.0)
    found: list[Number | None] = [None] * len(values)
    for column in np.flatnonzero(sizes.max(axis=1, initial=0.0) > FAR).tolist():
        row = int(np.argmax(sizes[column]))
        found[column] = Number(float(sizes[column, row]), place(row))
    return found


def _distinct(cells: Cells, values: Values) -> frozenset[Any]:
    """Texts of cells that were read as objects, because "01" may turn out to be a text; else numbers."""
    if cells.dtype != object:
        different = values if len(values) <= FEW else np.unique(values)
        return _union(frozenset(v for v in different.tolist() if v == v), frozenset())
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
