"""Parquet files, read by row groups, and Feather files. They need pyarrow: pip install 'squircuit[data]'."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, final

from squircuit.data.cells import Cells, objects, read_as
from squircuit.data.content import Content
from squircuit.data.layout import Layout
from squircuit.data.optional import need
from squircuit.data.reading import Source, readable, require_names
from squircuit.data.schema import Chunk
from squircuit.errors import DataError


class ArrowSource(Source):
    """A file of columns that pyarrow reads."""

    what: str

    def __init__(self, content: Content | Path) -> None:
        self.content = content if isinstance(content, Content) else Content(content)
        self.path = self.content.path
        self._arrow = need("pyarrow", f"reading {self.what} files")

    def place(self) -> Any:
        """What pyarrow opens."""
        return self.path if self.content.is_file else self._arrow.BufferReader(self.content.open().read())

    def whole(self) -> Any:
        """All columns and rows, as pyarrow has them."""
        raise NotImplementedError

    def chunk_of(self, table: Any, names: Sequence[str], start: int = 0) -> Chunk:
        """Some columns of a table whose first row is row ``start`` of the file."""
        cells = tuple(self._cells(table.column(name), name) for name in names)
        return Chunk(tuple(names), cells, lambda row: f"{self.path}, row {start + row}")

    def _require_rows(self, rows: int) -> None:
        if rows < 1 or not self.names:
            raise DataError(f"{self.path}: the file has no rows. Fix: pass a file with data.")
        require_names(self.path, self.names)

    def _cells(self, column: Any, name: str) -> Cells:
        types, kind = self._arrow.types, column.type
        if types.is_dictionary(kind):
            column, kind = column.cast(kind.value_type), kind.value_type
        if types.is_string_view(kind):
            column, kind = column.cast(self._arrow.string()), self._arrow.string()
        if types.is_string(kind) or types.is_large_string(kind):
            return column.to_numpy().astype(object)  # type: ignore[no-any-return]
        if types.is_time(kind) or (types.is_timestamp(kind) and kind.tz is not None):
            return objects(column.to_pylist())
        if types.is_date(kind) or types.is_timestamp(kind):
            return column.to_numpy().astype("M8[D]" if types.is_date(kind) else "M8[us]")  # type: ignore[no-any-return]
        if types.is_boolean(kind):
            column, kind = column.cast(self._arrow.int8()), self._arrow.int8()
        if any(test(kind) for test in (types.is_integer, types.is_floating, types.is_decimal, types.is_null)):
            return column.cast(self._arrow.float64(), safe=False).to_numpy()  # type: ignore[no-any-return]
        raise DataError(
            f"the type {kind} is neither number nor text",
            where=f"{self.path}, column {name!r}",
            fix="convert it, or leave it out with " + read_as(name, "drop"),
        )


@final
class ParquetSource(ArrowSource):
    """A Parquet file; no more than a row group of it is in memory at once."""

    what = "Parquet"

    def __init__(self, content: Content | Path) -> None:
        super().__init__(content)
        parquet = need("pyarrow.parquet", "reading Parquet files")
        with readable(self.path, "Parquet", "write it again"):
            self._file = parquet.ParquetFile(self.place())
            self.names = tuple(str(name) for name in self._file.schema_arrow.names)
            self.layout = Layout.of(self._file.schema_arrow.empty_table())
            groups = range(self._file.num_row_groups)
            self.sizes = [int(self._file.metadata.row_group(group).num_rows) for group in groups]
        self._require_rows(sum(self.sizes) if min(self.sizes, default=0) >= 0 else 0)
        self._starts = [0, *itertools.accumulate(self.sizes)]

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        for group in range(len(self.sizes)):
            if self.sizes[group]:
                yield self.group(group, names)

    def group(self, group: int, names: Sequence[str]) -> Chunk:
        """The rows of one row group."""
        with readable(self.path, f"Parquet, row group {group}", "write it again"):
            table = self._file.read_row_group(group, columns=list(names))
            if len(table) != self.sizes[group]:
                raise ValueError(f"{len(table)} rows, expected {self.sizes[group]}")
            return self.chunk_of(table, names, self._starts[group])

    def numbers(self, group: int, names: Sequence[str]) -> None:
        """Columns have types of their own, and `group` has them."""

    def whole(self) -> Any:
        with readable(self.path, "Parquet", "write it again"):
            return self._file.read()


@final
class FeatherSource(ArrowSource):
    """A Feather file, which is one of Arrow, of any version."""

    what = "Feather"

    def __init__(self, content: Content | Path) -> None:
        super().__init__(content)
        feather = need("pyarrow.feather", "reading Feather files")
        with readable(self.path, "Feather", "write it again"):
            self._table = feather.read_table(self.place(), memory_map=False)
            self._table.validate(full=True)
            self.names = tuple(str(name) for name in self._table.column_names)
            self.layout = Layout.of(self._table)
        self._require_rows(len(self._table))

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        with readable(self.path, "Feather", "write it again"):
            yield self.chunk_of(self._table, names)

    def whole(self) -> Any:
        return self._table
