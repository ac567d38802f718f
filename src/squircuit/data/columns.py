"""One column of a table: its type, and its cells to numbers and back."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import torch

from squircuit.data.cells import Cells, Mask, Place, Values, as_numbers, is_missing, of_each, read_as, shown
from squircuit.data.decimals import nearest, rounded
from squircuit.errors import DataError, ParameterError
from squircuit.families import Bins, Categorical, Family, Fourier, Hermite, Legendre, Monotone, Transformed
from squircuit.families.domain import Finite

Kind = Literal["binary", "categorical", "count", "continuous", "periodic"]
KINDS: tuple[str, ...] = get_args(Kind)
FAR, NEAR = 1e30, 1e-30
"""Models compute in single precision, which ends at 3e38 and 1e-38."""
MANY = 2**16
"""More states than a column has."""
REACH = 10.0
"""Scales from the mean within which all data seen shall lie: much further out Hermite functions are 0."""
GONE, STRANGE = -1, -2
"""What stands in place of the number of a state where a cell is empty, or has none."""
DISCRETE = ("binary", "categorical", "count")
OTHER = "(other)"
"""What stands for every value of a column that has no state of its own."""


@dataclass(frozen=True)
class Column:
    """The name and type of a column, with all that encoding needs to know.

    Args:
        name: the column's.
        kind: "binary" and "categorical" are states 0, 1, … named by ``categories``; "count" are the integers
            low, …, high; "continuous" are floats; "periodic" are floats on the circle [low, high).
        categories: the values of the states, in order, all numbers or all texts.
        low, high: the range: of the states, of the data seen, or of one period.
        loc, scale: mean and standard deviation of the data seen, for continuous columns.
        missing: how many cells were missing when the column was inferred.
        step: the resolution of a continuous column, the power of ten (from 10⁻⁶ to 10⁶) of whose multiples
            decoded numbers are; 0: none. The density knows nothing of it: any number may be observed.
        levels: the different values of a continuous column that has few, in order, of which decoded numbers
            are the nearest; none: it has many. The density knows nothing of them, either.
        least, most: the bounds of a continuous column, to which decoded numbers beyond them are moved; None:
            there is none. The density knows nothing of them, so beyond them it is small and not 0.
        spikes: values of a continuous column without a step that many rows share, each with the distance
            within which decoded numbers become it: half of that to the next value seen.
        ordered: whether the categories have an order, which is theirs.
        pooled: how many rare values of a column of texts are not states; None: every value has to be one.
            Else they, and all that were never seen, are one more state, the last.

    Example:
        >>> colour = Column("colour", "categorical", categories=("blue", "green", "red"))
        >>> cells = np.array(["red", None, "blue"], dtype=object)
        >>> values, missing = colour.encode(cells, lambda row: f"row {row}")
        >>> values.tolist(), missing.tolist()
        ([2.0, 0.0, 0.0], [False, True, False])
        >>> colour.decode(2.0), colour.family()
        ('red', Categorical(size=3))
    """

    name: str
    kind: Kind
    categories: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 0.0
    loc: float = 0.0
    scale: float = 1.0
    missing: int = 0
    step: float = 0.0
    levels: tuple[float, ...] = ()
    least: float | None = None
    most: float | None = None
    spikes: tuple[tuple[float, float], ...] = ()
    ordered: bool = False
    pooled: int | None = None

    @property
    def is_discrete(self) -> bool:
        return self.kind in DISCRETE

    @property
    def size(self) -> int:
        """Number of states of a discrete column, 0 of others."""
        if self.kind == "count":
            return int(self.high - self.low) + 1
        return len(self.categories) + (self.pooled is not None)

    @cached_property
    def is_text(self) -> bool:
        """Whether the cells are texts; else they are numbers."""
        return any(isinstance(category, str) for category in self.categories)

    @property
    def states(self) -> tuple[Any, ...] | None:
        """What 0, 1, … stand for; None where numbers stand for themselves."""
        if self.kind == "count":
            return tuple(range(int(self.low), int(self.high) + 1))
        if not self.is_discrete:
            return None
        return self.categories if self.pooled is None else (*self.categories, self._other)

    @property
    def _other(self) -> str:
        """The name of the state of rare and new values, which no category has."""
        name = OTHER
        while name in self.categories:
            name = f"({name})"
        return name

    @property
    def first_state(self) -> float | None:
        """The number that 0 stands for, where 1, 2, … stand for the next ones; None where they do not."""
        if self.kind in ("count", "continuous"):
            return self.low if self.kind == "count" else 0.0
        if self.is_text or not self.categories or not math.isfinite(self.categories[0]):
            return None
        first = self.categories[0]
        follow = self.size == 1 or self.categories == tuple(range(int(first), int(first) + self.size))
        return float(first) if follow else None

    def encodes_like(self, other: Column) -> bool:
        """Whether a number means the same in both columns, as far as both know it."""
        if self.states is None and other.states is None:
            return True
        mine, theirs = (range(MANY) if c.states is None else c.states for c in (self, other))
        return all(a == b for a, b in zip(mine, theirs, strict=False))

    def family(self, size: int = 24, continuous: str = "hermite", sample: Values | None = None) -> Family:
        """Input functions that suit the column.

        Args:
            size: number of functions for continuous and periodic columns (one more where it must be odd).
            continuous: "hermite" (placed by mean and standard deviation, wider if the data reach further than
                ten of them), "legendre" or "fourier" (on the range seen, and 10 % on either side),
                "transformed" (Hermite functions after a monotone map that makes the sample normal) or "bins".
            sample: what the last two are fitted to, (n,), NaN where missing.

        Example:
            >>> skew = Column("price", "continuous", high=9.0)
            >>> skew.family(4, "bins", np.array([0.0, 0, 0, 0, 0, 0, 0, 0, 3, 5, 6, 9]))
            Bins(edges=(-0.5, 0.5, 9.5), tails=(1.0, 9.0))
        """
        if self.is_discrete:
            return Categorical(self.size, ordered=self.ordered or self.kind == "count")
        if self.kind == "periodic":
            return Fourier(size | 1, period=self.high - self.low, centre=(self.low + self.high) / 2)
        self._require_spread()
        margin = (self.high - self.low) / 10
        if continuous == "hermite":
            reach = max(self.high - self.loc, self.loc - self.low)
            return Hermite(size, loc=self.loc, scale=max(self.scale, reach / REACH))
        if continuous == "legendre":
            return Legendre(size, self.low - margin, self.high + margin)
        if continuous == "fourier":
            period = self.high - self.low + 2 * margin
            return Fourier(size | 1, period=period, centre=(self.low + self.high) / 2)
        if continuous not in FITTED:
            raise ParameterError(
                f"continuous={continuous!r} is unknown. Fix: pass 'hermite', 'legendre', 'fourier', "
                "'transformed', 'bins' or a function that takes a Column and returns a family."
            )
        if sample is None:
            raise ParameterError(
                f"column {self.name!r}: continuous={continuous!r} is fitted to data, and none is given. "
                "Fix: ask a Table for its families, or pass rows."
            )
        return FITTED[continuous](sample, size, self.spike_ends)

    def _require_spread(self) -> None:
        if not NEAR <= max(self.scale, self.high - self.low) <= FAR * REACH:
            raise DataError(
                f"its numbers, {self.low:g} to {self.high:g}, are too close or too far apart for single "
                "precision",
                where=f"column {self.name!r}",
                fix="use another unit, or leave it out, " + read_as(self.name, "drop"),
            )

    def encode(self, cells: Cells, place: Place, unknown: Mask | None = None) -> tuple[Values, Mask]:
        """Numbers and the mask of missing cells, (n,) each; missing is 0 where discrete, NaN elsewhere.

        Args:
            cells: (n,).
            place: where a row was read, for errors.
            unknown: (n,), where to note values that are no state of this column, which then count as
                missing; None: they are refused.
        """
        if self.is_text:
            return self._codes(cells, place, unknown)
        values = as_numbers(cells, self.name, place)
        if self.kind == "count":
            return self._levels(values, place, unknown)
        if self.is_discrete:
            return self._codes(values, place, unknown)
        return wrap(values, self.low, self.high) if self.kind == "periodic" else values, np.isnan(values)

    def decode(self, value: float, exact: bool = False) -> Any:
        """The original value of an encoded one, or of a sample; None for NaN, which means missing.

        Args:
            value: a number of the model.
            exact: it was observed, so it is not rounded to the step or the levels of the column.

        Example:
            >>> price = Column("price", "continuous", step=0.01)
            >>> price.decode(25.419994), price.decode(25.419994, exact=True)
            (25.42, 25.419994)
        """
        if math.isnan(value):
            return None
        if not self.is_discrete:
            number = float(value if exact else self.rounded(np.float64(value)))
            return int(number) if self.step >= 1 and number.is_integer() else number
        if not (0 <= value < self.size and value == int(value)):
            raise DataError(
                f"column {self.name!r}: {value!r} is no state. Fix: pass integers 0 to {self.size - 1}."
            )
        if self.kind == "count":
            return int(value) + int(self.low)
        return self._other if value == len(self.categories) else self.categories[int(value)]

    def rounded(self, values: Any) -> Any:
        """Numbers of a model as the data has them: levels, multiples of the step, spikes, within the bounds.

        Example:
            >>> speed = Column("speed", "continuous", levels=(0.0, 6.0032, 7.0015))
            >>> speed.rounded(np.array([6.4, -0.1, 7.3, np.nan]))
            array([6.0032, 0.    , 7.0015,    nan])
            >>> rain = Column("rain", "continuous", least=0.0, spikes=((0.0, 0.01),))
            >>> rain.rounded(np.array([-0.3, 0.004, 0.02]))
            array([0.  , 0.  , 0.02])
        """
        if self.levels:
            return nearest(values, self.levels)
        found = rounded(values, self.step)
        for spike, half in self.spikes:
            found = np.where(np.abs(found - spike) < half, spike, found)
        if self.least is None and self.most is None:
            return found
        return np.clip(found, self.least, self.most)

    @property
    def spike_ends(self) -> Values:
        """The ends of the cells around the spikes, in order."""
        return np.array([end for spike, half in self.spikes for end in (spike - half, spike + half)])

    @cached_property
    def _states(self) -> dict[Any, int]:
        return {category: state for state, category in enumerate(self.categories)}

    def _codes(self, cells: Cells, place: Place, unknown: Mask | None) -> tuple[Values, Mask]:
        found = np.array(of_each(self._code, cells), dtype=np.float64)
        strange = found == STRANGE
        if unknown is not None:
            unknown |= strange
        elif strange.any():
            row = int(np.argmax(strange))
            raise self._unknown(str(cells[row]), place(row))
        return np.where(found < 0, 0.0, found), found < 0

    def _code(self, cell: Any) -> int:
        """The number of a state; `GONE` for missing, `STRANGE` for what is no state."""
        if is_missing(cell):
            return GONE
        strange = STRANGE if self.pooled is None else len(self.categories)
        return self._states.get(_text(cell) if self.is_text else cell, strange)

    def _unknown(self, cell: str, where: str) -> DataError:
        known = ", ".join(shown(category) for category in self.categories[:8])
        more = f" and {self.size - 8} more" if self.size > 8 else ""
        given = shown(cell) if self.is_text else cell
        return DataError(
            f"{where}, column {self.name!r}: unknown category {given}; known are {known}{more}. "
            "Fix: correct the cell, leave it empty (missing), or train with data that has it."
        )

    def _levels(self, values: Values, place: Place, unknown: Mask | None) -> tuple[Values, Mask]:
        missing = np.isnan(values)
        outside = ~Finite(self.size).contains(torch.from_numpy(values - self.low)).numpy() & ~missing
        if unknown is not None:
            unknown |= outside
        elif outside.any():
            row = int(np.argmax(outside))
            raise DataError(
                f"{values[row]:g} is not one of the integers {self.low:g} to {self.high:g}",
                where=f"{place(row)}, column {self.name!r}",
                value=float(values[row]),
                fix="correct the cell, leave it empty (missing), or train again with a wider range, "
                "reading it as " + read_as(self.name, f"count:{self.low:g}:HIGH"),
            )
        return np.where(missing | outside, 0.0, values - self.low), missing | outside


def _transformed(sample: Values, size: int, ends: Values) -> Family:
    # The last function oscillates up to √(2n − 1) scales from 0, and the sample lies within 4: fewer
    # functions are wider ones. With five the first one's square is nearly the standard normal density.
    return Transformed(Hermite(size, scale=4 / math.sqrt(2 * size - 1)), Monotone.fit(sample, ends=ends))


FITTED: Mapping[str, Callable[[Values, int, Values], Family]] = {
    "transformed": _transformed,
    "bins": lambda sample, size, ends: Bins.fit(sample, max(size, 3)),
}
"""Families of continuous columns that are fitted to a sample, and may end at the ends of spikes."""


def wrap(values: Values, low: float, high: float) -> Values:
    """Points on a circle as numbers in [low, high).

    Example:
        >>> wrap(np.array([-10.0, 370.0, 90.0]), 0.0, 360.0)
        array([350.,  10.,  90.])
    """
    turned: Values = low + np.mod(values - low, high - low)
    return np.where(turned >= high, low, turned)  # the modulus of −1e-20 rounds up to the period


def _text(cell: Any) -> str:
    """A cell as a text; a whole number is written as in a file, 1 and not 1.0."""
    is_whole = isinstance(cell, float | np.floating) and math.isfinite(cell) and cell == int(cell)
    return str(int(cell)) if is_whole else str(cell).strip()
