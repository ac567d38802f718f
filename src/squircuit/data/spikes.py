"""Values of a continuous column that are there again and again, such as the zeros of a gain."""

from __future__ import annotations

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
