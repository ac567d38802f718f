"""The bytes of compressed rows: a header that says what they are, streams of words, a checksum of all."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NoReturn, final

from squircuit.errors import FormatError, is_whole
from squircuit.storage.documents import ContentError

MAGIC = b"\x93SQZ\r\n\x1a\n"
VERSION = 1
DIGEST = 8
"""Bytes of a checksum: the first of a SHA-256."""
MOST_HEADER = 2**25
"""Bytes of a header once it is unpacked, whatever the file says."""
MOST_ROWS = 2**14
"""Rows that are computed together."""
LEAD = struct.Struct("<8sHI")


@final
@dataclass(frozen=True)
class Block:
    """Some rows that were computed together.

    Args:
        part: which part of the mixture they are coded by.
        rows: how many.
        size: bytes of their stream.
        checksum: of the rows, as hexadecimal text.
    """

    part: int
    rows: int
    size: int
    checksum: str


@final
@dataclass(frozen=True)
class Header:
    """What a file says of itself.

    Args:
        model: hash of the model.
        rows, columns: their number.
        parts: the circuits of the mixture that code together, for each part.
        blocks: in the order of their streams.
        chosen: bytes of the stream that says the part of each row.
        gaps: bytes of the zlib data that says which cells are missing; 0: none is.
        arithmetic: what the probabilities depend on.
        words: whether rows were given by names, and come back so.
        notes: JSON data of whoever wrote it, such as names of files.
    """

    model: str
    rows: int
    columns: int
    parts: list[list[int]]
    blocks: list[Block]
    chosen: int
    gaps: int
    arithmetic: dict[str, Any]
    words: bool = False
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def streams(self) -> int:
        """Bytes after the header, without the checksum."""
        return self.chosen + self.gaps + sum(block.size for block in self.blocks)


def checksum(content: bytes) -> str:
    """The checksum of some bytes, as hexadecimal text."""
    return hashlib.sha256(content).hexdigest()[: 2 * DIGEST]


def written(header: Header, streams: bytes) -> bytes:
    """Header and streams as one piece."""
    document = asdict(header) | {"blocks": [[b.part, b.rows, b.size, b.checksum] for b in header.blocks]}
    packed = zlib.compress(json.dumps(document, separators=(",", ":")).encode(), 9)
    content = LEAD.pack(MAGIC, VERSION, len(packed)) + packed + streams
    return content + bytes.fromhex(checksum(content))


def parsed(content: bytes) -> tuple[Header, bytes]:
    """Header and streams; a FormatError says what is wrong with any other bytes."""
    if content[: len(MAGIC)] != MAGIC:
        raise FormatError("no compressed rows: it begins otherwise. Fix: pass what squircuit has compressed.")
    if len(content) < LEAD.size + DIGEST:
        _damaged("it is cut off")
    _, version, size = LEAD.unpack_from(content)
    if version > VERSION:
        raise FormatError(
            f"version {version} of the format, this release reads up to {VERSION}. "
            "Fix: install a newer squircuit."
        )
    if bytes.fromhex(checksum(content[:-DIGEST])) != content[-DIGEST:]:
        _damaged("it is cut off, or was changed: its checksum does not match")
    start = LEAD.size + size
    try:
        header = _header(_document(content[LEAD.size : start]))
    except (LookupError, TypeError, ValueError, zlib.error, RecursionError) as error:
        if isinstance(error, FormatError):
            raise
        _damaged("its header is not of this format")
    streams = content[start:-DIGEST]
    if len(streams) != header.streams:
        _damaged(f"its streams have {len(streams):,} bytes, the header says {header.streams:,}")
    return header, streams


def _document(packed: bytes) -> Mapping[str, Any]:
    unpacker = zlib.decompressobj()
    text = unpacker.decompress(packed, MOST_HEADER + 1)
    if len(text) > MOST_HEADER or not unpacker.eof:
        raise ContentError("too long")
    return dict(json.loads(text))


def _header(document: Mapping[str, Any]) -> Header:
    """The header of a JSON document, every number in its bounds."""
    blocks = [Block(*entry) for entry in document["blocks"]]
    header = Header(**{**document, "blocks": blocks})
    rows = [block.rows for block in blocks]
    numbers = [header.rows, header.columns, header.chosen, header.gaps, *(b.size for b in blocks), *rows]
    is_sound = (
        all(is_whole(number, 0) for number in numbers)
        and all(1 <= count <= MOST_ROWS for count in rows)
        and sum(rows) == header.rows
        and all(is_whole(b.part, 0, len(header.parts) - 1) and isinstance(b.checksum, str) for b in blocks)
        and all(part and all(is_whole(m, 0) for m in part) for part in header.parts)
        and all(isinstance(part, dict) for part in (header.arithmetic, header.notes))
        and isinstance(header.model, str)
        and isinstance(header.words, bool)
        and all(size % 4 == 0 for size in (header.chosen, *(b.size for b in blocks)))
    )
    if not is_sound:
        raise ContentError("out of bounds")
    return header


def _damaged(what: str) -> NoReturn:
    raise FormatError(f"damaged: {what}. Fix: copy it again from where it was written.")
