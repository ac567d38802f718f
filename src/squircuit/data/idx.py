"""The IDX format, in which MNIST and its relatives are published."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squircuit.data.reading import decompressed, readable
from squircuit.errors import DataError
from squircuit.storage.checks import require_readable

TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
"""The third byte of the file → the type of its values; numbers are stored big-endian."""
MOST_AXES = 32


def read_idx(path: str | Path) -> NDArray[Any]:
    """The array in an IDX file, gzip or plain, in the byte order of this machine.

    Args:
        path: of the file; its first bytes, not its name, say whether it is compressed.

    Raises:
        DataError: if the file is missing, damaged, or no IDX file.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "two.idx"
        >>> _ = file.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]))  # bytes, one axis, of length 2
        >>> read_idx(file)
        array([7, 9], dtype=uint8)
    """
    return parse_idx(plain_bytes(Path(path)), str(path))


def plain_bytes(path: Path) -> bytes:
    """The content of a file, decompressed where it is gzip."""
    return unzipped(file_bytes(path), str(path))


def file_bytes(path: Path) -> bytes:
    """The content of a file as it is."""
    require_readable(path, DataError)
    with readable(path, "bytes", "copy it again"):
        return path.read_bytes()


def unzipped(content: bytes, where: str) -> bytes:
    """Bytes decompressed where they are gzip, else as they are."""
    return decompressed(content, where) if content[:2] == b"\x1f\x8b" else content


def parse_idx(content: bytes, where: str) -> NDArray[Any]:
    """The array that the (decompressed) bytes of an IDX file describe; ``where`` is named in errors."""
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in TYPES:
        raise DataError(
            f"{where}: not an IDX file, it begins with {content[:4].hex(' ') or 'nothing'}. "
            "Fix: pass a file such as train-images-idx3-ubyte.gz."
        )
    start = 4 + 4 * content[3]
    if len(content) < start:
        raise DataError(
            f"{where}: the IDX header is cut off after {len(content)} of {start} bytes. "
            "Fix: fetch the file again."
        )
    if content[3] > MOST_AXES:
        raise DataError(f"{where}: an IDX array of {content[3]} axes. Fix: pass one of at most {MOST_AXES}.")
    shape = tuple(int(length) for length in np.frombuffer(content[4:start], ">u4"))
    dtype = np.dtype(TYPES[content[2]])
    if math.prod(length or 1 for length in shape) * dtype.itemsize > sys.maxsize:  # also of an empty array
        raise DataError(f"{where}: an IDX array of shape {shape} is too large. Fix: fetch the file again.")
    expected = start + math.prod(shape) * dtype.itemsize
    if len(content) != expected:
        raise DataError(
            f"{where}: an IDX array of shape {shape} takes {expected} bytes, the file has {len(content)}. "
            "Fix: fetch the file again."
        )
    values = np.frombuffer(content, dtype, offset=start).reshape(shape)
    return values.astype(dtype.newbyteorder("="))
