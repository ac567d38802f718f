"""Tables from memory: arrays, tensors, mappings and data frames, with the type of every column inferred."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

from squircuit.data.cells import Cells, as_cells
from squircuit.data.schema import Chunk, plain
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
        if isinstance(rows, Mapping) or hasattr(rows, "columns"):
            self._columns, self._dates = _named_columns(rows), _dates(rows)
            self.names = tuple(self._columns)
        else:
            array, self._dates = _array(rows), []
            self.named, self.names = False, numbered(int(np.prod(array.shape[1:])))
            self.shape, self.wish = array.shape[1:] if array.ndim > 2 else None, wish_of(array)
            flat = array.reshape(len(array), -1)
            self._columns = {name: as_cells(flat[:, int(name)]) for name in self.names}

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        for name in self._dates:
            if name in names:
                raise DataError(
                    f"column {name!r} holds dates or times. Fix: make numbers of them, such as the day of "
                    f"the year for 'periodic:366', or leave it out, columns={{{name!r}: 'drop'}}."
                )
        yield Chunk(tuple(names), tuple(self._columns[name] for name in names), lambda row: f"row {row}")


def _named_columns(rows: Any) -> dict[str, Cells]:
    names = list(rows) if isinstance(rows, Mapping) else list(rows.columns)
    cells = {str(name): as_cells(np.asarray(rows[name])) for name in names}
    lengths = {name: len(column) for name, column in cells.items()}
    if not cells or len(cells) < len(names) or len(set(lengths.values())) > 1 or 0 in lengths.values():
        raise DataError(
            f"columns of lengths {lengths} are no table. Fix: give each a name of its own and a cell a row."
        )
    return cells


def _dates(rows: Any) -> list[str]:
    """The names of columns of points in time, or of times between them."""
    names = list(rows) if isinstance(rows, Mapping) else list(rows.columns)
    return [str(name) for name in names if np.asarray(rows[name]).dtype.kind in "mM"]


def _array(rows: Any) -> Any:
    if isinstance(rows, str | Path):
        raise DataError(f"{str(rows)!r} is a name. Fix: pass sq.data.read(path) or sq.data.load(name).")
    try:
        array = plain(rows)
    except (TypeError, ValueError) as error:  # ragged lists
        raise DataError(f"the data is no table ({error}). Fix: give all rows as many cells.") from error
    if array.ndim < 2 or array.size == 0 or array.dtype.kind not in "fiubUO":
        raise DataError(
            f"the data has shape {array.shape} of {array.dtype}. Fix: pass (n, d) numbers or texts, a "
            "mapping from names to columns, or a data frame."
        )
    return array
