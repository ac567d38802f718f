"""Where the density of a sample changes: knots for monotone maps, and edges of bins."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from squircuit.errors import DataError, ParameterError, is_whole

Numbers: TypeAlias = NDArray[np.float64]

EVEN = 32
"""Parts with as many rows each to begin with; fewer where each had fewer rows than `ROWS`."""
ROWS = 40
LEAST = 3.0
"""Rows of a part."""
PENALTY = 6.0
"""A part is cut in two where this raises the log-likelihood of the sample by more, in nats."""
FINEST = 1e-6
"""The least width of a part, as a share of the range of all but the outermost rows."""
COMMON = 0.005
"""The share of rows from which one value is a spike, which may get a narrow part of its own."""
SHARE = 0.5
"""Rows that are added to each part, so that none is empty."""
HEAVY = 0.5
"""The bend κ of both tails: those of a lognormal distribution, so that no outlier is impossible."""


@final
@dataclass(frozen=True, eq=False)
class Parts:
    """Adjacent intervals, and how many rows each has.

    Args:
        edges: (m + 1,), increasing.
        counts: (m,) numbers ≥ 0, of sample weights where there are some.
    """

    edges: Numbers
    counts: Numbers

    @property
    def below(self) -> Numbers:
        """The share of rows below each edge, (m + 1,), inside (0, 1): half a row lies beyond either end."""
        rows = self.counts + SHARE
        total = np.concatenate([[0.5], 0.5 + np.cumsum(rows)])
        found: Numbers = total / (total[-1] + 0.5)
        return found


def parts(
    values: ArrayLike,
    most: int,
    weights: ArrayLike | None = None,
    even: int = EVEN,
    ends: ArrayLike = (),
) -> Parts:
    """Intervals inside each of which the density is nearly even, from the least value to the largest.

    Some intervals with as many rows each are cut in two, always where that raises the log-likelihood
    Σ n_k log(n_k / w_k) of the rows the most (n_k rows in an interval of width w_k), as long as it does so by
    more than 6 nats. A value that many rows share gets an interval as wide as the numbers are far apart: of
    whole numbers with many zeros [−½, ½].

    Args:
        values: the sample, (n,); NaN counts as missing.
        most: the largest number of intervals.
        weights: of the values, (n,).
        even: how many intervals there are to begin with, where there are enough rows.
        ends: where intervals may end, besides.

    Example:
        >>> found = parts([0, 0, 0, 0, 0, 0, 0, 0, 3, 5, 6, 9], 8)
        >>> found.edges.tolist(), found.counts.tolist()
        ([-0.5, 0.5, 9.5], [8.0, 4.0])
    """
    if not is_whole(most, 1):
        raise ParameterError(f"{most!r} is no number of parts. Fix: pass an integer ≥ 1.")
    points, rows = _points(values, weights)
    edges, below = _candidates(points, rows, np.asarray(ends, dtype=np.float64))
    total = float(below[-1])
    wanted = np.linspace(0, total, 1 + max(1, min(even, most, int(total / ROWS))))
    first = np.unique(np.searchsorted(below, wanted)).clip(0, len(edges) - 1)
    first[[0, -1]] = 0, len(edges) - 1
    chosen = _cut(edges, below, np.unique(first), most, FINEST * _range(points))
    return Parts(edges[chosen], np.diff(below[chosen]))


def normal_scores(
    values: ArrayLike, most: int, weights: ArrayLike | None = None, ends: ArrayLike = ()
) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...], tuple[float, float]]:
    """Knots, values, slopes and tails of the :class:`~squircuit.families.Monotone` map to normal scores.

    The knots are the ends of the intervals of :func:`parts`, the values Φ⁻¹ of the share of rows below each,
    the slopes weighted harmonic means of those of the neighbouring intervals, which suit jumps.

    Reference: Fritsch and Butland, A method for constructing local monotone piecewise cubic interpolants.
    """
    found = parts(values, most, weights, ends=ends)
    normal = NormalDist()
    scores = np.array([normal.inv_cdf(share) for share in found.below.tolist()])
    slopes = _harmonic(np.diff(found.edges), np.diff(scores))
    return tuple(found.edges.tolist()), tuple(scores.tolist()), tuple(slopes.tolist()), (HEAVY, HEAVY)


def _points(values: ArrayLike, weights: ArrayLike | None) -> tuple[Numbers, Numbers]:
    """The distinct values in order, and how many rows each has: (q,) each."""
    numbers = np.asarray(values, dtype=np.float64).ravel()
    given = np.ones_like(numbers) if weights is None else np.asarray(weights, dtype=np.float64).ravel()
    if given.shape != numbers.shape or not (np.isfinite(given).all() and (given >= 0).all()):
        raise DataError(f"weights={weights!r}: expected {len(numbers)} numbers ≥ 0. Fix: pass one a row.")
    if np.isinf(numbers).any():
        raise DataError("an infinite value. Fix: replace it by NaN, which counts as missing.")
    known = ~np.isnan(numbers) & (given > 0)
    if not known.any():
        raise DataError("no value is known. Fix: pass a sample with one number at least.")
    given = given[known]
    points, position = np.unique(numbers[known], return_inverse=True)
    rows = np.bincount(position, weights=given / given.sum())
    return points, rows * (given.sum() ** 2 / np.square(given).sum())  # as many equal weights tell as much


def _candidates(points: Numbers, rows: Numbers, ends: Numbers) -> tuple[Numbers, Numbers]:
    """Points where intervals may end, between values and around spikes, and rows below each: (m,)."""
    half = _step(points) / 2
    middles = points[:-1] + np.diff(points) / 2
    spikes = points[rows >= max(COMMON * rows.sum(), 2 * LEAST)]
    edges = np.unique(
        np.concatenate([points[[0, -1]] + [-half, half], middles, spikes - half, spikes + half, ends])
    )
    return edges, np.concatenate([[0.0], np.cumsum(rows)])[np.searchsorted(points, edges)]


def _step(points: Numbers) -> float:
    """How far apart the numbers are: 1 for whole ones."""
    if (points == np.floor(points)).all():
        return 1.0
    if len(points) == 1:
        return max(1e-3 * abs(float(points[0])), 1e-6)
    return float(max(np.quantile(np.diff(points), 0.1), 100 * FINEST * _range(points)))


def _range(points: Numbers) -> float:
    """The range of all but the outermost hundredths of the distinct values."""
    low, high = np.quantile(points, [0.01, 0.99])
    return float(high - low)


def _cut(edges: Numbers, below: Numbers, first: NDArray[np.int64], most: int, finest: float) -> list[int]:
    """The numbers of the edges that are chosen, in order, beginning with some."""
    chosen: set[int] = set(first.tolist())
    waiting: list[tuple[float, int, int, int]] = []

    def offer(left: int, right: int) -> None:
        gain, middle = _best_cut(edges[left : right + 1], below[left : right + 1], finest)
        if gain > PENALTY:
            heapq.heappush(waiting, (-gain, left, left + middle, right))

    for left, right in zip(first.tolist(), first[1:].tolist(), strict=False):
        offer(left, right)
    while waiting and len(chosen) <= most:
        _, left, middle, right = heapq.heappop(waiting)
        chosen.add(middle)
        offer(left, middle)
        offer(middle, right)
    return sorted(chosen)


def _best_cut(edges: Numbers, below: Numbers, finest: float) -> tuple[float, int]:
    """The gain in log-likelihood of the best cut of an interval, and at which of the edges it is."""
    rows, widths = (np.stack([a[1:-1] - a[0], a[-1] - a[1:-1]]) for a in (below, edges))  # (2, m − 2)
    allowed = ((widths >= finest) & ((rows >= LEAST) | (rows == 0))).all(axis=0)
    if not allowed.any():
        return 0.0, 0
    before = _log_likelihood(below[-1] - below[0], edges[-1] - edges[0])
    gains = np.where(allowed, _log_likelihood(rows, widths).sum(axis=0) - before, -math.inf)
    best = int(gains.argmax())
    return float(gains[best]), best + 1


def _log_likelihood(rows: Any, widths: Any) -> Any:
    """n log(n/w), and 0 without rows."""
    return rows * np.log(np.maximum(rows, 1e-300) / np.maximum(widths, 1e-300))


def _harmonic(widths: Numbers, rises: Numbers) -> Numbers:
    """Slopes at the ends of intervals from those inside, (m,) → (m + 1,)."""
    slopes, left, right = rises / widths, widths[:-1], widths[1:]
    inverse = ((left + 2 * right) / slopes[:-1] + (2 * left + right) / slopes[1:]) / (3 * (left + right))
    return np.concatenate([slopes[:1], 1 / inverse, slopes[-1:]])
