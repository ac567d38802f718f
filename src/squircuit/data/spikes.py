"""Values of a continuous column that are there again and again, such as the zeros of a gain."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from squircuit.data.decimals import STEPS, rounded
from squircuit.errors import ParameterError

MORE = 4
"""How many times the number of rows that its neighbours typically have."""
LEAST = 8
"""Rows beyond that: fewer may be chance."""
REACH = 4
"""Neighbours on either side."""
SAMPLE = 2**12
"""Rows among which values that are repeated are looked for."""
SHARE = 0.02
"""The share of rows from which on a value without a step is a spike."""
SEVERAL = 8
"""Such values of a column; one that has more is like steps."""

Repeated = Mapping[float, tuple[int, float]]
"""A value → how many rows have it, and how far the next value is."""


def spikes_of(
    values: ArrayLike, step: float = 0.0, share: float = 0.005, most: int = 256
) -> tuple[float, ...]:
    """The values that are repeated often, and much more often than those beside them, in order.

    A value is a spike where c > share · n and c > 4 m + 8: it is in c of the n rows, and m is the median of
    the numbers of rows of the four multiples of the step below it and the four above, also of those with no
    row. So the levels of a wind speed that has 30 of four decimals are spikes, and not those of a humidity
    whose hundredths are all there. Without a step a value has no neighbours, m = 0.

    Args:
        values: (n,), of the training rows; NaN and infinite ones are ignored and do not count.
        step: the resolution of the column, ``column.step``; 0: none.
        share: of the rows; 0 gives every level that is there more often than by chance.
        most: spikes; of more only the most frequent are given.

    Example:
        >>> gains = np.concatenate([np.zeros(920), np.arange(80) * 61.0])
        >>> spikes_of(gains, 1.0), spikes_of(np.arange(1000) // 10, 1.0)
        ((0.0,), ())
    """
    if step not in (0.0, *STEPS):
        raise ParameterError(f"step={step!r} is neither 0 nor a power of ten. Fix: pass that of the column.")
    numbers = np.asarray(values, dtype=np.float64).ravel()
    numbers = rounded(numbers[np.isfinite(numbers)], step)
    levels, counts = np.unique(numbers, return_counts=True)
    often = np.flatnonzero(counts > max(share * len(numbers), LEAST))
    typical = _typical(levels, counts, often, step) if step else np.zeros(len(often))
    found = often[counts[often] > MORE * typical + LEAST]
    chosen = found[np.argsort(-counts[found], kind="stable")[:most]]
    return tuple(levels[np.sort(chosen)].tolist())


def _typical(
    levels: NDArray[np.float64], counts: NDArray[np.int64], chosen: NDArray[np.int64], step: float
) -> NDArray[np.float64]:
    """The median number of rows of the neighbours of some of the levels: (k,)."""
    places = np.rint(levels / step)
    shifts = np.array([shift for shift in range(-REACH, REACH + 1) if shift])
    beside = places[chosen, None] + shifts  # (k, 8)
    at = np.searchsorted(places, beside).clip(max=len(places) - 1)
    return np.median(np.where(places[at] == beside, counts[at], 0), axis=1)


def repeated(values: NDArray[np.float64]) -> Repeated:
    """Values that a share of the rows have, with how many have each and how far the next value is.

    Example:
        >>> repeated(np.append(np.zeros(90), np.arange(1.5, 11.5)))
        {0.0: (90, 1.5)}
    """
    levels, counts = np.unique(values[:SAMPLE], return_counts=True)
    often = levels[(counts >= SHARE * min(len(values), SAMPLE)) & (counts > LEAST) & np.isfinite(levels)]
    found = {}
    for value in often.tolist() if len(often) <= SEVERAL else []:
        apart = np.abs(values - value)
        others = apart[apart > 0]
        found[value] = (int((apart == 0).sum()), float(others.min(initial=np.inf)))
    return found


def both_repeated(left: Repeated, right: Repeated) -> Repeated:
    """What two pieces of a column repeat."""
    if not (left and right):
        return left or right
    nothing = (0, np.inf)
    pairs = {value: (left.get(value, nothing), right.get(value, nothing)) for value in {*left, *right}}
    return {value: (a[0] + b[0], min(a[1], b[1])) for value, (a, b) in sorted(pairs.items())}


def spikes_with_cells(found: Repeated, rows: int) -> tuple[tuple[float, float], ...]:
    """Spikes and the distance within which numbers are theirs, half of that to the next value.

    Example:
        >>> spikes_with_cells({0.0: (90, 1.5), 3.0: (1, 0.5)}, rows=100)
        ((0.0, 0.75),)
    """
    often = {value: gap for value, (count, gap) in found.items() if count >= SHARE * rows}
    return tuple((value, gap / 2) for value, gap in sorted(often.items()) if gap < np.inf)
