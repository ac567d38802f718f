"""What users pass as data, checked against the model: where rows enter training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data import Dataset as TorchDataset

from squircuit.data import Batches, Dataset, Rows, Schema, Table, names, read, scan, split
from squircuit.data.frames import is_frame, names_of, plain
from squircuit.data.given import encoded
from squircuit.data.schema import HostRows
from squircuit.data.weights import as_weights
from squircuit.errors import DataError, ParameterError
from squircuit.models import SquaredCircuit
from squircuit.training.config import TrainingConfig
from squircuit.training.feed import BLOCK, Batch, Data, Feed, Indexed, Memory, Stream, Target, checked
from squircuit.training.loaders import Items, Loader, in_full, require_shape
from squircuit.training.streams import BatchStream, Streamed

STREAMED = (".npy", ".parquet", ".pq", ".tar")
"""How files end that are read batch by batch."""
STREAM_BATCH = 256
"""Rows of such a batch, where nobody says how many."""
Source = Batches | HostRows | TorchDataset[Any] | DataLoader[Any]
"""What all that users pass becomes."""


def open_data(
    model: SquaredCircuit,
    train: Any,
    valid: Any,
    config: TrainingConfig,
    weights: Any = None,
    valid_weights: Any = None,
) -> Data:
    """The data of a training run, checked against the domains of the model.

    Args:
        train: a tensor or array (n, d), a Table, a Dataset, Rows, a data frame or a mapping in the words of
            the model's table, a numeric frame, Batches, a path, or a DataLoader or Dataset of torch.
        valid: the same, or None: then some rows that can be had one by one are held out.
        weights, valid_weights: of the rows, (n,); None: those that the rows bring, or all count alike.
    """
    train, valid = (_by_name(model.schema, rows) for rows in (train, valid))
    if valid is None and isinstance(train, Dataset):
        valid = train.valid
    if valid is None and valid_weights is not None:
        raise ParameterError(
            "valid_weights without valid. Fix: pass valid, too; rows that are held out keep their weights."
        )
    source, schema = _opened(train, "train", config, None, weights)
    for table, name in ((train, "train"), (valid, "valid")):
        if isinstance(table, Table):
            _require_same_meaning(table.schema, model.schema or schema or table.schema, name)
    intake = _Intake(model)
    share = config.valid_fraction if valid is None else 0.0
    feed, held = intake.feeds(source, "train", weights, share, config.seed)
    if valid is not None:
        other, _ = _opened(valid, "valid", config, schema, valid_weights)
        held, _ = intake.feeds(other, "valid", valid_weights)
    return Data(feed, held)


def _by_name(schema: Schema | None, rows: Any) -> Any:
    """A frame or a mapping with columns of the model as its numbers; all else as it is."""
    if schema is None or isinstance(rows, Dataset | Table) or not is_frame(rows):
        return rows
    there = {str(name) for name in names_of(rows)}
    return encoded(schema, rows) if there & {*schema.table_names} else rows


def _opened(
    source: Any, name: str, config: TrainingConfig, schema: Schema | None, weights: Any
) -> tuple[Source, Schema | None]:
    """Rows or a stream, and the types of the columns where the source has them."""
    if weights is not None:
        _require_numbered(source, name)
    if isinstance(source, Dataset):
        return _numbers(source.train if name == "train" else source.valid), None
    if isinstance(source, Table):
        return source.cells, source.schema
    if isinstance(source, Batches | Rows | DataLoader):
        return source, None
    if isinstance(source, IterableDataset):
        return DataLoader(source, batch_size=stream_batch(config)), None
    if isinstance(source, TorchDataset):
        return source, None
    if isinstance(source, str | Path):
        _refuse_names(source, name)
        return _of_file(Path(source), config, schema, weights)
    if isinstance(source, np.memmap):
        return Batches(source, stream_batch(config), seed=config.seed, weights=weights), None
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


def _of_file(
    path: Path, config: TrainingConfig, schema: Schema | None, weights: Any
) -> tuple[Batches | HostRows, Schema]:
    if path.suffix not in STREAMED:
        table = read(path, like=schema)
        return table.cells, table.schema
    schema = schema or scan(path)
    return Batches(path, stream_batch(config), seed=config.seed, like=schema, weights=weights), schema


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
    if np.ndim(source) == 0:  # a generator
        return "pass an array (n, d), a file, or sq.data.Batches or a DataLoader of torch, which stream"
    return "encode texts with model.schema.encode(data), or begin with sq.data.table(data)"


class _Intake:
    """The place where data enters: it is checked, and gets the types that the model takes."""

    def __init__(self, model: SquaredCircuit) -> None:
        self._device, self._domains = model.device, model.structure.column_domains
        # large numbers that differ by little, such as times, are told apart in double precision only
        self._dtype = torch.int64 if self._domains.is_discrete else torch.float64
        self._held = _smallest(self._domains.states) if self._domains.is_discrete else torch.float64

    def feeds(
        self, source: Source, name: str, weights: Any, share: float = 0.0, seed: int = 0
    ) -> tuple[Feed, Feed | None]:
        """The data, and a share of it that is held out where rows can be had one by one."""
        if isinstance(source, Batches | DataLoader):
            return self._stream(source, name), None
        if isinstance(source, TorchDataset):
            return self._indexed(source, name, weights, share, seed)
        rows = self.checked(_weighted(source, weights, name), name)
        kept, held = _parted(len(rows), share, seed)
        return self._memory(rows.take(kept)), self._memory(rows.take(held)) if len(held) else None

    def _stream(self, source: Batches | DataLoader[Any], name: str) -> Feed:
        streamed: Streamed
        if isinstance(source, DataLoader):
            streamed = Loader(source, len(self._domains), name)
        else:
            streamed = BatchStream(source)
        return _with_something_known(Stream(streamed, self._target(name)), name)

    def _indexed(
        self, source: TorchDataset[Any], name: str, weights: Any, share: float, seed: int
    ) -> tuple[Feed, Feed | None]:
        items = Items(source, len(self._domains), name)
        if not hasattr(source, "__len__") or not len(items):
            raise DataError(
                f"{name}: a Dataset without rows or without a length. Fix: pass one of some rows."
            )
        checked = None if weights is None else as_weights(weights, len(items), _named(name))
        index = np.arange(len(items)) if checked is None else np.flatnonzero(checked)
        feeds = [
            Indexed(items, part, None if checked is None else checked[part], self._target(name))
            for part in (index[chosen] for chosen in _parted(len(index), share, seed))
            if len(part)
        ]
        return _with_something_known(feeds[0], name), feeds[1] if len(feeds) > 1 else None

    def _target(self, name: str) -> Target:
        return Target(name, self._domains, self._device, self._dtype)

    def _memory(self, rows: Batch) -> Memory:
        return Memory(rows, self._device, self._dtype)

    def checked(self, source: HostRows, name: str) -> Batch:
        """Rows in the smallest type that holds them; those of weight 0 are not looked at, and left out."""
        require_shape(source.x.shape, len(self._domains), name)
        counts = None if source.weights is None else source.weights > 0
        if counts is not None and not counts.all():
            source = replace(source, gaps=source.missing | ~counts[:, None])
        if source.missing.all():
            raise nothing_known(name)
        step, parts = max(1, BLOCK // len(self._domains)), []
        for start in range(0, len(source), step):
            part = source.take(slice(start, start + step))
            tensors = Rows(in_full(part.x), part.gaps).to(torch.device("cpu"))
            parts.append(checked(tensors, self._domains, name, start).x.to(self._held))
        x, gaps = (
            torch.cat(parts),
            None if source.is_complete else torch.from_numpy(np.ascontiguousarray(source.missing)),
        )
        if counts is None:
            return Rows(x, gaps)
        rows = Rows(x, gaps, torch.from_numpy(source.weights)).take(torch.from_numpy(counts))
        return replace(rows, gaps=None) if rows.is_complete else rows


def _weighted(rows: HostRows, weights: Any, name: str) -> HostRows:
    """Rows with the weights that the user gives, or with their own, checked."""
    if weights is not None and rows.weights is not None:
        raise ParameterError(f"{_named(name)}: the rows have weights of their own. Fix: pass one of the two.")
    weights = rows.weights if weights is None else weights
    return rows if weights is None else replace(rows, weights=as_weights(weights, len(rows), _named(name)))


def _named(name: str) -> str:
    """The argument of the weights of some data."""
    return "weights" if name == "train" else "valid_weights"


def _require_numbered(source: Any, name: str) -> None:
    """Refuse weights of streams, which nobody can tell the rows of."""
    if isinstance(source, Batches):
        raise ParameterError(f"{_named(name)} of Batches. Fix: pass them to Batches(…, weights=…).")
    if isinstance(source, DataLoader | IterableDataset):
        raise ParameterError(
            f"{_named(name)} of a {type(source).__name__}, whose rows have no numbers. "
            "Fix: pass an array, or a Dataset with a length."
        )


def _parted(count: int, share: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The numbers of rows to be trained on, and of rows held out."""
    kept, held = split(np.arange(count)[:, None], share, seed)
    return kept[:, 0], held[:, 0]


def _with_something_known(feed: Feed, name: str) -> Feed:
    if all(block.gaps is not None and bool(block.gaps.all()) for block in feed.blocks()):
        raise nothing_known(name)  # mostly one look at the first block
    return feed


def nothing_known(name: str) -> DataError:
    """The error of data from which nothing can be learnt."""
    return DataError(f"{name}: every cell is missing. Fix: pass rows with some known cells.")


def _smallest(states: set[int]) -> torch.dtype:
    largest = max(states, default=1)
    return torch.uint8 if largest <= 256 else torch.int16 if largest <= 2**15 else torch.int64
