"""What users pass as data, as feeds: arrays, tables, data sets, frames, files, streams."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from squircuit.data import Batches, Dataset, Encoded, Schema, Table, names, read, scan, split
from squircuit.data.schema import plain
from squircuit.errors import DataError
from squircuit.models import SquaredCircuit
from squircuit.training.config import TrainingConfig
from squircuit.training.domains import Domains
from squircuit.training.feed import BLOCK, Feed, Memory, Stream

STREAMED = (".npy", ".parquet", ".pq")
STREAM_BATCH = 256


class Data(NamedTuple):
    """Training and validation data."""

    train: Feed
    valid: Feed | None


def open_data(model: SquaredCircuit, train: Any, valid: Any, config: TrainingConfig) -> Data:
    """The data of a training run, checked against the domains of the model.

    Args:
        train: a tensor or array (n, d), a Table, a Dataset, Encoded rows, a numeric frame, Batches, a path.
        valid: the same, or None: then some rows of data in memory are held out.
    """
    if valid is None and isinstance(train, Dataset):
        valid = train.valid
    source, schema = _opened(train, "train", config, None)
    doors = _Doors(model)
    for table, name in ((train, "train"), (valid, "valid")):
        if isinstance(table, Table):
            _require_same_meaning(table.schema, model.schema or schema or table.schema, name)
    if valid is not None:
        return Data(
            doors.feed(source, "train"), doors.feed(_opened(valid, "valid", config, schema)[0], "valid")
        )
    if isinstance(source, Batches):
        return Data(doors.feed(source, "train"), None)
    rows, missing = doors.checked(source, "train")
    kept, held = (
        part[:, 0] for part in split(np.arange(len(rows))[:, None], config.valid_fraction, config.seed)
    )
    parts = [(rows[index], None if missing is None else missing[index]) for index in (kept, held)]
    return Data(doors.memory(*parts[0]), doors.memory(*parts[1]) if len(held) else None)


def _opened(
    source: Any, name: str, config: TrainingConfig, schema: Schema | None
) -> tuple[Batches | Encoded, Schema | None]:
    """Rows or a stream, and the types of the columns where the source has them."""
    if isinstance(source, Dataset):
        return _encoded(source.train if name == "train" else source.valid), None
    if isinstance(source, Table):
        return Encoded(source.rows, source.missing), source.schema
    if isinstance(source, Batches | Encoded):
        return source, None
    if isinstance(source, str | Path):
        _refuse_names(source, name)
        return _of_file(Path(source), config, schema)
    if isinstance(source, np.memmap):
        return Batches(source, _stream_batch(config), seed=config.seed), None
    return _encoded(source, name), None


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


def _of_file(path: Path, config: TrainingConfig, schema: Schema | None) -> tuple[Batches | Encoded, Schema]:
    if path.suffix not in STREAMED:
        table = read(path, like=schema)
        return Encoded(table.rows, table.missing), table.schema
    schema = schema or scan(path)
    return Batches(path, _stream_batch(config), seed=config.seed, like=schema), schema


def _stream_batch(config: TrainingConfig) -> int:
    return STREAM_BATCH if config.batch == "auto" else config.batch


def _encoded(source: Any, name: str = "train") -> Encoded:
    """Numbers in memory; NaN is missing."""
    if source is None:
        raise DataError(f"{name}: no data. Fix: pass an array (n, d), rows being samples.")
    values = plain(source)
    if values.dtype.kind not in "fiub":
        raise DataError(
            f"{name}: {type(source).__name__} of {values.dtype}, not of numbers. Fix: {_way(source)}."
        )
    floats = values.dtype.kind == "f"
    return Encoded(values, np.isnan(values) if floats else np.zeros((1, 1), dtype=bool))


def _way(source: Any) -> str:
    """How to pass what is no array of numbers."""
    if np.ndim(source) == 0:  # a DataLoader, a generator
        return "pass an array (n, d), a file, or sq.data.Batches, which streams"
    return "encode texts with model.schema.encode(data), or begin with sq.data.table(data)"


class _Doors:
    """Where data enters: checked, and in the types that the model takes."""

    def __init__(self, model: SquaredCircuit) -> None:
        self._device, self._domains = model.device, Domains(model.structure)
        # large numbers that differ by little, such as times, are told apart in double precision only
        self._dtype = torch.int64 if self._domains.is_discrete else torch.float64
        self._held = _smallest(self._domains.states) if self._domains.is_discrete else torch.float64

    def feed(self, source: Batches | Encoded, name: str) -> Feed:
        if isinstance(source, Batches):
            stream = Stream(source, self._domains, name, self._device, self._dtype)
            if all(block.missing is not None and bool(block.missing.all()) for block in stream.blocks()):
                raise nothing_known(name)  # mostly one look at the first block
            return stream
        return self.memory(*self.checked(source, name))

    def memory(self, rows: Tensor, missing: Tensor | None) -> Memory:
        return Memory(rows, missing, self._device, self._dtype)

    def checked(self, source: Encoded, name: str) -> tuple[Tensor, Tensor | None]:
        """Rows in the smallest type that holds them, and what is missing; None: nothing."""
        self._require_shape(source.rows.shape, name)
        if source.missing.all():
            raise nothing_known(name)
        missing = torch.from_numpy(np.ascontiguousarray(source.missing)) if source.missing.any() else None
        rows = np.ascontiguousarray(source.rows)
        step, parts = max(1, BLOCK // len(self._domains)), []
        for start in range(0, len(rows), step):
            part = torch.from_numpy(_plain(rows[start : start + step]))
            gaps = None if missing is None else missing[start : start + step]
            self._domains.require_inside(part, gaps, name, start)
            part = part if gaps is None else part.masked_fill(gaps & self._domains.discrete, 0)
            parts.append(part.to(self._held))
        return torch.cat(parts), missing

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
