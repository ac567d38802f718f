"""Small contents that are large when they are decompressed."""

from __future__ import annotations

import gzip
import io
import struct
import zlib
from functools import lru_cache

import numpy as np

BLOCK = 10 * 2**20


@lru_cache(maxsize=8)
def deflated_zeros(blocks: int, window: int, byte: bytes = b"\0") -> bytes:
    """Deflated data of blocks of 10 MiB each: the compressed block is repeated, so this is fast.

    Args:
        blocks: how many.
        window: as for zlib, 15 with a header, −15 without.
        byte: that is repeated.
    """
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(byte * BLOCK) + packer.flush(zlib.Z_FULL_FLUSH)
    body = block * blocks + zlib.compressobj(9, zlib.DEFLATED, -15).flush()
    return b"\x78\xda" + body + b"\0\0\0\0" if window > 0 else body


@lru_cache(maxsize=8)
def gzip_bomb(blocks: int, line: bytes = b"0,1\n") -> bytes:
    """A gzip file of many lines."""
    return gzip.compress(line * (BLOCK // len(line)), mtime=0) * blocks


@lru_cache(maxsize=4)
def npz_bomb(blocks: int) -> bytes:
    """A .npz file of a large array of zeros, whose checksum is right."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        head, {"descr": "|u1", "fortran_order": False, "shape": (blocks * BLOCK // 16, 16)}
    )
    start, checksum = head.getvalue(), zlib.crc32(head.getvalue())
    for _ in range(blocks):
        checksum = zlib.crc32(bytes(BLOCK), checksum)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    body = packer.compress(start) + packer.flush(zlib.Z_FULL_FLUSH) + deflated_zeros(blocks, -15)
    return zipped(b"rows.npy", body, checksum, len(start) + blocks * BLOCK)


def zipped(name: bytes, body: bytes, checksum: int, size: int) -> bytes:
    """A zip archive of one deflated file, with these claims about it."""
    facts = struct.pack("<HHHHHIII", 20, 0, 8, 0, 33, checksum, len(body), size)
    local = b"PK\3\4" + facts + struct.pack("<HH", len(name), 0) + name + body
    central = b"PK\1\2" + struct.pack("<H", 20) + facts
    central += struct.pack("<HHHHHII", len(name), 0, 0, 0, 0, 0, 0) + name
    return local + central + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local), 0)


@lru_cache(maxsize=8)
def png_bomb(side: int, depth: int = 8) -> bytes:
    """A PNG file of a black image with this many pixels on each side."""
    size = side * (1 + side * depth // 8)
    return png(side, side, depth, deflated_zeros(size // BLOCK + 1, 15))


def png(width: int, height: int, depth: int, data: bytes, colour: int = 0) -> bytes:
    """A PNG file with these claims about its data."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    chunks = _chunk(b"IHDR", header) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
