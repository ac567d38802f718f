"""What every reader of rows shares: how rows are asked for, one clear error for whatever is wrong, limits."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squircuit.data.layout import Layout
from squircuit.data.schema import Chunk
from squircuit.errors import DataError, SquircuitError, Wording
from squircuit.storage.memory import free_bytes as memory
from squircuit.storage.words import one_line, path_text, printable

MOST_COLUMNS = 2**20
"""The most columns of a table: each has a name, a type and input functions of its own."""
LONGEST = 500
"""Characters of the name of a column, as messages write it."""
SMALL, RATIO = 2**26, 128
"""Bytes that any gzip file may hold, and how many each of its bytes adds; images take a tenth as gzip."""


class Source(ABC):
    """A file of rows.

    Attributes:
        path: of the file.
        names: of its columns; "0", "1", … where the file has none.
        named: whether the file has names.
        guessed: whether nobody said that it has names, so that its first row may have been taken for them.
        wish: the type of every column, where the file says it, as for `infer`.
        shape: of one row, where it is an image, else None.
        layout: its library and types of columns, where it is a table that has some, else None.
    """

    path: Path
    names: tuple[str, ...]
    named: bool = True
    guessed: bool = False
    wish: str | None = None
    shape: tuple[int, ...] | None = None
    layout: Layout | None = None

    @abstractmethod
    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """The rows from the first to the last, some at a time, with the columns of these names."""

    def positions(self, names: Sequence[str]) -> list[int]:
        where = {name: position for position, name in enumerate(self.names)}
        return [where[name] for name in names]


@contextmanager
def readable(path: Path, what: str, fix: str | Wording) -> Iterator[None]:
    """One clear error for all that a library may raise of bytes that anybody may have written."""
    try:
        yield
    except (SquircuitError, Warning):  # warnings may have been made errors by the user
        raise
    except MemoryError as error:
        raise too_large(path) from error
    except Exception as error:  # each library has errors of its own, and damaged files find all of them
        raise DataError(
            f"cannot be read as {what} ({one_line(error)})", where=path_text(path), fix=fix
        ) from error


@contextmanager
def enough_memory(path: Path) -> Iterator[None]:
    """One clear error where rows do not fit."""
    try:
        yield
    except MemoryError as error:
        raise too_large(path) from error


def too_large(path: Path | str) -> DataError:
    return DataError(
        f"{path_text(Path(path))}: its rows do not fit into memory. "
        "Fix: pass fewer rows, or stream a .npy or Parquet file with sq.data.Batches."
    )


def require_memory(path: Path, needed: int) -> None:
    """Refuse what is known to be larger than the memory before it is read."""
    there = memory()
    if there is not None and needed > there:
        raise too_large(path)


def require_names(path: Path, names: Sequence[str], fix: str | Wording = "") -> None:
    """Refuse columns without a name of their own, in one pass."""
    if len(names) > MOST_COLUMNS:
        raise DataError(f"{path}: {len(names):,} columns. Fix: pass at most {MOST_COLUMNS:,}.")
    seen: set[str] = set()
    for position, name in enumerate(names):
        if not name or name in seen:
            index = "; an index that pandas wrote is left out by to_csv(…, index=False)"
            raise DataError(
                f"the name {name!r} of column {position} is {'there twice' if name else 'empty'}",
                where=str(path),
                value=name,
                fix=f"give every column a name of its own{'' if name or position else index}" + fix,
            )
        if len(repr(name)) > LONGEST:
            raise DataError(
                f"the name {printable(name, 40)!r} of column {position} has {len(name):,} characters",
                where=str(path),
                fix="give it a shorter one" + fix,
            )
        seen.add(name)


def plausible(size: int) -> int:
    """Bytes that a compressed file of some size may hold; more is a bomb, or data of almost nothing."""
    return SMALL + RATIO * size


def decompressed(content: bytes, where: str) -> bytes:
    """The content of a gzip file, of one part or several, and no more than its size makes likely.

    Example:
        >>> import gzip
        >>> decompressed(gzip.compress(b"ab") + gzip.compress(b"c"), "file.gz")
        b'abc'
    """
    most, found, rest = plausible(len(content)), bytearray(), content
    while rest.rstrip(b"\0"):  # parts may be followed by zeros
        unpacker = zlib.decompressobj(wbits=31)
        try:
            found += unpacker.decompress(rest, most + 1 - len(found))
        except zlib.error as error:
            raise DataError(
                f"{where}: damaged gzip file ({one_line(error)}). Fix: delete it and fetch it again."
            ) from error
        if len(found) > most:
            raise DataError(
                f"{where}: {len(content):,} bytes of gzip that become more than {most:,}. "
                "Fix: if you trust it, decompress it with gunzip and pass the plain file."
            )
        if not unpacker.eof:
            raise DataError(f"{where}: damaged gzip file (it is cut off). Fix: delete it and fetch it again.")
        rest = unpacker.unused_data
    return bytes(found)


def numbered(width: int) -> tuple[str, ...]:
    """Names for columns that have none."""
    return tuple(str(i) for i in range(width))


def wish_of(array: NDArray[Any]) -> str | None:
    """Bytes are pictures: the same levels for all columns."""
    if array.dtype not in (np.bool_, np.uint8):
        return None
    return f"count:0:{255 if array.max() > 1 else 1}"
