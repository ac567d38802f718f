"""Parquet files, read by row groups. pyarrow is optional: ``pip install 'squircuit[data]'``."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, final

from squircuit.data.cells import Cells, read_as
from squircuit.data.layout import Layout
from squircuit.data.optional import need
from squircuit.data.reading import Source, readable, require_names
from squircuit.data.schema import Chunk
from squircuit.errors import DataError


@final
class ParquetSource(Source):
    """A Parquet file; no more than a row group of it is in memory at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._arrow = need("pyarrow", "reading Parquet files")
        parquet = need("pyarrow.parquet", "reading Parquet files")
        with readable(path, "Parquet", "write it again"):
            self._file = parquet.ParquetFile(path)
            self.names = tuple(str(name) for name in self._file.schema_arrow.names)
            groups = range(self._file.num_row_groups)
            self.layout = Layout.of(self._file.schema_arrow.empty_table())
            self.sizes = [int(self._file.metadata.row_group(group).num_rows) for group in groups]
        if sum(self.sizes) < 1 or min(self.sizes) < 0 or not self.names:
            raise DataError(f"{path}: the file has no rows. Fix: pass a file with data.")
        require_names(path, self.names)
        self._starts = [0, *itertools.accumulate(self.sizes)]

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        for group in range(len(self.sizes)):
            if self.sizes[group]:
                yield self.group(group, names)

    def group(self, group: int, names: Sequence[str]) -> Chunk:
        """The rows of one row group."""
        start = self._starts[group]
        with readable(self.path, f"Parquet, row group {group}", "write it again"):
            table = self._file.read_row_group(group, columns=list(names))
            if len(table) != self.sizes[group]:
                raise ValueError(f"{len(table)} rows, expected {self.sizes[group]}")
            cells = tuple(self._cells(table.column(name), name) for name in names)
        return Chunk(tuple(names), cells, lambda row: f"{self.path}, row {start + row}")

    def _cells(self, column: Any, name: str) -> Cells:
        types, kind = self._arrow.types, column.type
        if types.is_dictionary(kind):
            column, kind = column.cast(kind.value_type), kind.value_type
        if types.is_string_view(kind):
            column, kind = column.cast(self._arrow.string()), self._arrow.string()
        if types.is_string(kind) or types.is_large_string(kind):
            return column.to_numpy().astype(object)  # type: ignore[no-any-return]
        if types.is_boolean(kind):
            column, kind = column.cast(self._arrow.int8()), self._arrow.int8()
        if any(test(kind) for test in (types.is_integer, types.is_floating, types.is_decimal, types.is_null)):
            return column.cast(self._arrow.float64(), safe=False).to_numpy()  # type: ignore[no-any-return]
        raise DataError(
            f"the type {kind} is neither number nor text",
            where=f"{self.path}, column {name!r}",
            fix="convert it, or leave it out with " + read_as(name, "drop"),
        )
