"""Parquet files, read by row groups. pyarrow is optional: ``pip install 'squircuit[data]'``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, final

from squircuit.data.cells import Cells
from squircuit.data.optional import need
from squircuit.data.schema import Chunk
from squircuit.data.sources import Source
from squircuit.errors import DataError


@final
class ParquetSource(Source):
    """A Parquet file; no more than a row group of it is in memory at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._arrow = need("pyarrow", "reading Parquet files")
        parquet = need("pyarrow.parquet", "reading Parquet files")
        try:
            self._file = parquet.ParquetFile(path)
        except (OSError, self._arrow.ArrowException) as error:
            raise DataError(f"{path}: cannot be read as Parquet ({error}). Fix: write it again.") from error
        self.names = tuple(self._file.schema_arrow.names)
        groups = range(self._file.num_row_groups)
        self.sizes = [int(self._file.metadata.row_group(group).num_rows) for group in groups]
        if not sum(self.sizes) or not self.names:
            raise DataError(f"{path}: the file has no rows. Fix: pass a file with data.")

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        for group in range(len(self.sizes)):
            if self.sizes[group]:
                yield self.group(group, names)

    def group(self, group: int, names: Sequence[str]) -> Chunk:
        """The rows of one row group."""
        start = sum(self.sizes[:group])
        try:
            table = self._file.read_row_group(group, columns=list(names))
        except (OSError, self._arrow.ArrowException) as error:
            raise DataError(f"{self.path}: row group {group} is damaged ({error}).") from error
        cells = tuple(self._cells(table.column(name), name) for name in names)
        return Chunk(tuple(names), cells, lambda row: f"{self.path}, row {start + row}")

    def _cells(self, column: Any, name: str) -> Cells:
        types, kind = self._arrow.types, column.type
        if types.is_dictionary(kind):
            column, kind = column.cast(kind.value_type), kind.value_type
        if types.is_string(kind) or types.is_large_string(kind):
            return column.to_numpy().astype(object)  # type: ignore[no-any-return]
        if types.is_boolean(kind):
            column, kind = column.cast(self._arrow.int8()), self._arrow.int8()
        if any(test(kind) for test in (types.is_integer, types.is_floating, types.is_decimal, types.is_null)):
            return column.cast(self._arrow.float64(), safe=False).to_numpy()  # type: ignore[no-any-return]
        raise DataError(
            f"{self.path}, column {name!r}: the type {kind} is neither number nor text. "
            f"Fix: convert it, or leave it out with columns={{{name!r}: 'drop'}}."
        )
