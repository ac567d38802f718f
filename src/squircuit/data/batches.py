"""Batches of rows, streamed from arrays and files that need not fit into memory."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from squircuit.data.frames import plain
from squircuit.data.numpy_files import NumpySource
from squircuit.data.parquet import ParquetSource
from squircuit.data.reading import Source
from squircuit.data.rows import Rows
from squircuit.data.schema import HostRows, Schema
from squircuit.data.tabular import Table, chosen, matched, open_source
from squircuit.data.weights import Weights, as_weights
from squircuit.errors import DataError, ParameterError, is_whole, require_unmasked

Order = NDArray[np.int64]
WINDOW = 4
"""Row groups of a Parquet file that are in memory, and mixed, at once."""


@final
class Batches:
    """The rows of an array or a file in batches; one ``for`` loop is one epoch.

    The order is a function of the seed and the epoch. After a break, or in another process with the same
    arguments and `load_state_dict`, iteration goes on with the batch after the last one given.

    An array, also a mapped one, is shuffled row by row. A Parquet file is shuffled by row groups, and rows
    are mixed among `WINDOW` = 4 row groups at a time; write files with many row groups.

    Args:
        source: an (n, d) array, a `Table`, or the path of a .npy or Parquet file.
        batch: number of rows; the last batch of an epoch may be smaller.
        shuffle: whether to shuffle in every epoch.
        seed: of the order.
        like: the types of the columns, from `scan` or `read`; files with texts need it, and without it
            numbers are given as they are.
        drop_last: whether to leave out a last batch that is smaller.
        weights: (n,), how much each row counts (`Rows.weights`); rows of weight 0 are left out.

    Yields:
        `Rows`, (≤ batch, d).

    Example:
        >>> batches = Batches(np.arange(6.0).reshape(3, 2), batch=2, shuffle=False)
        >>> [part.x.tolist() for part in batches]
        [[[0.0, 1.0], [2.0, 3.0]], [[4.0, 5.0]]]
        >>> batches.state_dict()
        {'epoch': 1, 'position': 0}
    """

    def __init__(
        self,
        source: NDArray[Any] | Table | str | Path,
        batch: int = 256,
        shuffle: bool = True,
        seed: int = 0,
        like: Table | Schema | None = None,
        drop_last: bool = False,
        weights: Any = None,
    ) -> None:
        if not is_whole(batch, 1):
            raise ParameterError(f"batch={batch!r}. Fix: pass a whole number, at least 1.")
        if not is_whole(seed, 0):
            raise ParameterError(f"seed={seed!r}. Fix: pass a whole number, at least 0.")
        self.batch, self.shuffle, self.seed, self.drop_last = batch, shuffle, seed, drop_last
        self._rows = _opened(source, like.schema if isinstance(like, Table) else like)
        if weights is None and isinstance(source, Table):
            weights = source.cells.weights
        if weights is not None:
            self._rows.weigh(as_weights(weights, self._rows.length))
        self.epoch, self.position = 0, 0
        if len(self) == 0:
            raise DataError(
                f"{self._rows.length} rows are less than one batch. Fix: a smaller batch than {batch}."
            )

    def __len__(self) -> int:
        """Number of batches in an epoch."""
        full, rest = divmod(self._rows.length, self.batch)
        return full + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[HostRows]:
        """The batches from the present position to the end of the epoch."""
        rng = np.random.default_rng([self.seed, self.epoch]) if self.shuffle else None
        stream = self._rows.stream(rng, self.position * self.batch, self.batch)
        for part in islice(stream, len(self) - self.position):
            turn, self.position = divmod(self.position + 1, len(self))
            self.epoch += turn  # before the batch is given: after a break it is not given again
            yield part

    @property
    def weights(self) -> Weights | None:
        """Weights of the given rows, in the order of the source: (≤ n,); None: all count alike."""
        weights = self._rows.weights
        return None if weights is None else weights[weights > 0]

    def state_dict(self) -> dict[str, int]:
        """The place of the next batch: the epoch, and how many batches of it were given."""
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go on from what `state_dict` gave."""
        try:
            epoch, position = operator.index(state["epoch"]), operator.index(state["position"])
        except (LookupError, TypeError):
            epoch = position = -1
        if epoch < 0 or not 0 <= position < len(self):
            raise ParameterError(f"{state}: no place in {len(self)} batches. Fix: pass what state_dict gave.")
        self.epoch, self.position = epoch, position


