"""The resolution of numbers: their few levels, or the power of ten of which all are multiples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from squircuit.data.cells import Mask, Values

Number = TypeVar("Number", float, NDArray[np.float64])

FINEST, COARSEST = 6, -6
"""Decimals of the finest step, 10⁻⁶, and of the coarsest, 10⁶."""
NONE = FINEST + 1
"""What stands for no number of decimals: more than those of the finest step."""
STEPS = tuple(float(f"1e{-decimals}") for decimals in range(COARSEST, NONE))
DOUBLE, SINGLE = 2.0**-50, 2.0**-24
"""Relative errors of numbers: of double precision with some rounding behind them, and of single precision."""
SHARP = 32
"""A step is at least so many errors long: else all numbers would be near some multiple."""
SAMPLE = 8
"""Rows from which the decimals of a column are guessed."""
ENOUGH = 20
"""Numbers that tell a step; of fewer it is too likely that a finer one did not show."""
SEVERAL = 10
"""Different numbers that tell a step above 1: whole numbers are often round by chance."""

MOST_LEVELS = 256
"""Different numbers of a column that are few."""
REPEATED = 20
"""Rows for each of them, on average, that show that there are no more."""

Decimals = tuple[int, int]
"""That a column needs, from `COARSEST` to `NONE`: of its numbers as they are, and in single precision."""
ANY: Decimals = (COARSEST, COARSEST)


def rounded(values: Number, step: float) -> Number:
    """The nearest multiples of a step, each the float that is nearest to the decimal number.

    Args:
        values: a number or an array; infinite and NaN stay as they are.
        step: one of `STEPS`, or 0: nothing is rounded.

    Example:
        >>> float(rounded(25.419994, 0.01)), rounded(np.array([-0.3, np.nan, 1249.0]), 100.0).tolist()
        (25.42, [0.0, nan, 1200.0])
    """
    if not step:
        return values
    parts = round(1 / step)  # 2542 / 100 is the float that is nearest to 25.42, 2542 · 0.01 need not be
    nearest: Number = np.rint(values / step) * step if step >= 1 else np.rint(values * parts) / parts
    return nearest + 0.0  # 0 in place of −0


def levels_of(different: frozenset[Any], count: int) -> tuple[float, ...]:
    """The levels of a column, in order: its different numbers, where they are few and are there often.

    Args:
        different: numbers of the column, all of them unless they are many.
        count: how many there are, the same ones counted.

    Example:
        >>> levels_of(frozenset({0.0, 6.0032}), 50), levels_of(frozenset({0.0, 6.0032}), 30)
        ((0.0, 6.0032), ())
    """
    if not 2 <= len(different) <= min(MOST_LEVELS, count // REPEATED):
        return ()
    return tuple(sorted(float(number) for number in different))


def nearest(values: Number, levels: Sequence[float]) -> Number:
    """The nearest of some levels in order; NaN stays."""
    known = np.asarray(levels, dtype=np.float64)
    middles = (known[1:] + known[:-1]) / 2
    found = known[np.searchsorted(middles, values)]
    result: Any = np.where(np.isnan(values), values, found)
    return cast(Number, result)


def decimals(values: Values, known: Mask, whole: Mask) -> list[Decimals]:
    """The least k of each column for which all of its numbers are multiples of 10⁻ᵏ up to rounding.

    The greater of two pieces is that of both together.

    Args:
        values: (d, n).
        known: (d, n), the finite ones.
        whole: (d,), whether all known values of a column are integers.

    Returns:
        for each column that of its numbers, and that of its numbers read as rounded to single precision; the
        second is `NONE` where a number has more digits than those.

    Example:
        >>> numbers = np.array([[0.5, 1.25], [0.1 + 0.2, 7.0], [300.0, 1200.0], [1 / 3, 2.0]])
        >>> decimals(numbers, np.isfinite(numbers), np.array([False, False, True, False]))
        [(2, 2), (1, 7), (-2, -2), (7, 7)]
        >>> narrow = numbers.astype(np.float32).astype(np.float64)
        >>> decimals(narrow, np.isfinite(narrow), np.array([False, False, True, False]))
        [(2, 2), (7, 1), (-2, -2), (7, 7)]
    """
    found = np.full((2, len(values)), COARSEST)
    chosen = np.flatnonzero(known.any(axis=1))
    numbers = np.where(known[chosen], values[chosen], 0.0)  # 0 is a multiple of everything
    found[:, chosen] = _decimals(numbers, whole[chosen], DOUBLE)
    broken = np.flatnonzero(~whole[chosen])
    found[1, chosen[broken]] = NONE
    narrow = broken[_are_single(numbers[broken])]
    found[1, chosen[narrow]] = _decimals(numbers[narrow], whole[chosen][narrow], SINGLE)
    return [(double, single) for double, single in found.T.tolist()]


def _decimals(numbers: Values, whole: Mask, error: float) -> NDArray[np.int64]:
    """Decimals that write all numbers of each column, (d, n) → (d,): guessed from some, raised by others."""
    stride = max(1, numbers.shape[1] // SAMPLE)
    found = _of_few(numbers[:, ::stride], error)
    for k in range(COARSEST, NONE):
        chosen = np.flatnonzero((found == k) & ~(whole & (k == 0)))
        if len(chosen):
            off = _are_off(numbers[chosen], k, error)
            wrong = np.flatnonzero(off.any(axis=1))
            witnesses = numbers[chosen[wrong], off[wrong].argmax(axis=1)]
            found[chosen[wrong]] = _of_few(witnesses[:, None], error)
    return found


def _of_few(numbers: Values, error: float) -> NDArray[np.int64]:
    """The same without a guess: from the finest step to the coarsest that fits."""
    found = np.full(len(numbers), NONE)
    fitting = np.arange(len(numbers))
    for k in range(FINEST, COARSEST - 1, -1):
        fitting = fitting[~_are_off(numbers[fitting], k, error).any(axis=1)]
        found[fitting] = k
    return found


def _are_off(numbers: Values, k: int, error: float) -> Mask:
    """Which numbers are no multiples of 10⁻ᵏ, up to the error."""
    with np.errstate(over="ignore", invalid="ignore"):  # of numbers too large, which `infer` refuses
        nearest = rounded(numbers, STEPS[k - COARSEST])
        off: Mask = nearest != numbers
        if off.any():
            off[off] = ~(np.abs(nearest[off] - numbers[off]) <= error * np.abs(numbers[off]))
    return off


def _are_single(numbers: Values) -> Mask:
    """Which columns have numbers of single precision only; the first ones mostly tell."""
    with np.errstate(over="ignore"):
        found: Mask = (numbers[:, :SAMPLE] == numbers[:, :SAMPLE].astype(np.float32)).all(axis=1)
        found[found] = (numbers[found] == numbers[found].astype(np.float32)).all(axis=1)
    return found


def step_of(needed: Decimals, count: int, different: int, largest: float) -> float:
    """The step of a column, the largest power of ten of which all numbers are multiples; 0: not known.

    Args:
        needed: `decimals` of all its numbers.
        count, different: how many they are, and how many different ones.
        largest: the greatest of their sizes.

    Example:
        >>> step_of((2, 2), 100, 50, 25.4), step_of((-2, -2), 100, 50, 9e3), step_of((-2, -2), 100, 3, 9e3)
        (0.01, 100.0, 1.0)
        >>> step_of((2, 2), 5, 5, 25.4), step_of((7, 7), 100, 100, 25.4), step_of((7, 6), 100, 100, 25.4)
        (0.0, 0.0, 0.0)
    """
    k, error = (needed[0], DOUBLE) if needed[0] < NONE else (needed[1], SINGLE)
    if k == NONE or count < ENOUGH:
        return 0.0
    step = STEPS[(k if different >= SEVERAL else max(k, 0)) - COARSEST]
    return step if step >= SHARP * error * largest else 0.0
