"""The checksums of PNG files, which Pillow passes over while it decodes them."""

from __future__ import annotations

import struct
import zlib
from typing import IO

SIGNATURE = 8
"""Bytes before the first chunk."""
PIECE = 2**20
"""Bytes of a chunk that are in memory at once."""


def require_whole(stream: IO[bytes]) -> None:
    """Raise a ValueError unless every chunk of a PNG file is there and has its checksum, up to its end.

    Without this an image that was cut off or damaged would be read with other pixels, and nobody would know.
    """
    stream.seek(SIGNATURE)
    name = b""
    while name != b"IEND":
        size, name = struct.unpack(">I4s", _exactly(stream, 8))
        checksum = zlib.crc32(name)
        for start in range(0, size, PIECE):
            checksum = zlib.crc32(_exactly(stream, min(PIECE, size - start)), checksum)
        if _exactly(stream, 4) != struct.pack(">I", checksum):
            raise ValueError(f"a wrong checksum in its part {name!r}")


def _exactly(stream: IO[bytes], count: int) -> bytes:
    found = stream.read(count)
    if len(found) < count:
        raise ValueError("it is cut off")
    return found
