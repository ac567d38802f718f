"""The types of columns in pandas, polars, pyarrow and NumPy: read from a table, made for other cells."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from squircuit.data.cells import is_missing, objects
from squircuit.data.optional import need

TRUTH = "truth values"
"""The type of a column of objects all of which are True or False."""
WHY = "making data frames"


class Library(ABC):
    """What a library of tables calls things."""

    @abstractmethod
    def types(self, rows: Any) -> dict[str, Any]:
        """The type of each column of a table."""

    @abstractmethod
    def type_named(self, name: str, categories: Sequence[Any] | None, ordered: bool) -> Any:
        """The type that is written so; any error says that there is none."""

    @abstractmethod
    def column(self, name: str, cells: list[Any], kind: Any) -> Any:
        """A column of a type; where there is none, or cells do not fit it, of the type that they suggest."""

    @abstractmethod
    def table(self, columns: Mapping[str, Any]) -> Any:
        """Columns as a table."""

    @abstractmethod
    def with_columns(self, rows: Any, columns: Mapping[str, Any]) -> Any:
        """The same table with other columns in place of those with these names; new ones come last."""


@final
class Pandas(Library):
    """The index of a table stays where its columns are replaced."""

    @property
    def _pandas(self) -> Any:
        return need("pandas", WHY, None)

    def types(self, rows: Any) -> dict[str, Any]:
        kinds = zip(rows.columns, rows.dtypes, strict=True)
        return {
            str(name): TRUTH if str(kind) == "object" and are_truths(rows.iloc[:, place]) else kind
            for place, (name, kind) in enumerate(kinds)
        }

    def type_named(self, name: str, categories: Sequence[Any] | None, ordered: bool) -> Any:
        if categories is not None:
            return self._pandas.CategoricalDtype(categories, ordered=ordered)
        return TRUTH if name == TRUTH else self._pandas.api.types.pandas_dtype(name)

    def column(self, name: str, cells: list[Any], kind: Any) -> Any:
        if kind is not None and hasattr(kind, "categories") and not {*cells} - {None} <= {*kind.categories}:
            kind = None  # pandas would make such cells missing
        series = self._pandas.Series
        return _first(lambda: series(cells, dtype=object if kind == TRUTH else kind), lambda: series(cells))

    def table(self, columns: Mapping[str, Any]) -> Any:
        return self._pandas.DataFrame(dict(columns))

    def with_columns(self, rows: Any, columns: Mapping[str, Any]) -> Any:
        made = rows.copy(deep=False)
        for place, name in enumerate(rows.columns):
            if str(name) in columns:
                made.isetitem(place, columns[str(name)].set_axis(rows.index))
        for name in [name for name in columns if name not in {str(name) for name in rows.columns}]:
            made[name] = columns[name].set_axis(rows.index)
        return made


@final
class Polars(Library):
    @property
    def _polars(self) -> Any:
        return need("polars", WHY, None)

    def types(self, rows: Any) -> dict[str, Any]:
        return dict(rows.schema)

    def type_named(self, name: str, categories: Sequence[Any] | None, ordered: bool) -> Any:
        if categories is not None:
            return self._polars.Enum(categories)
        kind = getattr(self._polars, name)
        if not issubclass(kind, self._polars.DataType):  # a file may name anything
            raise TypeError(name)
        return kind()

    def column(self, name: str, cells: list[Any], kind: Any) -> Any:
        series = self._polars.Series
        return _first(lambda: series(name, cells, dtype=kind), lambda: series(name, cells, strict=False))

    def table(self, columns: Mapping[str, Any]) -> Any:
        return self._polars.DataFrame(dict(columns))

    def with_columns(self, rows: Any, columns: Mapping[str, Any]) -> Any:
        return rows.with_columns([column.alias(name) for name, column in columns.items()])


@final
class Arrow(Library):
    @property
    def _arrow(self) -> Any:
        return need("pyarrow", WHY)

    def types(self, rows: Any) -> dict[str, Any]:
        return {entry.name: entry.type for entry in rows.schema}

    def type_named(self, name: str, categories: Sequence[Any] | None, ordered: bool) -> Any:
        if name.startswith("dictionary<values=string"):
            return self._arrow.dictionary(self._arrow.int32(), self._arrow.string())
        return self._arrow.type_for_alias(name)

    def column(self, name: str, cells: list[Any], kind: Any) -> Any:
        array = self._arrow.array
        if kind is not None and self._arrow.types.is_dictionary(kind):
            return _first(
                lambda: array(cells, kind.value_type).dictionary_encode().cast(kind), lambda: array(cells)
            )
        return _first(lambda: array(cells, kind), lambda: array(cells))

    def table(self, columns: Mapping[str, Any]) -> Any:
        return self._arrow.table(dict(columns))

    def with_columns(self, rows: Any, columns: Mapping[str, Any]) -> Any:
        for name, column in columns.items():
            there = name in rows.column_names
            rows = (
                rows.set_column(rows.column_names.index(name), name, column)
                if there
                else rows.append_column(name, column)
            )
        return rows


@final
class Arrays(Library):
    """Mappings from names to arrays."""

    def types(self, rows: Any) -> dict[str, Any]:
        found = {str(name): array_type(cells) for name, cells in rows.items()}
        return {name: kind for name, kind in found.items() if kind is not None}

    def type_named(self, name: str, categories: Sequence[Any] | None, ordered: bool) -> Any:
        return np.dtype(name)

    def column(self, name: str, cells: list[Any], kind: Any) -> NDArray[Any]:
        has_gaps = any(cell is None for cell in cells)
        if isinstance(kind, np.dtype) and kind.kind == "M":  # NaT stands for None
            return _first(lambda: np.array(cells, dtype=kind), lambda: objects(cells))  # type: ignore[no-any-return]
        if kind is not None and not has_gaps:
            return _first(lambda: np.array(cells, dtype=kind), lambda: objects(cells))  # type: ignore[no-any-return]
        if any(isinstance(cell, bool) or not isinstance(cell, int | float | None) for cell in cells):
            return objects(cells)
        if not has_gaps:
            return np.array(cells)
        return np.array([math.nan if cell is None else cell for cell in cells], dtype=kind_of_floats(kind))

    def table(self, columns: Mapping[str, Any]) -> Any:
        return dict(columns)

    def with_columns(self, rows: Any, columns: Mapping[str, Any]) -> Any:
        changed = {name: columns.get(str(name), cells) for name, cells in rows.items()}
        return changed | {name: columns[name] for name in columns if name not in {str(name) for name in rows}}


@final
class Other(Library):
    """A library that narwhals knows, with the types that it chooses."""

    def __init__(self, name: str) -> None:
        self._name = name

    def types(self, rows: Any) -> dict[str, Any]:
        return {}

    def type_named(self, name: str, categories: Sequence[Any] | None, ordered: bool) -> Any:
        raise TypeError(name)

    def column(self, name: str, cells: list[Any], kind: Any) -> Any:
        return cells

    def table(self, columns: Mapping[str, Any]) -> Any:
        return need("narwhals", WHY, None).from_dict(dict(columns), backend=self._name).to_native()

    def with_columns(self, rows: Any, columns: Mapping[str, Any]) -> Any:
        narwhals = need("narwhals", WHY, None)
        frame = narwhals.from_native(rows, eager_only=True)
        made = [narwhals.new_series(name, cells, backend=self._name) for name, cells in columns.items()]
        return frame.with_columns(*made).to_native()


def converter(kind: Any) -> Callable[[Any], Any] | None:
    """What makes of a number or a text what a column of some type, of any library, holds; None: nothing does.

    Example:
        >>> converter(np.dtype("int8"))(200.4), converter("Boolean")(1), converter("string[python]")(2)
        (127, True, '2')
        >>> converter("category") is None
        True
    """
    word = str(kind).lower().partition("[")[0]  # pandas has int64, Int64 and int64[pyarrow]
    if word in ("bool", "boolean", TRUTH):
        return lambda cell: bool(cell >= 0.5)  # a mean may be between
    if word in ("str", "string", "large_string", "string_view", "utf8"):
        return str
    if word in ("float", "double", "halffloat", "float16", "float32", "float64"):
        return float
    if word.removeprefix("u").removeprefix("int") not in ("8", "16", "32", "64"):
        return None
    limits = np.iinfo(word)
    return lambda cell: min(max(round(cell), int(limits.min)), int(limits.max))


def are_truths(cells: Any) -> bool:
    """All cells that are known are True or False, and there is one."""
    found = False
    for cell in cells:
        if isinstance(cell, bool | np.bool_):
            found = True
        elif not is_missing(cell):
            return False
    return found


def array_type(cells: Any) -> Any:
    """The type of an array of numbers, times or truth values; None of all else."""
    dtype = getattr(cells, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind != "O":
        return dtype if dtype.kind in "fiubM" else None
    is_list = isinstance(cells, list | tuple | np.ndarray)
    return np.dtype(bool) if is_list and are_truths(cells) else None


def kind_of_floats(kind: Any) -> Any:
    """A type of floats, else double precision."""
    return kind if isinstance(kind, np.dtype) and kind.kind == "f" else np.float64


def _first(*ways: Callable[[], Any]) -> Any:
    """What the first way that works gives: where cells do not fit a type, the library chooses one."""
    for way in ways[:-1]:
        try:
            return way()
        except Exception:  # libraries have errors of their own
            continue
    return ways[-1]()


def library_of(name: str) -> Library:
    """The library of this name; "numpy" and "mapping" are none, and both make arrays."""
    own: dict[str, Callable[[], Library]] = {
        "pandas": Pandas, "polars": Polars, "pyarrow": Arrow, "numpy": Arrays, "mapping": Arrays,
    }  # fmt: skip
    return own[name]() if name in own else Other(name)
