"""Rows as bytes and back, by the exact conditionals of a model."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from squircuit.compression import coder
from squircuit.compression.arithmetic import arithmetic, difference, fingerprint
from squircuit.compression.batches import Batch, batches, require_room
from squircuit.compression.container import Block, Header, checksum, parsed, written
from squircuit.compression.parts import divided, log_shares
from squircuit.compression.workers import side_by_side
from squircuit.data import Rows, Schema
from squircuit.data.frames import names_of
from squircuit.data.given import has_names, of_records, rows_of
from squircuit.data.tabular import Table
from squircuit.errors import DataError, FormatError, ParameterError, printable
from squircuit.execution.threads import one_thread
from squircuit.inference.chain.chain import Chain
from squircuit.inference.evidence import as_evidence, require_data
from squircuit.models import SquaredCircuit
from squircuit.storage.memory import require_memory

CELL = 16
"""Bytes that a cell takes when it is decompressed."""


@final
class Unpacked(NamedTuple):
    """What compressed rows hold.

    Args:
        rows: (n, d) of states on the CPU, and which cells are missing.
        words: whether they were given by the names of columns.
        notes: of whoever wrote them.
    """

    rows: Rows[Tensor]
    words: bool
    notes: dict[str, Any]


def compress(model: SquaredCircuit, rows: Any, verify: bool = False) -> bytes:
    """Rows of discrete data as bytes, of which :func:`decompress` makes exactly these rows again.

    A row takes about −log₂ p(x) bits: its variables are coded one after the other, each by its conditional
    p(x_i | x_<i) and the range coder of constriction, with probabilities of 24 bits. The order is that of the
    tree of the circuit, in which a conditional takes two layers in the mean. Cells that are missing are
    marginalised; which ones these are is kept beside.

    The same rows give the same bytes on the same machine. They can be read where the arithmetic is the same:
    this release of torch on this kind of processor. Elsewhere probabilities may differ in the last bit; this
    is noticed by checksums of the rows, and no wrong rows are given.

    Args:
        model: over discrete variables alone.
        rows: (n, d), or images in the shape that the model has, or a table in the words of its data.
        verify: decompress the result, which takes as long again.

    Raises:
        DataError: if a value is not among those of the model, or a column is not of the model.
        ParameterError: if the model has continuous columns.

    Example:
        >>> import squircuit as sq
        >>> model = sq.SquaredCircuit(sq.build(sq.regions.balanced_tree(8), sq.Categorical(4), units=2))
        >>> rows = model.sample(100, seed=0)
        >>> content = sq.compress(model, rows)
        >>> len(content) < 100 * 8 and bool((sq.decompress(model, content) == rows).all())
        True
    """
    require_data(model.structure, rows)
    require_discrete(model)
    if model.schema is not None and (isinstance(rows, Table) or has_names(rows)):
        require_no_others(model.schema, _names(rows))
    x, gaps = rows_of(model.schema, _flat(model, rows))
    evidence = as_evidence(model.structure, x, gaps, model.device)
    words = model.schema is not None and (isinstance(rows, Table) or has_names(rows))
    return packed(model, evidence, words, verify=verify)


def decompress(model: SquaredCircuit, content: bytes) -> Any:
    """The rows that :func:`compress` was given.

    Args:
        model: with which they were compressed.
        content: what `compress` gave.

    Returns:
        (n, d) of int64; of rows that came with the names of their columns a table, as of
        :meth:`squircuit.SquaredCircuit.decode`.

    Raises:
        FormatError: if the bytes are damaged, were made with another model, or cannot be read here.
    """
    found = unpacked(model, content)
    return model.decode(*found.rows) if found.words else found.rows.x


@torch.no_grad()
def packed(
    model: SquaredCircuit,
    rows: Rows[Tensor],
    words: bool = False,
    notes: dict[str, Any] | None = None,
    verify: bool = False,
) -> bytes:
    """Checked rows as bytes; see `compress`."""
    require_discrete(model)
    coder.need_constriction()
    with one_thread() as workers:
        content = _packed(model, rows, words, notes or {}, 1 if model.device.type == "cuda" else workers)
    if verify:
        unpacked(model, content)
    return content


def _packed(
    model: SquaredCircuit, rows: Rows[Tensor], words: bool, notes: dict[str, Any], workers: int
) -> bytes:
    chain = Chain(model.snapshot())
    parts, chosen = divided(model, chain, rows)
    found = batches(chain, parts, chosen)

    def coded(batch: Batch) -> tuple[Block, bytes]:
        block = rows.take(batch.rows.to(rows.x.device))
        gaps = None if block.is_complete else block.gaps
        stream = _bytes(coder.encoded(chain, parts[batch.part], block.x, gaps))
        return Block(batch.part, len(block), len(stream), _checksum(block.x, gaps)), stream

    coded_blocks = list(side_by_side(coded, found, [len(b.rows) for b in found], workers))
    blocks, streams = [block for block, _ in coded_blocks], [stream for _, stream in coded_blocks]
    named = _bytes(coder.encoded_choices(chosen.numpy(), log_shares(chain, parts).exp().numpy()))
    mask = b"" if rows.is_complete else zlib.compress(np.packbits(rows.missing.cpu().numpy()).tobytes(), 9)
    n, d = rows.x.shape
    sizes, here = (len(named), len(mask)), arithmetic(model.device)
    header = Header(fingerprint(model), n, d, parts, blocks, *sizes, here, words, notes)
    return written(header, b"".join([named, mask, *streams]))


@torch.no_grad()
def unpacked(model: SquaredCircuit, content: bytes) -> Unpacked:
    """What compressed rows hold; see `decompress`."""
    if not isinstance(content, bytes | bytearray | memoryview):
        raise ParameterError(
            f"decompress: {type(content).__name__} is not bytes. Fix: pass what compress gave, or "
            "Path(file).read_bytes()."
        )
    header, streams = parsed(bytes(content))
    require_discrete(model)
    coder.need_constriction()
    _require_model(header, model)
    needed, fix = CELL * header.rows * header.columns, "read it on a larger machine"
    require_memory(needed, f"{header.rows:,} compressed rows", fix, FormatError)
    with one_thread() as workers:
        chain = Chain(model.snapshot())
        return _unpacked(chain, header, streams, 1 if model.device.type == "cuda" else workers)


def _unpacked(chain: Chain, header: Header, streams: bytes, workers: int) -> Unpacked:
    _require_parts(chain, header)
    named, mask, rest = _cut(streams, header.chosen, header.gaps)
    gaps = _mask(mask, header) if header.gaps else None
    x = torch.zeros(header.rows, header.columns, dtype=torch.int64)
    ends = np.cumsum([block.size for block in header.blocks]).tolist()

    def rows_of_block(place: tuple[Batch, Block, int]) -> None:
        batch, block, end = place
        missing = None if gaps is None else gaps[batch.rows]
        x[batch.rows] = _decoded(chain, header, block, rest[end - block.size : end], missing)

    places = list(zip(_batches(chain, header, named), header.blocks, ends, strict=True))
    for _ in side_by_side(rows_of_block, places, [b.rows for b in header.blocks], workers):
        pass
    return Unpacked(Rows(x, gaps), header.words, header.notes)


def _decoded(chain: Chain, header: Header, block: Block, stream: bytes, gaps: Tensor | None) -> Tensor:
    """The rows of one block, if they are those that were coded."""
    gaps = None if gaps is None or not bool(gaps.any()) else gaps.to(chain.snapshot.device)
    try:
        x = coder.decoded(chain, header.parts[block.part], _words(stream), block.rows, gaps)
        is_right = _checksum(x, gaps) == block.checksum
    except (ValueError, AssertionError, DataError):  # what the coder says of words that are none of ours
        is_right = False
    if not is_right:
        why = difference(header.arithmetic, arithmetic(chain.snapshot.device))
        raise FormatError(
            f"cannot be read here: other rows come out than went in, for probabilities differ ({why})",
            fix="decompress where it was compressed, or with the same release of torch on such a processor",
        )
    return x.cpu()


def _batches(chain: Chain, header: Header, named: bytes) -> list[Batch]:
    """The rows of every block, by the names of the parts that rows were coded by."""
    shares = log_shares(chain, header.parts).exp().numpy()
    chosen = torch.from_numpy(coder.decoded_choices(_words(named), shares, header.rows))
    found, start = [], dict.fromkeys(range(len(header.parts)), 0)
    numbers = [torch.nonzero(chosen == part).flatten() for part in start]
    for block in header.blocks:
        rows = numbers[block.part][start[block.part] :][: block.rows]
        start[block.part] += block.rows
        if len(rows) < block.rows:
            raise FormatError("damaged: its parts have other rows than it says. Fix: copy it again.")
        require_room(chain, header.parts[block.part], block.rows)
        found.append(Batch(block.part, rows))
    return found


def require_no_others(schema: Schema, names: Iterable[str]) -> None:
    """Refuse columns that the model does not have, for they would be lost."""
    known = {*schema.table_names, *schema.names}
    others = [name for name in names if name not in known]
    if others:
        raise DataError(
            f"compress: the model has no column {others[0]!r}, which would be lost",
            fix="take it out, or fit a model with it",
        )


def _names(rows: Any) -> list[str]:
    """The names of the columns of a table, a frame, a mapping or a list of mappings."""
    if isinstance(rows, Table):
        return list(rows.schema.table_names)
    return [str(name) for name in names_of(of_records(rows) if isinstance(rows, list | tuple) else rows)]


def require_discrete(model: SquaredCircuit) -> None:
    """Refuse models of which some column has no states."""
    if model.schema is not None and model.schema.calendars:
        raise ParameterError(
            f"compress: column {model.schema.calendars[0].name!r} holds dates, which models see in parts, "
            "and only discrete columns have a lossless code. Fix: leave it out, and fit again."
        )
    domains = model.structure.domains
    lines = [v for v in sorted(domains) if not domains[v].is_discrete]
    if lines:
        name = (
            f"column {model.schema.names[lines[0]]!r}" if model.schema is not None else f"variable {lines[0]}"
        )
        raise ParameterError(
            f"compress: {name} of the model is continuous, and only discrete columns have a lossless code. "
            "Fix: leave it out, or read it as a count or a category, and fit again."
        )
    lacking = set(range(model.structure.num_variables)) - set(domains)
    if lacking:
        raise ParameterError(
            f"compress: the model does not use column {min(lacking)}, which would be lost. Fix: leave it out."
        )


def _require_model(header: Header, model: SquaredCircuit) -> None:
    own = fingerprint(model)
    if header.model != own or header.columns != model.structure.num_variables:
        raise FormatError(
            f"compressed with another model, of hash {printable(header.model, 16)}; this one has {own}",
            fix="pass the file of the model with which it was compressed",
        )


def _require_parts(chain: Chain, header: Header) -> None:
    numbers = [number for part in header.parts for number in part]
    if (not chain.is_tree and len(header.parts) != 1) or any(number >= chain.parts for number in numbers):
        raise FormatError("damaged: it names parts that the model does not have. Fix: copy it again.")


def _flat(model: SquaredCircuit, rows: Any) -> Any:
    """Images in the shape that the model has as rows; all else as it is."""
    shape = tuple(getattr(rows, "shape", ()))
    is_images = model.shape is not None and len(model.shape) > 1 and shape[1:] == tuple(model.shape)
    return rows.reshape(len(rows), -1) if is_images else rows


def _mask(packed_bits: bytes, header: Header) -> Tensor:
    """Which cells are missing: (n, d)."""
    count = header.rows * header.columns
    unpacker = zlib.decompressobj()
    try:
        bits = unpacker.decompress(packed_bits, (count + 7) // 8 + 1)
    except zlib.error:
        bits = b""
    if len(bits) != (count + 7) // 8:
        raise FormatError("damaged: it does not say which cells are missing. Fix: copy it again.")
    found = np.unpackbits(np.frombuffer(bits, dtype=np.uint8), count=count).astype(bool)
    return torch.from_numpy(found).reshape(header.rows, header.columns)


def _checksum(x: Tensor, gaps: Tensor | None) -> str:
    """The checksum of some rows, in which cells that are missing do not count."""
    shown = x if gaps is None else torch.where(gaps, 0, x)
    return checksum(shown.cpu().numpy().astype("<i8").tobytes())


def _cut(content: bytes, first: int, second: int) -> tuple[bytes, bytes, bytes]:
    return content[:first], content[first : first + second], content[first + second :]


def _bytes(words: coder.Words) -> bytes:
    return words.astype("<u4").tobytes()


def _words(stream: bytes) -> coder.Words:
    return np.frombuffer(stream, dtype="<u4").astype(np.uint32)