class _Array:
    """Rows that can be taken one by one: in memory, or mapped."""

    weights: Weights | None = None

    def __init__(self, array: NDArray[Any], missing: NDArray[np.bool_] | None = None) -> None:
        require_unmasked(array)
        if array.ndim != 2 or array.dtype.kind not in "fiub":
            raise DataError(
                f"an array of shape {array.shape} of {array.dtype}. "
                "Fix: pass (n, d) numbers, or for texts like=scan(path)."
            )
        self.array, self.missing, self.length = array, missing, len(array)

    def stream(self, rng: np.random.Generator | None, start: int, batch: int) -> Iterator[HostRows]:
        order = self._order(rng)
        for first in range(start, self.length, batch):
            last = min(first + batch, self.length)
            chosen = slice(first, last) if order is None else order[first:last]
            rows = self.take(chosen)
            yield rows if self.weights is None else replace(rows, weights=self.weights[chosen])

    def weigh(self, weights: Weights) -> None:
        """Give the rows weights; from now on there are only those above 0."""
        self.weights, self.length = weights, int(np.count_nonzero(weights))

    def _order(self, rng: np.random.Generator | None) -> Order | None:
        """The order of the rows, by their numbers in the source; None: as they are."""
        order = rng.permutation(self.length) if rng else None
        if self.weights is None:
            return order
        kept = np.flatnonzero(self.weights)
        return kept if order is None else kept[order]

    def take(self, chosen: slice | Order) -> HostRows:
        rows = np.array(self.array[chosen])  # a copy: the mapped file is read-only
        if rows.dtype == np.float16:
            rows = rows.astype(np.float32)  # half precision is for keeping numbers, not for computing
        return Rows.of(rows) if self.missing is None else Rows(rows, self.missing[chosen])


class _Mapped(_Array):
    """Rows of a mapped array, encoded as they are taken."""

    def __init__(self, source: NumpySource, schema: Schema) -> None:
        self.source, self.schema, self.names = source, schema, matched(source, schema)
        self.columns, self.length = source.positions(self.names), len(source.array)
        self._size = self.length

    def take(self, chosen: slice | Order) -> HostRows:
        rows = self.source.array[chosen][:, self.columns]
        if (quick := self.schema.encode_numbers(rows)) is not None:
            return quick
        numbers = range(self._size)[chosen] if isinstance(chosen, slice) else chosen
        chunk = self.source.chunk(rows, self.names)
        place = lambda row: f"{self.source.path}, row {numbers[row]}"  # noqa: E731
        return self.schema.encode_chunk(type(chunk)(chunk.names, chunk.cells, place))


class _Groups:
    """Rows of a Parquet file, some row groups at a time."""

    weights: Weights | None = None

    def __init__(self, source: ParquetSource, schema: Schema | None) -> None:
        self.source, self.schema, self.length = source, schema, sum(source.sizes)
        self._sizes = list(source.sizes)
        self.names = matched(source, schema) if schema else chosen(source, None)[0]

    def stream(self, rng: np.random.Generator | None, start: int, batch: int) -> Iterator[HostRows]:
        ready: HostRows | None = None
        for window, order in self._windows(rng):
            skipped = min(start, len(order))
            start -= skipped
            if skipped == len(order):
                continue  # given before: not even read
            read = Rows.joined([self._weighted(group) for group in window]).take(order[skipped:])
            ready = read if ready is None else Rows.joined([ready, read])
            while len(ready) >= batch:
                yield ready.take(slice(batch))
                ready = ready.take(slice(batch, None))
        if ready is not None and len(ready):
            yield ready

    def weigh(self, weights: Weights) -> None:
        """Give the rows weights; from now on there are only those above 0."""
        self.weights, self.length = weights, int(np.count_nonzero(weights))
        self._parts = np.split(weights, np.cumsum(self.source.sizes)[:-1])
        self._sizes = [int(np.count_nonzero(part)) for part in self._parts]

    def _windows(self, rng: np.random.Generator | None) -> Iterator[tuple[list[int], Order]]:
        """Row groups that are read together, and the order of their rows."""
        groups = np.arange(len(self._sizes)) if rng is None else rng.permutation(len(self._sizes))
        width = 1 if rng is None else WINDOW
        for first in range(0, len(groups), width):
            window = [int(group) for group in groups[first : first + width]]
            n = sum(self._sizes[group] for group in window)
            yield window, np.arange(n) if rng is None else rng.permutation(n)

    def _weighted(self, group: int) -> HostRows:
        rows = self._encoded(group)
        if self.weights is None:
            return rows
        weights = self._parts[group]
        return replace(rows, weights=weights).take(weights > 0)

    def _encoded(self, group: int) -> HostRows:
        chunk = self.source.group(group, self.names)
        if self.schema is not None:
            return self.schema.encode_chunk(chunk)
        for name, cells in zip(self.names, chunk.cells, strict=True):
            if cells.dtype == object:
                raise DataError(
                    f"{self.source.path}, column {name!r}: it holds texts. "
                    f"Fix: pass like=scan({str(self.source.path)!r})."
                )
        return Rows.of(np.stack(chunk.cells, axis=1))


def _opened(source: NDArray[Any] | Table | str | Path, schema: Schema | None) -> _Array | _Groups:
    if isinstance(source, Table):
        return _Array(source.rows, source.missing)
    if not isinstance(source, str | Path):
        return _Array(source if isinstance(source, np.ndarray) else plain(source))
    opened: Source = open_source(source)
    if isinstance(opened, ParquetSource):
        return _Groups(opened, schema)
    if isinstance(opened, NumpySource):
        return _Array(opened.array) if schema is None else _Mapped(opened, schema)
    raise DataError(
        f"{source}: only .npy and Parquet files stream. Fix: convert it, or pass read({str(source)!r})."
    )
