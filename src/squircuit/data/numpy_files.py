"""NumPy files, .npy and .npz, as chunks of rows."""

from __future__ import annotations

import math
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, final

import numpy as np
from numpy.typing import NDArray

from squircuit.data.cells import columns_of
from squircuit.data.reading import (
    MOST_COLUMNS,
    Source,
    numbered,
    plausible,
    readable,
    require_memory,
    require_names,
    wish_of,
)
from squircuit.data.schema import Chunk
from squircuit.errors import DataError
from squircuit.storage.words import printable

CHUNK = 65_536
"""Rows that are in memory at once."""
BLOCK = 2**20
"""Bytes that are passed over at once."""
HEADERS: dict[tuple[int, int], Any] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
"""Those of arrays of numbers and texts; a third one is for records with names of letters beyond Latin."""


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
