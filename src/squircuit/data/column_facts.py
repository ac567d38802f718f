"""What was seen of the cells of a column, piece by piece: the facts by which its type is found."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from squircuit.data.cells import Cells, Mask, Place, Values, is_missing, number, numbers, of_each
from squircuit.data.columns import FAR
from squircuit.data.decimals import ANY, ENOUGH, Decimals, decimals, levels_of, step_of
from squircuit.data.spikes import Repeated, both_repeated, repeated, spikes_with_cells

MOST = 4096
"""Distinct values are counted up to here."""
BLOCK = 2**20
"""Numbers of a table that are looked at at once."""
SHORT = 64
"""Up to here Python finds different numbers faster than NumPy."""
REACH = 3.0
"""Deviations from the mean within which an end bounds a column."""
CLOSE = 0.9
"""How near to 1, or 100, the largest number is, as a share, of what is a share or a percentage."""
MANY_TEXTS = 2**18
"""Different texts of a column that are counted one by one."""


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
        decimals: that the numbers need, see :func:`squircuit.data.decimals.decimals`.
        texts: how many cells hold each text, where one cell holds no number.
        repeated: numbers that are there again and again, see :func:`squircuit.data.spikes.repeated`.

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
    decimals: Decimals = ANY
    texts: Mapping[str, int] = field(default_factory=dict)
    repeated: Repeated = field(default_factory=dict)

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
            decimals=(
                max(self.decimals[0], other.decimals[0]),
                max(self.decimals[1], other.decimals[1]),
            ),
            texts=_total(self.texts, other.texts),
            repeated=both_repeated(self.repeated, other.repeated),
        )

    @property
    def deviation(self) -> float:
        """The standard deviation of the numbers."""
        return math.sqrt(self.squares / max(self.numbers, 1))

    @property
    def step(self) -> float:
        """The power of ten of which all numbers are multiples; 0: none, or too few to tell."""
        largest = max(abs(self.low), abs(self.high))
        return step_of(self.decimals, self.numbers, len(self.distinct), largest)

    @property
    def levels(self) -> tuple[float, ...]:
        """The different numbers, where they are few and are there often; none otherwise."""
        return levels_of(self.distinct, self.numbers) if self.text is None else ()

    @property
    def spikes(self) -> tuple[tuple[float, float], ...]:
        """Values that many rows share, where others have no step, and half the distance to the next one."""
        if self.step or self.levels or self.integral:
            return ()
        return spikes_with_cells(self.repeated, self.numbers)

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """Between which numbers the column is, by itself; None: not bounded.

        It has an end where no number is beyond it, though its mean is no more than three deviations away, so
        that a density would reach there: 0 below, and 1 or 100 above if the numbers come near.
        """
        if self.numbers < ENOUGH or self.low < 0 or self.mean > REACH * self.deviation:
            return None, None
        fits = (e for e in (1.0, 100.0) if CLOSE * e <= self.high <= e <= self.mean + REACH * self.deviation)
        return 0.0, next(fits, None)

    def categories(self) -> tuple[Any, ...]:
        """The distinct values in order: numbers (integers where they are), or texts if any cell is one."""
        if self.text is not None:
            return tuple(sorted({str(value) for value in self.distinct}))
        return tuple(sorted({plain(value) for value in self.distinct}))


def _together(columns: Sequence[Cells], place: Place) -> list[Facts]:
    """The facts of some columns, whose numbers are computed with as one (d, n) array."""
    read = [numbers(cells) for cells in columns]
    values = np.concatenate([found for found, _ in read]).reshape(len(columns), -1)
    length, known, gaps = values.shape[1], np.isfinite(values), np.isnan(values)
    mean, squares = _moments(values, known)
    whole = (~known | (values == np.floor(values))).all(axis=1)
    moments = (
        np.where(known, values, math.inf).min(axis=1, initial=math.inf).tolist(),
        np.where(known, values, -math.inf).max(axis=1, initial=-math.inf).tolist(),
        mean.tolist(),
        squares.tolist(),
        whole.tolist(),
    )
    found = []
    shared: dict[frozenset[Any], frozenset[Any]] = {}  # the columns of an image have mostly the same ones
    far = _farthest(values, known, place)
    needed = decimals(values, known, whole)
    parts = zip(columns, read, gaps.sum(axis=1).tolist(), far, needed, *moments, strict=True)
    for cells, (own, wrong), gap, farthest, digits, low, high, middle, square, integral in parts:
        texts = {} if wrong is None else _counted(cells)
        again = {} if wrong is not None or integral else repeated(own)
        gone = gap if wrong is None else of_each(is_missing, cells).count(True)
        text = None if wrong is None else Text(str(cells[wrong]), place(wrong))
        distinct = _distinct(cells, own)
        distinct = shared.setdefault(distinct, distinct)
        counts = (gone, length - gone, length - gap)
        moment = (low, high, middle, square, integral)
        found.append(Facts(*counts, *moment, distinct, text, farthest, digits, texts, again))
    return found


def _moments(values: Values, known: Mask) -> tuple[Values, Values]:
    """Means and Σ (x − mean)² of columns, of the known of their values, (d, n); (d,) each.

    They are infinite where numbers are too large, which `infer` says with their place.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.where(known, values, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
        apart = np.where(known, values, mean[:, None]) - mean[:, None]
        return mean, np.einsum("vn,vn->v", apart, apart)


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
        some = values if len(values) <= SHORT else np.unique(values[: 4 * MOST])  # often they are too many
        different = some if len(some) > MOST + 1 or len(values) <= SHORT else np.unique(values)
        different = different[: MOST + 1]  # NaN is the last
        return _union(frozenset(v for v in different.tolist() if v == v), frozenset())
    found: set[str] = set()
    coded = getattr(cells, "coded", None)
    for cell in set(cells.tolist() if coded is None else coded[1].tolist()):
        if not is_missing(cell):
            found.add(str(cell).strip())
        if len(found) > MOST:
            break  # too many to be categories: which they are does not matter
    return frozenset(found)


def _counted(cells: Cells) -> dict[str, int]:
    """How many cells hold each text."""
    coded = getattr(cells, "coded", None)
    if coded is None:
        pairs: Iterable[tuple[Any, int]] = Counter(cells.tolist()).items()
    else:
        pairs = zip(coded[1].tolist(), np.bincount(coded[0], minlength=len(coded[1])).tolist(), strict=True)
    found: Counter[str] = Counter()
    for cell, count in pairs:
        if count and not is_missing(cell):
            found[str(cell).strip()] += count
    return dict(found)


def _total(left: Mapping[str, int], right: Mapping[str, int]) -> Mapping[str, int]:
    """Both counts together; of very many texts only those that are there more than once."""
    total = dict(Counter(left) + Counter(right)) if left and right else left or right
    return total if len(total) <= MANY_TEXTS else {text: n for text, n in total.items() if n > 1}


def _union(left: frozenset[Any], right: frozenset[Any]) -> frozenset[Any]:
    union = left | right
    return union if len(union) <= MOST else frozenset(list(union)[: MOST + 1])


def plain(value: Any) -> int | float:
    """A number as an integer where it is one; NaN for what is no number."""
    read = number(value)
    exact = math.nan if read is None else read
    return int(exact) if math.isfinite(exact) and exact == int(exact) else exact
