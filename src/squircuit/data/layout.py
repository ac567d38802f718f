"""What a table looks like where it lives: its library, the types of its columns, its index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from squircuit.data.cells import is_missing, objects
from squircuit.data.frames import is_frame
from squircuit.data.libraries import Library, converter, library_of
from squircuit.data.optional import installed
from squircuit.errors import ParameterError

FRAMES = ("pandas", "polars", "pyarrow")
KNOWN = (*FRAMES, "numpy", "mapping")
ALL = ""
"""What stands in place of the name of a column: an array has one type for all."""


@final
@dataclass(frozen=True)
class Layout:
    """The library of a table and the types of its columns, to make tables that look like it.

    Args:
        library: "pandas", "polars", "pyarrow" or another one that narwhals knows; "numpy", an array (n, d);
            "mapping", from names to arrays.
        types: column → its type in that library, or its name and categories, as far as they are known.
        index: of the rows, where the library is pandas.

    Example:
        >>> import polars
        >>> layout = Layout.of(polars.DataFrame({"n": [1, 2]}, schema={"n": polars.UInt8}))
        >>> layout.table(["n", "x"], [[3, 300], [0.5, 1.5]]).dtypes
        [UInt8, Float64]
        >>> Layout.from_dict(layout.to_dict()).table(["n"], [[3]]).dtypes
        [UInt8]
    """

    library: str
    types: Mapping[str, Any] = field(default_factory=dict)
    index: Any = field(default=None, compare=False, repr=False)

    @staticmethod
    def of(rows: Any) -> Layout:
        """That of a data frame, a mapping or an array."""
        if not is_frame(rows):
            dtype = getattr(rows, "dtype", None)
            return Layout(
                "numpy", {ALL: dtype} if isinstance(dtype, np.dtype) and dtype.kind in "fiub" else {}
            )
        package = type(rows).__module__.partition(".")[0]
        library = "mapping" if isinstance(rows, Mapping) else package
        return Layout(library, library_of(library).types(rows), rows.index if library == "pandas" else None)

    @property
    def without_rows(self) -> Layout:
        """The same without an index, which is that of some rows."""
        return Layout(self.library, self.types)

    @staticmethod
    def wished(like: Any) -> Layout:
        """That of a table, or a library by its name; None: the first of these that is installed."""
        if like is None:
            return Layout(next((name for name in FRAMES if installed(name) is not None), "mapping"))
        if not isinstance(like, str):
            return Layout.of(like)
        if like not in KNOWN:
            raise ParameterError(
                f"like={like!r} is no kind of table. Fix: pass a data frame, or one of {', '.join(KNOWN)}."
            )
        return Layout(like)

    def table(self, names: Sequence[str], columns: Sequence[Sequence[Any]]) -> Any:
        """A table of this kind; of as many rows as the index has, with that index.

        Args:
            names: of the columns.
            columns: their cells, None where one is missing.
        """
        if self.library == "numpy":
            return self._array(columns)
        typed = {name: self.column(name, cells) for name, cells in zip(names, columns, strict=True)}
        made = self._library.table(typed)
        is_own = self.index is not None and len(self.index) == len(made)
        return made.set_axis(self.index) if is_own else made

    def filled(self, rows: Any, columns: Mapping[str, Sequence[Any]]) -> Any:
        """The same table with other cells in some columns; its other columns and its index stay."""
        made = {name: self.column(name, cells) for name, cells in columns.items()}
        return self._library.with_columns(rows, made)

    def column(self, name: str, cells: Sequence[Any]) -> Any:
        """Some cells as a column of the library, of the type of the column with this name."""
        kind = _type(self._library, self.types.get(name, self.types.get(ALL)))
        return self._library.column(name, fitted(cells, kind), kind)

    def fitted(self, name: str, cells: Sequence[Any]) -> list[Any]:
        """Some cells as the column of this name holds them, for a table of another library."""
        return fitted(cells, self.types.get(name, self.types.get(ALL)))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, without the index."""
        return {
            "library": self.library,
            "types": {name: _described(kind) for name, kind in self.types.items()},
        }

    @staticmethod
    def from_dict(document: Any) -> Layout:
        """What `to_dict` described; no library is imported before a table is made.

        Raises:
            TypeError, KeyError: where it describes no layout.
        """
        library, types = document["library"], document["types"]
        if library not in KNOWN or not isinstance(types, Mapping):
            raise TypeError(f"{str(library)[:40]!r} is no kind of table")
        for entry in types.values():
            if not isinstance(entry, str) and not isinstance(entry["categories"], list):
                raise TypeError("the type of a column is neither a name nor a list of categories")
        return Layout(library, dict(types))

    @property
    def _library(self) -> Library:
        return library_of(self.library)

    def _array(self, columns: Sequence[Sequence[Any]]) -> Any:
        """(n, d) numbers, or objects where some column has others."""
        made = [self.column(ALL, cells) for cells in columns]
        return np.stack([objects(cells.tolist()) for cells in made] if _mixed(made) else made, axis=1)


def fitted(cells: Sequence[Any], kind: Any) -> list[Any]:
    """Cells as a column of some type holds them: truth values, whole numbers in its range, floats, texts.

    Example:
        >>> fitted([1, 0, np.nan], np.dtype(bool)), fitted([-2, 7.6], "UInt8"), fitted([2], "string")
        ([True, False, None], [0, 8], ['2'])
    """
    known = [None if not isinstance(cell, str) and is_missing(cell) else cell for cell in cells]
    convert = converter(kind)
    return known if convert is None else [None if cell is None else convert(cell) for cell in known]


def _mixed(columns: Sequence[Any]) -> bool:
    return any(column.dtype == object for column in columns)


def _described(kind: Any) -> Any:
    """A type as JSON data: its name, and the categories that it lists."""
    categories = getattr(kind, "categories", None)
    if categories is None or type(kind).__name__ == "Categorical":  # polars' own lists none
        return str(kind)
    entries = [entry.item() if isinstance(entry, np.generic) else entry for entry in list(categories)]
    return {"name": "category", "categories": entries, "ordered": bool(getattr(kind, "ordered", False))}


def _type(library: Library, entry: Any) -> Any:
    """A type, also one that `_described` described; None where the library has none of that name."""
    if not isinstance(entry, str | Mapping):
        return entry
    try:
        if isinstance(entry, str):
            return library.type_named(entry, None, False)
        return library.type_named("category", list(entry["categories"]), bool(entry.get("ordered")))
    except Exception:  # of another version of the library, or written by hand
        return None
