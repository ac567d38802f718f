"""Many images in one file: tar files, as those of webdataset, and Parquet files with a column of images."""

from __future__ import annotations

import io
import tarfile
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from squircuit.data.cells import columns_of
from squircuit.data.images import MOST, SUFFIXES, levels_of
from squircuit.data.optional import need
from squircuit.data.reading import Source, readable
from squircuit.data.schema import Chunk
from squircuit.errors import DataError
from squircuit.storage.checks import require_readable
from squircuit.storage.words import path_text

GROUP = 1024
"""Images of a tar file that are in memory at once."""
NAMED = SUFFIXES | {".image", ".img"}
"""Columns of bytes that are images, with a dot before."""


class ImageGroups(Source):
    """Images of equal size in a file, some at a time; a row is an image, as in a folder of images.

    Attributes:
        sizes: images of each group.
    """

    named = False
    wish = "count:0:255"
    sizes: list[int]

    def __init__(self, path: Path, what: str) -> None:
        self.path = path
        self._pillow = need("PIL.Image", f"reading {what}")

    @abstractmethod
    def encoded(self, group: int) -> Iterator[tuple[str, bytes]]:
        """The images of a group: the name of each for errors, and its file."""

    def _measure(self) -> None:
        """The size of all images is that of the first one."""
        name, content = next(self.encoded(0))
        self.shape = self._levels(name, content).shape
        self.names = tuple(f"pixel{i}" for i in range(int(np.prod(self.shape))))

    def _levels(self, name: str, content: bytes) -> NDArray[np.uint8]:
        return levels_of(self._pillow, lambda: io.BytesIO(content), Path(f"{self.path}, {name}"))

    def numbers(self, group: int, names: Sequence[str]) -> NDArray[np.uint8]:
        """The levels of a group, (n, d)."""
        rows = np.empty((self.sizes[group], len(self.names)), dtype=np.uint8)
        for number, (name, content) in enumerate(self.encoded(group)):
            levels = self._levels(name, content)
            if levels.shape != self.shape:
                raise DataError(
                    f"{path_text(self.path)}, {name}: an image of shape {levels.shape}, but the first one "
                    f"has {self.shape}. Fix: make all images of one size, all grey or all in colour."
                )
            rows[number] = levels.reshape(-1)
        return rows if tuple(names) == self.names else rows[:, self.positions(names)]

    def group(self, group: int, names: Sequence[str]) -> Chunk:
        """The images of a group, as cells."""
        start, path = sum(self.sizes[:group]), self.path
        cells = columns_of(self.numbers(group, names))
        return Chunk(tuple(names), cells, lambda row: f"{path}, image {start + row}")

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        for group in range(len(self.sizes)):
            yield self.group(group, names)


@final
class TarImages(ImageGroups):
    """The images in a tar file that is not compressed, in their order; nothing else in it is looked at."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "tar files of images")
        require_readable(path, DataError)
        fix = "write it again; one that is compressed has to be unpacked first, as by gunzip"
        with readable(path, "a tar file", fix), tarfile.open(path, "r:") as archive:
            self._members = [(m.name, m.offset_data, m.size) for m in archive if _is_image(m)]
            with path.open("rb") as stream:
                stream.seek(archive.offset)
                if stream.read(tarfile.BLOCKSIZE).strip(b"\0") or stream.tell() == archive.offset:
                    raise ValueError("it is cut off")  # where an empty block has to be
        if not self._members:
            raise DataError(
                f"{path}: no images in this tar file. Fix: one with files {', '.join(sorted(SUFFIXES))}."
            )
        count = len(self._members)
        self.sizes = [min(GROUP, count - start) for start in range(0, count, GROUP)]
        self._measure()

    def encoded(self, group: int) -> Iterator[tuple[str, bytes]]:
        with readable(self.path, "a tar file", "check who may read it"), self.path.open("rb") as stream:
            for name, start, size in self._members[group * GROUP : (group + 1) * GROUP]:
                stream.seek(start)
                yield name, stream.read(size)


def _is_image(member: tarfile.TarInfo) -> bool:
    """A file with an image; macOS writes notes beside each that are called as it is, after ._"""
    name = PurePosixPath(member.name)
    plain = member.isreg() and not member.issparse() and not name.name.startswith("._")
    return plain and name.suffix.lower() in SUFFIXES and member.size <= 16 * MOST


@final
class ParquetImages(ImageGroups):
    """A Parquet file with a column of images: their files as bytes, or with a name as (bytes, path).

    Other columns, such as labels, are not read.
    """

    def __init__(self, path: Path, column: str) -> None:
        super().__init__(path, "Parquet files of images")
        self._column = column
        parquet = need("pyarrow.parquet", "reading Parquet files")
        with readable(path, "Parquet", "write it again"):
            self._file: Any = parquet.ParquetFile(path)
            groups = range(self._file.num_row_groups)
            self.sizes = [int(self._file.metadata.row_group(group).num_rows) for group in groups]
        self._groups = [group for group in groups if self.sizes[group]]
        self.sizes = [self.sizes[group] for group in self._groups]
        if not self.sizes:
            raise DataError(f"{path}: the file has no rows. Fix: pass a file with data.")
        self._measure()

    def encoded(self, group: int) -> Iterator[tuple[str, bytes]]:
        number, start = self._groups[group], sum(self.sizes[:group])
        with readable(self.path, f"Parquet, row group {number}", "write it again"):
            read = self._file.read_row_group(number, columns=[self._column])
            cells = read.column(self._column).to_pylist()
        for row, cell in enumerate(cells, start):
            content = cell.get("bytes") if isinstance(cell, dict) else cell
            if not content:
                raise DataError(
                    f"{self.path}, row {row}: no image in column {self._column!r}. Fix: leave the row out."
                )
            yield f"row {row}", content


def image_column(path: Path) -> str | None:
    """The first column of a Parquet file that holds images: bytes with their path, or bytes of that name."""
    types, parquet = need("pyarrow", "reading Parquet files").types, need("pyarrow.parquet", "reading them")
    with readable(path, "Parquet", "write it again"):
        schema = parquet.read_schema(path)
    for column in schema:
        kind, name = column.type, column.name
        if types.is_struct(kind) and {part.name for part in kind} == {"bytes", "path"}:
            return str(name)
        if (types.is_binary(kind) or types.is_large_binary(kind)) and f".{name.lower()}" in NAMED:
            return str(name)
    return None
