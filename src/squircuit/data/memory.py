"""Tables from memory: arrays, tensors, mappings and data frames, with the type of every column inferred."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

from squircuit.data.cells import SEVERAL, Cells, as_cells, read_as, shown
from squircuit.data.reading import require_names
from squircuit.data.schema import Chunk, column_of, is_frame, names_of, plain
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
        if is_frame(rows):
            self._columns, self._dates = _named_columns(rows)
            self.names = tuple(self._columns)
        else:
            array, self._dates = _array(rows), []
            self.named, self.names = False, numbered(int(np.prod(array.shape[1:])))
            self.shape, self.wish = array.shape[1:] if array.ndim > 2 else None, wish_of(array)
            flat = array.reshape(len(array), -1)
            require_names(self.path, self.names)
            self._columns = {name: as_cells(flat[:, int(name)]) for name in self.names}

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        asked = frozenset(names)
        for name in self._dates:
            if name in asked:
                raise DataError(
                    f"column {name!r} holds dates or times",
                    fix="make numbers of them, such as the day of the year for 'periodic:366', or leave it "
                    "out, " + read_as(name, "drop"),
                )
        for name in names:
            _require_cells(name, self._columns[name])
        yield Chunk(tuple(names), tuple(self._columns[name] for name in names), lambda row: f"row {row}")


def _named_columns(rows: Any) -> tuple[dict[str, Cells], list[str]]:
    """The columns by their names, and which of them hold points in time or times between them."""
    names = names_of(rows)
    require_names(Path("data"), [str(name) for name in names])
    arrays = {str(name): column_of(rows, name) for name in names}
    lengths = {name: len(column) for name, column in arrays.items()}
    if len(set(lengths.values())) != 1 or 0 in lengths.values():
        some = dict(list(lengths.items())[:8])
        raise DataError(f"columns of lengths {some} are no table. Fix: give each column a cell for each row.")
    cells = {name: as_cells(column) for name, column in arrays.items()}
    return cells, [name for name, column in arrays.items() if column.dtype.kind in "mM"]


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
