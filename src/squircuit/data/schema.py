"""The types of all columns: rows to numbers and back, and the input functions that suit them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from squircuit.data.calendar import WEEKS, Calendar, calendar_from_dict
from squircuit.data.cells import Cells, Mask, Place, Values, as_cells, objects, shown
from squircuit.data.column_entries import column_from_dict
from squircuit.data.columns import FITTED, Column
from squircuit.data.frames import is_frame, named_columns, plain
from squircuit.data.layout import Layout
from squircuit.data.rows import Rows
from squircuit.errors import DataError, FormatError
from squircuit.families import Family
from squircuit.families.domain import Domains, Finite, Line
from squircuit.storage.words import listed, one_line

HostRows = Rows[NDArray[Any]]
"""x: int64 where every column is discrete, else float64; what is missing is 0 where discrete, else NaN."""


@dataclass(frozen=True)
class Chunk:
    """Some rows as they were read, column by column."""

    names: tuple[str, ...]
    cells: tuple[Cells, ...]
    place: Place

    def split(self, calendars: Sequence[Calendar], names: Sequence[str] | None = None) -> Chunk:
        """The same with the parts of dates and times in place of them.

        Args:
            calendars: of the columns that hold some.
            names: of the columns in order, as the calendars know them; default: those of the chunk.
        """
        by_name, found = {one.name: one for one in calendars}, dict[str, Cells]()
        for name, cells in zip(self.names if names is None else names, self.cells, strict=True):
            one = by_name.get(name)
            if one is None:
                found[name] = cells
            else:
                found |= one.split(one.read(cells, self.place), self.place)
        return Chunk(tuple(found), tuple(found.values()), self.place)


@dataclass(frozen=True)
class Schema:
    """The columns of a table.

    Args:
        columns: the names and types of the variables of a model: of all columns but those of dates and times,
            each of which is several variables, such as "day.month" and "day.weekday".
        layout: of the table that they were inferred from, which `frame` imitates: its library and the types
            there. None: a file of texts. It says nothing about numbers, so it does not count in comparisons.
        calendars: the columns of dates and times.

    Example:
        >>> schema = Schema((Column("sex", "binary", ("f", "m")), Column("height", "continuous", loc=1.7)))
        >>> encoded = schema.encode([["m", 1.8], ["f", None]])
        >>> encoded.x
        array([[1. , 1.8],
               [0. , nan]])
        >>> schema.decode(encoded.x)
        [['m', 1.8], ['f', None]]
        >>> [type(family).__name__ for family in schema.families()]
        ['Categorical', 'Hermite']
        >>> schema.encode([["x", 1.8]])
        Traceback (most recent call last):
        squircuit.errors.DataError: row 0, column 'sex': unknown category 'x'; known are 'f', 'm'. Fix: ...
    """

    columns: tuple[Column, ...]
    layout: Layout | None = field(default=None, compare=False, repr=False)
    calendars: tuple[Calendar, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variables."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def table_names(self) -> tuple[str, ...]:
        """The names of the columns of a table: dates and times by their own names, not by those of parts."""
        whole = {part: one.name for one in self.calendars for part in one.names}
        return tuple(dict.fromkeys(whole.get(name, name) for name in self.names))

    def whole(self, name: str, parts: Sequence[list[Any]]) -> list[Any]:
        """The cells of a column of a table from the decoded cells of its variables."""
        one = next((one for one in self.calendars if one.name == name), None)
        return parts[0] if one is None else one.join(dict(zip(one.names, parts, strict=True)))

    def variables(self, name: str) -> list[int]:
        """The numbers of the variables of a column of a table, or of the part of one; none: it has none."""
        parts = next((one.names for one in self.calendars if one.name == name), (name,))
        return [self._numbers[part] for part in parts if part in self._numbers]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: v for v, name in enumerate(self.names)}

    def families(
        self,
        size: int = 24,
        continuous: str | Callable[[Column], Family] = "hermite",
        rows: HostRows | None = None,
    ) -> list[Family]:
        """Input functions for each column, for `build`.

        Args:
            size: number of functions for columns that are not discrete.
            continuous: "hermite", "legendre", "fourier", "transformed", "bins" (see `Column.family`), or a
                function from such a column to its family.
            rows: what "transformed" and "bins" are fitted to: training rows that were encoded.
        """
        if isinstance(continuous, str):
            seen = rows if continuous in FITTED else None
            return [c.family(size, continuous, _sample(seen, v, c)) for v, c in enumerate(self.columns)]
        own = continuous
        return [own(c) if c.kind == "continuous" else c.family(size) for c in self.columns]

    def encode(self, rows: Any) -> HostRows:
        """New rows as numbers.

        Args:
            rows: a list of rows, an array with a column for each of the table, a mapping from names to
                columns, or a data frame; of frames and mappings columns with other names are ignored.

        Raises:
            DataError: that names row, column and value, for unknown categories, texts among numbers, ragged
                rows, and missing columns.
        """
        return self.encode_chunk(self._chunk(rows))

    def encode_chunk(self, chunk: Chunk, unknown: Mask | None = None) -> HostRows:
        """Rows that were read from a file as numbers.

        Args:
            chunk: holds the columns of the table in order, see `table_names`.
            unknown: (n, d), where to note values that are no states of discrete columns, which then count as
                missing; None: they are refused.
        """
        return self.encode_parts(chunk.split(self.calendars, self.table_names), unknown)

    def encode_some(self, chunk: Chunk, unknown: Mask | None = None) -> HostRows:
        """The same of a chunk that holds some columns, or parts of dates; all others are missing.

        Example:
            >>> schema = Schema((Column("sex", "binary", ("f", "m")), Column("height", "continuous")))
            >>> schema.encode_some(Chunk(("height",), (np.array([1.8]),), str)).missing
            array([[ True, False]])
        """
        there = chunk.split(self.calendars)
        parts = dict(zip(there.names, there.cells, strict=True))
        nothing: NDArray[np.float64] = np.full(len(chunk.cells[0]) if chunk.cells else 1, np.nan)
        cells = tuple(parts.get(name, nothing) for name in self.names)
        return self.encode_parts(Chunk(self.names, cells, chunk.place), unknown)

    def encode_parts(self, chunk: Chunk, unknown: Mask | None = None) -> HostRows:
        """The same of a chunk that holds the variables in order."""
        if all(cells.dtype.kind not in "OM" for cells in chunk.cells):
            values = np.concatenate(chunk.cells).reshape(len(chunk.cells), -1)
            if (rows := self.encode_numbers(values.T)) is not None:
                return rows
        coded = [
            column.encode(cells, chunk.place, None if unknown is None else unknown[:, v])
            for v, (column, cells) in enumerate(zip(self.columns, chunk.cells, strict=True))
        ]
        x: NDArray[Any] = np.stack([values for values, _ in coded], axis=1).astype(self._dtype)
        return Rows(x, np.stack([missing for _, missing in coded], axis=1))

    def encode_numbers(self, values: NDArray[Any]) -> HostRows | None:
        """Rows (n, d) of numbers in one go, for images and other wide tables.

        None: not every column is continuous or has the states a, a + 1, a + 2, …; or a value is not among
        them, and `encode_chunk` says which.

        Example:
            >>> schema = Schema((Column("a", "count", high=9), Column("b", "continuous")))
            >>> schema.encode_numbers(np.array([[3, 0.5], [np.nan, np.nan]])).x
            array([[3. , 0.5],
                   [0. , nan]])
            >>> print(schema.encode_numbers(np.array([[10, 0.5]])))
            None
        """
        if self._first_states is None or values.dtype.kind not in "fiub":
            return None
        with np.errstate(invalid="ignore"):  # of infinite numbers, which are not in any domain
            codes = values.astype(np.float64) - self._first_states
        missing = np.isnan(codes) if values.dtype.kind == "f" else np.zeros(codes.shape, dtype=bool)
        if not (missing | self._domains.contain(torch.from_numpy(codes)).numpy()).all():
            return None
        codes[missing & self._domains.discrete.numpy()] = 0
        return Rows(codes.astype(self._dtype), missing)

    @cached_property
    def _dtype(self) -> type:
        return np.int64 if all(column.is_discrete for column in self.columns) else np.float64

    @cached_property
    def _domains(self) -> Domains:
        """The domains of the codes of the columns."""
        return Domains([Finite(c.size) if c.is_discrete else Line() for c in self.columns])

    @cached_property
    def _first_states(self) -> NDArray[np.float64] | None:
        """What 0 stands for in each column, (d,), where all numbers are codes after a shift."""
        first = [column.first_state for column in self.columns]
        return None if None in first else np.array(first, dtype=np.float64)

    def decode(
        self, rows: ArrayLike, missing: ArrayLike | None = None, exact: ArrayLike | None = None
    ) -> list[list[Any]]:
        """Encoded rows, or samples of a model, as original values; numbers to the step of their column.

        Args:
            rows: (n, d).
            missing: (n, d) or (d,), cells that are None then.
            exact: likewise, cells that were observed: those are not rounded. Default: none.
        """
        try:
            values = plain(rows).astype(np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"decode: {one_line(error)}. Fix: pass the numbers that encode gave, or samples of a model."
            ) from error
        self._require_width(values.shape, "decode", self.names)
        if missing is not None:
            values[np.broadcast_to(plain(missing).astype(bool), values.shape)] = np.nan
        kept = np.broadcast_to(False if exact is None else plain(exact).astype(bool), values.shape)
        columns = [_words(*part) for part in zip(self.columns, values.T, kept.T, strict=True)]
        return [list(row) for row in zip(*self.joined(columns), strict=True)]

    def joined(self, columns: Sequence[list[Any]]) -> list[list[Any]]:
        """The columns of a table from the decoded ones of the variables."""
        return (
            [self.whole(name, [columns[v] for v in self.variables(name)]) for name in self.table_names]
            if self.calendars
            else list(columns)
        )

    def table_mask(self, mask: Mask) -> Mask:
        """Which cells of a table are missing, of those variables that are, (n, d): (n, columns)."""
        found = [self.lacking(name, mask) for name in self.table_names]
        return np.stack(found, axis=1) if self.calendars else mask

    def lacking(self, name: str, mask: Mask) -> Mask:
        """The rows that lack a column of a table, of those variables that are missing: (n, d) → (n,)."""
        one = next((one for one in self.calendars if one.name == name), None)
        variables = self.variables(name)
        found: Mask = mask[:, variables[0]] if one is None else one.lacks(mask[:, variables])
        return found

    def frame(
        self,
        rows: ArrayLike,
        missing: ArrayLike | None = None,
        exact: ArrayLike | None = None,
        like: Any = None,
    ) -> Any:
        """Encoded rows, or samples of a model, as a table like that from which the columns were inferred.

        Args:
            rows: (n, d), or (…, d): all of them one after the other.
            missing, exact: as for `decode`.
            like: a data frame, whose library, types of columns and, if it has as many rows, index the table
                gets; or "pandas", "polars", "pyarrow", "numpy" or "mapping". Default: like the data that the
                model was made of; of a file the first of pandas, polars, pyarrow that is installed.

        Example:
            >>> from squircuit.data import table
            >>> people = table({"sex": ["f", "m"], "age": np.array([31, 7], dtype=np.int8)})
            >>> people.schema.frame([[1, 1], [0, 1]])
            {'sex': array(['m', 'f'], dtype=object), 'age': array([31, 31], dtype=int8)}
        """
        values = plain(rows)
        flat = [part if part is None else _flat(plain(part)) for part in (missing, exact)]
        cells = self.decode(_flat(values), *flat)
        names = self.table_names
        columns = [list(column) for column in zip(*cells, strict=True)] or [[] for _ in names]
        if self.layout is None:
            return Layout.wished(like).table(names, columns)
        layout = self.layout if like is None else Layout.wished(like)
        return layout.table(names, [self.layout.fitted(*part) for part in zip(names, columns, strict=True)])

    def difference(self, other: Schema) -> str | None:
        """Why numbers of this schema mean something else in another one, in words; None: they do not.

        Example:
            >>> ours, theirs = (Schema((Column("sex", "binary", c),)) for c in (("f", "m"), ("m", "w")))
            >>> ours.difference(theirs)
            "column 'sex' has the states f, m in place of the states m, w"
            >>> ours.difference(ours) is None
            True
        """
        if self.names != other.names and set(self.names) == set(other.names):
            mine, theirs = (listed(schema.names) for schema in (self, other))
            return f"the columns are {mine} in place of {theirs}"
        for own, known in zip(self.columns, other.columns, strict=False):
            if not own.encodes_like(known):
                return f"column {own.name!r} has {_states(own)} in place of {_states(known)}"
        return None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; `from_dict` reads it."""
        layout = {} if self.layout is None else {"layout": self.layout.to_dict()}
        calendars = {"calendars": [asdict(one) for one in self.calendars]} if self.calendars else {}
        return {"columns": [asdict(column) for column in self.columns], **layout, **calendars}

    @staticmethod
    def from_dict(document: Mapping[str, Any]) -> Schema:
        """The schema that `to_dict` described."""
        try:
            columns = tuple(column_from_dict(entry) for entry in document["columns"])
            layout = Layout.from_dict(document["layout"]) if "layout" in document else None
            calendars = tuple(calendar_from_dict(entry) for entry in document.get("calendars", ()))
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
            raise FormatError(
                f"not the description of a schema: {one_line(error)}. Fix: pass what to_dict gave."
            ) from error
        if len({column.name for column in columns}) < len(columns):
            raise FormatError(
                "not the description of a schema: a name is there twice. Fix: pass what to_dict gave."
            )
        names = [column.name for column in columns]
        if any(part not in names for one in calendars for part in one.names):
            raise FormatError(
                "not the description of a schema: a part of a date is no column. Fix: pass what to_dict gave."
            )
        return Schema(columns, layout, calendars)

    def __str__(self) -> str:
        header = ("column", "type", "states", "values", "missing")
        parts = {part: one for one in self.calendars for part in one.names}
        lines = [_of_dates(parts[c.name]) if c.name in parts else _described(c) for c in self.columns]
        return aligned([header, *dict.fromkeys(lines)])

    def _chunk(self, rows: Any) -> Chunk:
        if is_frame(rows):
            return self._made(list(named_columns(rows, self.table_names).values()))
        if not isinstance(rows, Sequence):
            rows = plain(rows)
            self._require_width(rows.shape, "encode", self.table_names)
            return self._made([as_cells(column) for column in rows.T])
        width = len(self.table_names)
        for position, row in enumerate(rows):
            if isinstance(row, str) or not hasattr(row, "__len__") or len(row) != width:
                raise DataError(
                    f"row {position}: {shown(row)} is not a row of {width} cells. "
                    f"Fix: give one cell for each of {listed(self.table_names)}."
                )
        return self._made([as_cells([row[i] for row in rows]) for i in range(width)])

    def _made(self, cells: Sequence[Cells]) -> Chunk:
        return Chunk(self.table_names, tuple(cells), lambda row: f"row {row}")

    def _require_width(self, shape: tuple[int, ...], what: str, names: Sequence[str]) -> None:
        if len(shape) != 2 or shape[1] != len(names):
            raise DataError(
                f"{what}: expected rows of shape (n, {len(names)}), got {shape}. "
                f"Fix: give one column for each of {listed(names)}."
            )


