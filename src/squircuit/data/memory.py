"""Tables from memory: arrays, tensors, mappings and data frames, with the type of every column inferred."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

from squircuit.data.cells import SEVERAL, Cells, columns_of, read_as, shown
from squircuit.data.frames import is_frame, named_columns, names_of, plain
from squircuit.data.reading import require_names
from squircuit.data.schema import Chunk
from squircuit.data.sources import Source, numbered, wish_of
from squircuit.data.tabular import Table, Wishes, inferred
from squircuit.errors import DataError


def table(rows: Any, columns: Wishes = None) -> Table:
    """A table of rows in memory, as `read` makes it of a file.

    Args:
        rows: (n, d) array or tensor, NaN = missing, more axes for images; a list of rows; a mapping from
            names to columns; or a data frame.
        columns: types that replace the inferred ones, as for `read`; columns of arrays are "0", "1", ….

    Raises:
        DataError: that names row, column and value.

    Example:
        >>> points = table(np.array([[0.5, 1.0], [np.nan, 350.0], [0.1, 20.0]]), {"1": "periodic:360"})
        >>> [column.kind for column in points.columns], points.missing.sum()
        (['continuous', 'periodic'], np.int64(1))
        >>> table({"sex": ["f", "m"], "age": [31, 7]}).rows
        array([[0, 1],
               [1, 0]])
    """
    return inferred(MemorySource(rows), columns)


@final
class MemorySource(Source):
    """Rows in memory, as the readers of files see a file."""

    def __init__(self, rows: Any) -> None:
        self.path = Path("data")  # what errors call it
        self._frame: Any = rows if is_frame(rows) else None
        if self._frame is None:
            array = _array(rows)
            self.named, self.names = False, numbered(int(np.prod(array.shape[1:])))
            self.shape, self.wish = array.shape[1:] if array.ndim > 2 else None, wish_of(array)
            self._columns = array.reshape(len(array), -1)
        else:
            self._names = {str(name): name for name in names_of(rows)}
            self.names = tuple(str(name) for name in names_of(rows))
            if not self.names:
                raise DataError("no columns are no table. Fix: give some, each a cell for each row.")
        require_names(self.path, self.names)

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        if self._frame is None:
            cells = dict(zip(names, columns_of(self._columns[:, self.positions(names)]), strict=True))
        else:
            cells = named_columns(self._frame, [self._names[name] for name in names])
        for name, column in cells.items():
            _require_cells(name, column)
        if not all(len(column) for column in cells.values()):
            raise DataError("columns without rows are no table. Fix: give each a cell for each row.")
        yield Chunk(tuple(names), tuple(cells.values()), lambda row: f"row {row}")


def _require_cells(name: str, cells: Cells) -> None:
    """Refuse cells that hold several values."""
    if cells.dtype != object:
        return
    for row, cell in enumerate(cells):
        if isinstance(cell, SEVERAL):
            raise DataError(
                f"{shown(cell)} is neither number nor text",
                where=f"row {row}, column {name!r}",
                value=cell,
                fix="give one value a cell, or leave the column out, " + read_as(name, "drop"),
            )


def _array(rows: Any) -> Any:
    if isinstance(rows, str | Path):
        raise DataError(f"{str(rows)!r} is a name. Fix: pass sq.data.read(path) or sq.data.load(name).")
    array = plain(rows)
    if array.ndim < 2 or array.size == 0 or array.dtype.kind not in "fiubUO":
        raise DataError(
            f"the data has shape {array.shape} of {array.dtype}. Fix: pass (n, d) numbers or texts, a "
            "mapping from names to columns, or a data frame."
        )
    return array
