"""Files as chunks of rows: CSV and NumPy. What `read`, `scan` and `Batches` see of a file."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import math
import sys
import warnings
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any, final

import numpy as np
from numpy.typing import NDArray

from squircuit.data.cells import columns_of, number
from squircuit.data.reading import MOST_COLUMNS, plausible, readable, require_memory, require_names
from squircuit.data.schema import Chunk
from squircuit.errors import DataError, ParameterError, SquircuitWarning, Wording
from squircuit.storage.words import one_line, printable

CHUNK = 65_536
"""Rows that are in memory at once."""
BLOCK = 2**20
"""Bytes that are passed over at once."""
MOST_LINE = 2**26
"""Characters of one line of a CSV file."""
BLANK, MOST_BLANK = frozenset({"\n", "\r\n", "\r"}), 2**20
"""Blank lines are passed over, but not for ever."""
HEADERS: dict[tuple[int, int], Any] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
"""Those of arrays of numbers and texts; a third one is for records with names of letters beyond Latin."""
SOME_COLUMNS = 4
"""From here on a first row of 0, 1, 2, … is no coincidence."""


class Source(ABC):
    """A file of rows.

    Attributes:
        path: of the file.
        names: of its columns; "0", "1", … where the file has none.
        named: whether the file has names.
        guessed: whether nobody said that it has names, so that its first row may have been taken for them.
        wish: the type of every column, where the file says it, as for `infer`.
        shape: of one row, where it is an image, else None.
    """

    path: Path
    names: tuple[str, ...]
    named: bool = True
    guessed: bool = False
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
        _require_delimiter(self._delimiter)
        first = self._first_line()
        self._delimiter = delimiter or max(",;\t|", key=first.count)
        _, cells = next(self._lines())
        self.named = header if header is not None else any(number(cell) is None for cell in cells)
        self.guessed = header is None
        self.names = tuple(cell.strip() for cell in cells) if self.named else numbered(len(cells))
        fix = Wording("; if the first line holds data, pass header=False", "")
        require_names(path, self.names, fix)
        if self.guessed and not self.named:
            _warn_of_numbers_as_names(path, cells)

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
                longer = any("\n" in cell for cell in cells)
                hint = ", which a quote continues on the lines below," if longer else ""
                raise DataError(
                    f"{len(cells)} cells, but the first line has {width}",
                    where=f"{self.path}, line {line}{hint}",
                    fix=f"correct the line; cells end at {self._delimiter!r}"
                    + Wording(", else pass delimiter=", ""),
                )
            yield line, cells

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        """The rows that are not blank, each with the number of the line on which it begins."""
        with self._readable(), self._open() as stream:
            text = _lines_of(stream, self.path)
            reader = csv.reader(text, delimiter=self._delimiter, skipinitialspace=True, strict=True)
            while True:
                start = reader.line_num + 1
                try:
                    cells = next(reader, None)
                except csv.Error as error:
                    raise self._wrong_cell(start, reader.line_num, error) from error
                if cells is None:
                    return
                if cells:
                    yield start, cells

    def _wrong_cell(self, first: int, last: int, error: csv.Error) -> DataError:
        """What is wrong in a row that begins and ends on these lines, by the quote that is to blame."""
        with self._open() as stream:
            lines = itertools.islice(_lines_of(stream, self.path), first - 1, last)
            opened, inside = last_quote(lines, self._delimiter)
        if opened is None:
            return DataError(
                f"{self.path}, line {first}: {one_line(error)}. Fix: shorten the cell, or remove its column."
            )
        what = "is never closed" if inside else "is followed by more text where it closes"
        if "limit" in str(error):
            what = f"is not closed within {csv.field_size_limit():,} characters"
        return DataError(
            f"{self.path}, line {first + opened}: a quote opens a cell there and {what}. Fix: close the "
            'quote at the end of the cell, and write quotes inside it twice: "a ""good"" year".'
        )

    def _first_line(self) -> str:
        with self._readable(), self._open() as stream:
            first = next((line for line in _lines_of(stream, self.path) if line.strip()), "")
        if not first:
            raise DataError(f"{self.path}: the file is empty. Fix: pass a file with data.")
        return first

    def _readable(self) -> AbstractContextManager[None]:
        packed = self.path.suffix.lower() == ".gz"
        return readable(self.path, "CSV", "copy it again, or " * packed + "save it as UTF-8 CSV")

    def _open(self) -> io.TextIOWrapper:
        packed = self.path.suffix.lower() == ".gz"
        stream: Any = gzip.open(self.path) if packed else self.path.open("rb")  # noqa: SIM115
        return io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")


@final
class NumpySource(Source):
    """A .npy file, mapped and not loaded; or a .npz file with one array, or with one for each column."""

    def __init__(self, path: Path) -> None:
        self.path = path
        arrays = _arrays(path)
        if len(arrays) == 1:
            ((_, array),) = arrays.items()
            self.array = array.reshape(len(array), -1) if array.size else array.reshape(0, 0)
            if self.array.shape[1] > MOST_COLUMNS:
                raise DataError(
                    f"{path}: {self.array.shape[1]:,} columns. Fix: pass at most {MOST_COLUMNS:,}."
                )
            self.named, self.names = False, numbered(self.array.shape[1])
            self.shape = array.shape[1:] if array.ndim > 2 else None
        else:
            self.array, self.names = _stacked(path, arrays), tuple(arrays)
            require_names(path, self.names)
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
        with _names_file(self.path):
            cells = columns_of(np.asarray(rows))
        return Chunk(tuple(names), cells, lambda row: f"{self.path}, row {start + row}")


def wish_of(array: NDArray[Any]) -> str | None:
    """Bytes are pictures: the same levels for all columns."""
    if array.dtype not in (np.bool_, np.uint8):
        return None
    return f"count:0:{255 if array.max() > 1 else 1}"


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of the file; never a pickle, which could run any program."""
    with readable(path, "NumPy", "save plain numbers with numpy.save"):
        if zipfile.is_zipfile(path):
            return _archived(path)
        with path.open("rb") as stream:
            shape, dtype = _header(stream, path)
            there = path.stat().st_size - stream.tell()
        if _require_promised(shape, dtype, there) == 0:
            return {"": np.empty(shape, dtype)}  # nothing to be mapped
        return {"": np.load(path, mmap_mode="r", allow_pickle=False)}


