"""Files as chunks of rows: CSV and NumPy. What `read`, `scan` and `Batches` see of a file."""

from __future__ import annotations

import csv
import gzip
import io
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from squircuit.data.cells import as_cells, number
from squircuit.data.schema import Chunk
from squircuit.errors import DataError

CHUNK = 65_536
"""Rows that are in memory at once."""


class Source(ABC):
    """A file of rows.

    Attributes:
        path: of the file.
        names: of its columns; "0", "1", … where the file has none.
        named: whether the file has names.
        wish: the type of every column, where the file says it, as for `infer`.
        shape: of one row, where it is an image, else None.
    """

    path: Path
    names: tuple[str, ...]
    named: bool = True
    wish: str | None = None
    shape: tuple[int, ...] | None = None

    @abstractmethod
    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """The rows from the first to the last, some at a time, with the columns of these names."""

    def positions(self, names: Sequence[str]) -> list[int]:
        where = {name: position for position, name in enumerate(self.names)}
        return [where[name] for name in names]


@final
class CsvSource(Source):
    """A CSV file, plain or gzip, UTF-8; ``header`` and ``delimiter`` are looked for where they are None."""

    def __init__(self, path: Path, header: bool | None = None, delimiter: str | None = None) -> None:
        self.path, self._delimiter = path, delimiter or ","
        first = self._first_line()
        self._delimiter = delimiter or max(",;\t|", key=first.count)
        _, cells = next(self._lines())
        self.named = header if header is not None else any(number(cell) is None for cell in cells)
        self.names = tuple(cell.strip() for cell in cells) if self.named else numbered(len(cells))
        _require_unique(path, self.names)

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        chosen, block, found = self.positions(names), [], False
        for entry in self._rows():
            block.append(entry)
            if len(block) == CHUNK:
                yield self._chunk(block, chosen, names)
                block, found = [], True
        if not block and not found:
            raise DataError(f"{self.path}: no rows below the header. Fix: pass a file with data.")
        if block:
            yield self._chunk(block, chosen, names)

    def _chunk(self, block: list[tuple[int, list[str]]], chosen: list[int], names: Sequence[str]) -> Chunk:
        numbers = [line for line, _ in block]
        columns = tuple(np.array([cells[i] for _, cells in block], dtype=object) for i in chosen)
        return Chunk(tuple(names), columns, lambda row: f"{self.path}, line {numbers[row]}")

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        lines, width = self._lines(), len(self.names)
        if self.named:
            next(lines)
        for line, cells in lines:
            if len(cells) != width:
                raise DataError(
                    f"{self.path}, line {line}: {len(cells)} cells, but the first line has {width}. "
                    f"Fix: correct the line; cells end at {self._delimiter!r}, else pass delimiter=."
                )
            yield line, cells

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        """Numbered lines that are not blank."""
        try:
            with self._open() as stream:
                reader = csv.reader(stream, delimiter=self._delimiter)
                for cells in reader:
                    if cells:
                        yield reader.line_num, cells
        except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
            raise DataError(
                f"{self.path}: cannot be read as CSV ({error}). Fix: save it as UTF-8 CSV."
            ) from error

    def _first_line(self) -> str:
        try:
            with self._open() as stream:
                first = next((line for line in stream if line.strip()), "")
        except (OSError, EOFError, UnicodeDecodeError) as error:
            raise DataError(
                f"{self.path}: cannot be read as CSV ({error}). Fix: save it as UTF-8 CSV."
            ) from error
        if not first:
            raise DataError(f"{self.path}: the file is empty. Fix: pass a file with data.")
        return first

    def _open(self) -> io.TextIOWrapper:
        stream: Any = gzip.open(self.path) if self.path.suffix == ".gz" else self.path.open("rb")  # noqa: SIM115
        return io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")


@final
class NumpySource(Source):
    """A .npy file, mapped and not loaded; or a .npz file with one array, or with one for each column."""

    def __init__(self, path: Path) -> None:
        self.path = path
        arrays = _arrays(path)
        if len(arrays) == 1:
            ((_, array),) = arrays.items()
            self.array = _as_rows(path, array)
            self.named, self.names = False, numbered(self.array.shape[1])
            self.shape = array.shape[1:] if array.ndim > 2 else None
        else:
            self.array, self.names = _stacked(path, arrays), tuple(arrays)
        if self.array.size == 0:
            raise DataError(
                f"{path}: the array is empty, of shape {self.array.shape}. Fix: pass one with data."
            )
        self.wish = wish_of(self.array)

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        chosen = self.positions(names)
        for start in range(0, len(self.array), CHUNK):
            yield self.chunk(self.array[start : start + CHUNK, chosen], names, start)

    def chunk(self, rows: NDArray[Any], names: Sequence[str], start: int = 0) -> Chunk:
        cells = tuple(as_cells(column) for column in np.asarray(rows).T)
        return Chunk(tuple(names), cells, lambda row: f"{self.path}, row {start + row}")


def wish_of(array: NDArray[Any]) -> str | None:
    """Bytes are pictures: the same levels for all columns."""
    if array.dtype not in (np.bool_, np.uint8):
        return None
    return f"count:0:{255 if array.max() > 1 else 1}"


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        content = np.load(path, mmap_mode="r", allow_pickle=False)
        return {"": content} if isinstance(content, np.ndarray) else dict(content)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{path}: cannot be read as NumPy ({error}). Fix: save plain numbers with numpy.save."
        ) from error


def _as_rows(path: Path, array: NDArray[Any]) -> NDArray[Any]:
    if array.ndim == 0 or array.dtype.kind not in "fiubU":
        raise DataError(
            f"{path}: shape {array.shape} of {array.dtype}. Fix: save an (n, d) array of numbers or texts."
        )
    return array.reshape(len(array), -1) if array.size else array.reshape(0, 0)


def _stacked(path: Path, arrays: dict[str, NDArray[Any]]) -> NDArray[Any]:
    """Columns that were saved one by one, as rows."""
    shapes = {name: array.shape for name, array in arrays.items()}
    if len(set(shapes.values())) != 1 or any(len(shape) != 1 for shape in shapes.values()):
        raise DataError(
            f"{path}: several arrays, of shapes {shapes}. "
            "Fix: save one (n, d) array, or one (n,) array a column."
        )
    kinds = {array.dtype.kind for array in arrays.values()}
    return np.stack([a.astype(object) if "U" in kinds else a for a in arrays.values()], axis=1)


def numbered(width: int) -> tuple[str, ...]:
    """Names for columns that have none."""
    return tuple(str(i) for i in range(width))


def _require_unique(path: Path, names: Sequence[str]) -> None:
    for position, name in enumerate(names):
        if not name or name in names[:position]:
            index = "; an index that pandas wrote is left out by to_csv(…, index=False)"
            raise DataError(
                f"{path}: the name {name!r} of column {position} is {'there twice' if name else 'empty'}. "
                f"Fix: give every column a name of its own{'' if name or position else index}; if the first "
                "line holds data, pass header=False."
            )