def _words(column: Column, values: Values, exact: Mask) -> list[Any]:
    """The cells of a column in the words of the data; each different number is looked at once."""
    numbers = np.where(exact, values, column.rounded(values))
    different, places = np.unique(numbers, return_inverse=True)
    cells = objects([column.decode(number, exact=True) for number in different.tolist()])[places.ravel()]
    return cells.tolist()  # type: ignore[no-any-return]


def _flat(rows: NDArray[Any]) -> NDArray[Any]:
    """(…, d) → (n, d); a mask (d,) stays as it is."""
    return rows.reshape(-1, rows.shape[-1]) if rows.ndim > 2 else rows


def _sample(rows: HostRows | None, variable: int, column: Column) -> Values | None:
    """What is known of a continuous column, (n,), NaN where missing."""
    if rows is None or column.kind != "continuous":
        return None
    return np.where(rows.missing[:, variable], np.nan, rows.x[:, variable])


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Lines of cells as a table for the terminal.

    Example:
        >>> print(aligned([("a", "b"), ("long", "1")]))
        a     b
        long  1
    """
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rows = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "\n".join(row.rstrip() for row in rows)


def _described(column: Column) -> tuple[str, ...]:
    states = str(column.size) if column.is_discrete else "–"
    return column.name, column.kind, states, _values(column), str(column.missing or "–")


def _of_dates(one: Calendar) -> tuple[str, ...]:
    parts = dict.fromkeys("week" if part in WEEKS else part for part in one.parts)
    seen = f"{one.first} … {one.last}, by {', '.join(parts)}"
    return one.name, one.kind, "–", seen, str(one.missing or "–")


def _states(column: Column) -> str:
    return f"the states {_values(column)}" if column.is_discrete else f"{column.kind} values"


def _values(column: Column) -> str:
    if column.categories:
        more = ", …" if len(column.categories) > 4 else ""
        others = "" if column.pooled is None else f", and {column.pooled} rare ones together"
        between = " < " if column.ordered else ", "
        return between.join(str(category) for category in column.categories[:4]) + more + others
    if column.kind == "continuous":
        return (
            f"{column.low:.4g} … {column.high:.4g}, mean {column.loc:.4g} ± {column.scale:.4g}"
            + _resolution(column)
            + _bounds(column)
        )
    return f"{column.low:g} … {column.high:g}" + (" (periodic)" if column.kind == "periodic" else "")


def _resolution(column: Column) -> str:
    if column.levels:
        return f", {len(column.levels)} levels"
    if column.spikes:
        return ", often " + ", ".join(f"{value:g}" for value, _ in column.spikes)
    return f", step {column.step:g}" if column.step else ""


def _bounds(column: Column) -> str:
    if column.least is not None and column.most is not None:
        return f", within {column.least:g} to {column.most:g}"
    return "" if column.least is None else f", from {column.least:g}"