def _archived(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a .npz file, each looked at before it is unpacked."""
    with zipfile.ZipFile(path) as archive:
        parts = archive.infolist()
        for part in parts:
            if not part.filename.endswith(".npy"):  # to pass it over would lose a column where it is damaged
                raise ValueError(f"{printable(part.filename, 40)!r} in it is no array")
        _require_small(path, sum(part.file_size for part in parts))
        arrays = {part.filename.removesuffix(".npy"): _unpacked(path, archive, part) for part in parts}
    if not arrays:
        raise DataError(f"{path}: the file holds no array. Fix: save one with numpy.savez.")
    return arrays


def _unpacked(path: Path, archive: zipfile.ZipFile, part: zipfile.ZipInfo) -> NDArray[Any]:
    with archive.open(part) as stream:
        _require_promised(*_header(stream, path), part.file_size)
    with archive.open(part) as stream:
        array: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
        while stream.read(BLOCK):
            pass  # to the end, where the checksum is compared
    return array


def _require_promised(shape: tuple[int, ...], dtype: np.dtype[Any], there: int) -> int:
    """The bytes that a header promises, no more than are there."""
    promised = math.prod(shape) * dtype.itemsize
    if there < promised:
        raise ValueError(f"its header promises {promised} bytes, {there} are there")
    return promised


def _require_small(path: Path, size: int) -> None:
    """A zip file says how large its parts are; small ones can become larger than the memory."""
    require_memory(path, size)
    most = plausible(path.stat().st_size)
    if size > most:
        raise DataError(
            f"{path}: its arrays take {size:,} bytes, more than {most:,} in a file so small. "
            "Fix: if you trust it, save them with numpy.save."
        )


def _header(stream: IO[bytes], path: Path) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of an array, refused before NumPy maps it: with types of size 0 it ends the process."""
    version = np.lib.format.read_magic(stream)
    if version not in HEADERS:
        raise ValueError("an array of records")
    shape, _, dtype = HEADERS[version](stream)
    if not shape or dtype.kind not in "fiubU" or dtype.itemsize == 0:
        raise DataError(
            f"{path}: shape {printable(shape)} of {printable(dtype)}. "
            "Fix: save an (n, d) array of numbers or texts."
        )
    if not all(type(length) is int and 0 <= length < sys.maxsize for length in shape):
        raise ValueError(f"its shape is {printable(shape)}")
    return shape, dtype


def _stacked(path: Path, arrays: dict[str, NDArray[Any]]) -> NDArray[Any]:
    """Columns that were saved one by one, as rows."""
    shapes = {name: array.shape for name, array in arrays.items()}
    if len(set(shapes.values())) != 1 or any(len(shape) != 1 for shape in shapes.values()):
        raise DataError(
            f"{path}: several arrays, of shapes {printable(shapes)}. "
            "Fix: save one (n, d) array, or one (n,) array a column."
        )
    kinds = {array.dtype.kind for array in arrays.values()}
    return np.stack([a.astype(object) if "U" in kinds else a for a in arrays.values()], axis=1)


@contextmanager
def _names_file(path: Path) -> Iterator[None]:
    """The file in the errors of its cells."""
    try:
        yield
    except DataError as error:
        raise error.at(str(path)) from error


def numbered(width: int) -> tuple[str, ...]:
    """Names for columns that have none."""
    return tuple(str(i) for i in range(width))


def last_quote(lines: Iterable[str], delimiter: str) -> tuple[int | None, bool]:
    """The number of the line (from 0) with the last quote that opens a cell, and whether it is still open.

    Example:
        >>> last_quote(['a,"b', 'c",d', 'e,"f'], ",")
        (2, True)
        >>> last_quote(['a "b" c'], ",")
        (None, False)
    """
    opened, state = None, "start"
    for position, line in enumerate(lines):
        for character in line:
            if character == '"' and state == "start":
                opened, state = position, "inside"
            elif character == '"' and state in ("inside", "closed"):
                state = "closed" if state == "inside" else "inside"  # two quotes are a character of the cell
            elif state != "inside":
                ends = character == delimiter or (character == " " and state == "start")
                state = "start" if ends else "plain"
        state = "inside" if state == "inside" else "start"
    return opened, state == "inside"


def _lines_of(stream: io.TextIOWrapper, path: Path) -> Iterator[str]:
    """The lines of a text; small files of endless lines, or of endless blank ones, are soon refused."""
    most = plausible(path.stat().st_size) if path.suffix.lower() == ".gz" else math.inf
    blank = 0
    while line := stream.readline(MOST_LINE + 1):
        most -= len(line)
        blank = blank + 1 if line in BLANK else 0
        if len(line) > MOST_LINE:
            raise DataError(
                f"{path}: a line of more than {MOST_LINE:,} characters. Fix: end every row with a new line."
            )
        if blank > MOST_BLANK:
            raise DataError(f"{path}: more than {MOST_BLANK:,} blank lines. Fix: delete them.")
        if most < 0:
            raise DataError(
                f"{path}: it becomes far larger when it is decompressed than tables do. "
                "Fix: if you trust it, decompress it with gunzip and pass the plain file."
            )
        yield line


def _require_delimiter(delimiter: str) -> None:
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n ':
        raise ParameterError(f"delimiter={delimiter!r}. Fix: pass one character, such as ',' or ';'.")


def _warn_of_numbers_as_names(path: Path, cells: Sequence[str]) -> None:
    """The names that pandas makes up, 0, 1, 2, …, are numbers, and so would be a row of data."""
    if len(cells) >= SOME_COLUMNS and tuple(cell.strip() for cell in cells) == numbered(len(cells)):
        warnings.warn(
            SquircuitWarning(
                f"{path}, line 1: 0, 1, 2, … up to {len(cells) - 1} is read as a row of data. If these are "
                "names that pandas made, "
                + Wording("pass header=True or ", "")
                + "write the file with to_csv(…, header=False, index=False)."
            ),
            stacklevel=4,
        )
