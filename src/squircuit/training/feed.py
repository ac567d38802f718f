"""Training data: what users pass, checked, in batches on the device of the model."""

from __future__ import annotations

import copy
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from squircuit.data import Batches, Dataset, Rows, Schema, Table, names, read, scan, split
from squircuit.data.frames import plain
from squircuit.data.schema import HostRows
from squircuit.errors import DataError
from squircuit.families.domain import Domains
from squircuit.models import SquaredCircuit
from squircuit.training.config import TrainingConfig

BLOCK = 2**20
"""Numbers of a table that are evaluated or checked at a time."""
BLOCK_ROWS = 2**13
"""Rows at most that are evaluated at a time."""
STREAMED = (".npy", ".parquet", ".pq")
"""How files end that are read batch by batch."""
STREAM_BATCH = 256
"""Rows of such a batch, where nobody says how many."""
Batch = Rows[Tensor]
"""Rows (B, d) on the device of the model."""


class Feed(ABC):
    """Rows in batches; the order is a function of the seed and the epoch.

    Attributes:
        count: number of rows (of a stream, as many as its batches may hold).
    """

    count: int

    @abstractmethod
    def steps(self, batch: int) -> int:
        """Batches in an epoch: full ones, or one of all rows where there are fewer."""

    @abstractmethod
    def batches(self, batch: int, seed: int, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from number ``start`` on."""

    @abstractmethod
    def blocks(self) -> Iterator[Batch]:
        """All rows once, for evaluation."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Other data has another one."""


@final
class Memory(Feed):
    """Rows in memory, held on the device where they fit.

    Args:
        rows: (n, d), checked; discrete ones as small integers.
        device: of the batches.
        dtype: of the batches: int64, or that of the model's floats.
    """

    def __init__(self, rows: Batch, device: torch.device, dtype: torch.dtype) -> None:
        self.count, self._device, self._dtype = len(rows), device, dtype
        self._fingerprint = _digest(rows)
        self._incomplete = None if rows.gaps is None else rows.gaps.any(dim=1).numpy()
        self._rows = rows.to(device if _fits(rows.x, device) else torch.device("cpu"))

    def steps(self, batch: int) -> int:
        return max(1, self.count // batch)

    def batches(self, batch: int, seed: int, epoch: int, start: int = 0) -> Iterator[Batch]:
        order = np.random.default_rng([seed, epoch]).permutation(self.count)
        index = torch.from_numpy(order).to(self._rows.x.device)  # at once: each copy waits for the device
        for number in range(start, self.steps(batch)):
            part = slice(number * batch, (number + 1) * batch)
            yield self._take(index[part], order[part])

    def blocks(self) -> Iterator[Batch]:
        size = min(BLOCK_ROWS, max(1, BLOCK // self._rows.x.shape[1]))
        for start in range(0, self.count, size):
            part = slice(start, start + size)
            yield self._take(part, part)

    def fingerprint(self) -> str:
        return self._fingerprint

    def _take(self, index: Tensor | slice, chosen: NDArray[np.int64] | slice) -> Batch:
        """Some rows, named to the device and to the host, which knows whether they are complete."""
        rows = self._rows.take(index)
        if self._incomplete is None or not self._incomplete[chosen].any():
            rows = Rows(rows.x)
        return rows.to(self._device, self._dtype)


@final
class Stream(Feed):
    """Rows that are read batch by batch; a last batch that is smaller is left out of training.

    Args:
        source: gives the rows; it is not moved on.
        domains: every batch is checked.
        name: for errors.
        device, dtype: of the batches.
    """

    def __init__(
        self, source: Batches, domains: Domains, name: str, device: torch.device, dtype: torch.dtype
    ) -> None:
        self._source, self._domains, self._name = source, domains, name
        self._device, self._dtype = device, dtype
        self.batch, self.count = source.batch, len(source) * source.batch

    def steps(self, batch: int) -> int:
        return len(self._at(0, 0))

    def batches(self, batch: int, seed: int, epoch: int, start: int = 0) -> Iterator[Batch]:
        if start < self.steps(batch):
            yield from map(self._moved, self._at(epoch, start))

    def blocks(self) -> Iterator[Batch]:
        source = copy.copy(self._source)
        source.load_state_dict({"epoch": 0, "position": 0})
        yield from map(self._moved, source)

    def fingerprint(self) -> str:
        """Of the number of batches and of the first one."""
        return _digest(next(self.blocks()), str((len(self._source), self.batch, self._source.seed)))

    def _at(self, epoch: int, start: int) -> Batches:
        """The stream at one place, without a smaller last batch unless that is all."""
        source = copy.copy(self._source)
        source.drop_last = True
        source.drop_last = len(source) > 0
        source.load_state_dict({"epoch": epoch, "position": start})
        return source

    def _moved(self, rows: HostRows) -> Batch:
        return checked(rows.to(torch.device("cpu")), self._domains, self._name).to(self._device, self._dtype)


def checked(rows: Batch, domains: Domains, name: str, first_row: int = 0) -> Batch:
    """Rows whose cells are in their domains: those beyond have probability 0, and teach nothing.

    Cells that are missing become 0 in discrete columns, and nothing is left of a mask without any.
    """
    fix = "correct or leave out the row, or build the model with a wider domain"
    domains.require(rows.x, rows.gaps, name=name, first_row=first_row, fix=fix)
    if rows.is_complete:
        return Rows(rows.x)
    return Rows(rows.x.masked_fill(rows.missing & domains.discrete, 0), rows.gaps)


def _fits(rows: Tensor, device: torch.device) -> bool:
    """Rows take no more than half of what is free on a GPU."""
    if device.type != "cuda":
        return True
    free, _ = torch.cuda.mem_get_info(device)
    return rows.numel() * rows.element_size() < free / 2


def _digest(rows: Batch, more: str = "") -> str:
    digest = hashlib.sha256(f"{tuple(rows.x.shape)} {rows.x.dtype} {more}".encode())
    for part in (rows.x, rows.gaps):
        if part is not None:
            digest.update(part.cpu().contiguous().numpy().data)
    return digest.hexdigest()


class Data(NamedTuple):
    """Training and validation data."""

    train: Feed
    valid: Feed | None


def open_data(model: SquaredCircuit, train: Any, valid: Any, config: TrainingConfig) -> Data:
    """The data of a training run, checked against the domains of the model.

    Args:
        train: a tensor or array (n, d), a Table, a Dataset, Rows, a numeric frame, Batches, a path.
        valid: the same, or None: then some rows of data in memory are held out.
    """
    if valid is None and isinstance(train, Dataset):
        valid = train.valid
    source, schema = _opened(train, "train", config, None)
    intake = _Intake(model)
    for table, name in ((train, "train"), (valid, "valid")):
        if isinstance(table, Table):
            _require_same_meaning(table.schema, model.schema or schema or table.schema, name)
    if valid is not None:
        return Data(
            intake.feed(source, "train"), intake.feed(_opened(valid, "valid", config, schema)[0], "valid")
        )
    if isinstance(source, Batches):
        return Data(intake.feed(source, "train"), None)
    rows = intake.checked(source, "train")
    kept, held = (
        part[:, 0] for part in split(np.arange(len(rows))[:, None], config.valid_fraction, config.seed)
    )
    return Data(intake.memory(rows.take(kept)), intake.memory(rows.take(held)) if len(held) else None)


def _opened(
    source: Any, name: str, config: TrainingConfig, schema: Schema | None
) -> tuple[Batches | HostRows, Schema | None]:
    """Rows or a stream, and the types of the columns where the source has them."""
    if isinstance(source, Dataset):
        return _numbers(source.train if name == "train" else source.valid), None
    if isinstance(source, Table):
        return source.cells, source.schema
    if isinstance(source, Batches | Rows):
        return source, None
    if isinstance(source, str | Path):
        _refuse_names(source, name)
        return _of_file(Path(source), config, schema)
    if isinstance(source, np.memmap):
        return Batches(source, stream_batch(config), seed=config.seed), None
    return _numbers(source, name), None


def _require_same_meaning(own: Schema, expected: Schema, name: str) -> None:
    """Refuse a table whose numbers mean something else to the model: other orders of columns or states."""
    difference = own.difference(expected)
    if difference:
        raise DataError(
            f"{name}: {difference}, so its numbers mean something else to the model. Fix: give it the "
            "model's types: sq.data.read(path, like=model.schema) or model.schema.encode(rows)."
        )


def _refuse_names(source: str | Path, name: str) -> None:
    if str(source) in names() and not Path(source).exists():
        raise DataError(
            f"{name}: {str(source)!r} is the name of a data set, not a file. "
            f"Fix: pass sq.data.load({str(source)!r})."
        )


def _of_file(path: Path, config: TrainingConfig, schema: Schema | None) -> tuple[Batches | HostRows, Schema]:
    if path.suffix not in STREAMED:
        table = read(path, like=schema)
        return table.cells, table.schema
    schema = schema or scan(path)
    return Batches(path, stream_batch(config), seed=config.seed, like=schema), schema


def stream_batch(config: TrainingConfig) -> int:
    """Rows in a batch of a stream."""
    return STREAM_BATCH if config.batch == "auto" else config.batch


def _numbers(source: Any, name: str = "train") -> HostRows:
    """Numbers in memory; NaN is missing."""
    if source is None:
        raise DataError(f"{name}: no data. Fix: pass an array (n, d), rows being samples.")
    values = plain(source)
    if values.dtype.kind not in "fiub":
        raise DataError(
            f"{name}: {type(source).__name__} of {values.dtype}, not of numbers. Fix: {_way(source)}."
        )
    return Rows.of(values)


def _way(source: Any) -> str:
    """How to pass what is no array of numbers."""
    if np.ndim(source) == 0:  # a DataLoader, a generator
        return "pass an array (n, d), a file, or sq.data.Batches, which streams"
    return "encode texts with model.schema.encode(data), or begin with sq.data.table(data)"


class _Intake:
    """Where data enters: checked, and in the types that the model takes."""

    def __init__(self, model: SquaredCircuit) -> None:
        self._device, self._domains = model.device, model.structure.column_domains
        # large numbers that differ by little, such as times, are told apart in double precision only
        self._dtype = torch.int64 if self._domains.is_discrete else torch.float64
        self._held = _smallest(self._domains.states) if self._domains.is_discrete else torch.float64

    def feed(self, source: Batches | HostRows, name: str) -> Feed:
        if not isinstance(source, Batches):
            return self.memory(self.checked(source, name))
        stream = Stream(source, self._domains, name, self._device, self._dtype)
        if all(block.gaps is not None and bool(block.gaps.all()) for block in stream.blocks()):
            raise nothing_known(name)  # mostly one look at the first block
        return stream

    def memory(self, rows: Batch) -> Memory:
        return Memory(rows, self._device, self._dtype)

    def checked(self, source: HostRows, name: str) -> Batch:
        """Rows in the smallest type that holds them."""
        self._require_shape(source.x.shape, name)
        if source.missing.all():
            raise nothing_known(name)
        step, parts = max(1, BLOCK // len(self._domains)), []
        for start in range(0, len(source), step):
            part = source.take(slice(start, start + step))
            tensors = Rows(_plain(part.x), part.gaps).to(torch.device("cpu"))
            parts.append(checked(tensors, self._domains, name, start).x.to(self._held))
        gaps = None if source.is_complete else torch.from_numpy(np.ascontiguousarray(source.missing))
        return Rows(torch.cat(parts), gaps)

    def _require_shape(self, shape: tuple[int, ...], name: str) -> None:
        d = len(self._domains)
        if len(shape) == 2 and shape[1] == d and shape[0] > 0:
            return
        flattens = len(shape) > 2 and shape[0] > 0 and int(np.prod(shape[1:])) == d
        fix = (
            f"flatten each sample: x.reshape({shape[0]}, {d})" if flattens else "one column for each variable"
        )
        fix = "pass some rows" if 0 in shape else fix
        raise DataError(
            f"{name}: the model takes rows of shape (n, {d}), n ≥ 1, rows being samples; got {tuple(shape)}. "
            f"Fix: {fix}."
        )


def nothing_known(name: str) -> DataError:
    """The error of data from which nothing can be learnt."""
    return DataError(f"{name}: every cell is missing. Fix: pass rows with some known cells.")


def _plain(rows: NDArray[Any]) -> NDArray[Any]:
    """As a type that torch computes with."""
    if rows.dtype.kind == "f":
        return rows.astype(np.float64 if rows.dtype.itemsize > 4 else np.float32)
    return rows.astype(np.int64)


def _smallest(states: set[int]) -> torch.dtype:
    largest = max(states, default=1)
    return torch.uint8 if largest <= 256 else torch.int16 if largest <= 2**15 else torch.int64
