"""Batches of rows, streamed from arrays and files that need not fit into memory."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from glob import glob, has_magic
from itertools import islice
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from squircuit.data.frames import plain
from squircuit.data.groups import Groups, Order
from squircuit.data.numpy_files import NumpySource
from squircuit.data.reading import Source
from squircuit.data.rows import Rows
from squircuit.data.schema import HostRows, Schema
from squircuit.data.share import Share
from squircuit.data.tabular import Table, matched, open_source
from squircuit.data.weights import Weights, as_weights
from squircuit.errors import DataError, ParameterError, is_whole, require_unmasked

WINDOW = 4
"""Groups of rows of a file that are in memory, and mixed, at once, where nobody says how many."""


@final
class Batches:
    """The rows of an array or a file in batches; one ``for`` loop is one epoch.

    The order is a function of the seed and the epoch. After a break, or in another process with the same
    arguments and `load_state_dict`, iteration goes on with the batch after the last one given.

    An array, also a mapped one, is shuffled row by row. Parquet files and tar files of images (such as those
    of webdataset) are read by groups of rows: these are shuffled, and each batch has rows of ``window`` of
    them; write files with many row groups.

    Args:
        source: an (n, d) array, a `Table`, or the path of a .npy, Parquet or tar file; or several Parquet or
            tar files: their paths, or a pattern such as ``"shards/*.tar"``.
        batch: number of rows; the last batch of an epoch may be smaller.
        shuffle: whether to shuffle in every epoch.
        seed: of the order.
        like: the types of the columns, from `scan` or `read`; files with texts need it, and without it
            numbers are given as they are.
        drop_last: whether to leave out a last batch that is smaller.
        weights: (n,), how much each row counts (`Rows.weights`); rows of weight 0 are left out.
        share: (rank, size): of every batch give, and read, only the part of one of so many processes; `fit`
            does so by itself.
        window: groups of rows that are in memory, and mixed, at once; default 4. So many processes can share
            the reading.

    Yields:
        `Rows`, (≤ batch, d).

    Example:
        >>> batches = Batches(np.arange(6.0).reshape(3, 2), batch=2, shuffle=False)
        >>> [part.x.tolist() for part in batches]
        [[[0.0, 1.0], [2.0, 3.0]], [[4.0, 5.0]]]
        >>> batches.state_dict()
        {'epoch': 1, 'position': 0}
        >>> [part.x.tolist() for part in Batches(np.arange(6)[:, None], 2, shuffle=False, share=(1, 2))]
        [[[1]], [[3]], [[5]]]
    """

    def __init__(
        self,
        source: NDArray[Any] | Table | str | Path | Sequence[str | Path],
        batch: int = 256,
        shuffle: bool = True,
        seed: int = 0,
        like: Table | Schema | None = None,
        drop_last: bool = False,
        weights: Any = None,
        share: tuple[int, int] = (0, 1),
        window: int = WINDOW,
    ) -> None:
        if not is_whole(batch, 1):
            raise ParameterError(f"batch={batch!r}. Fix: pass a whole number, at least 1.")
        if not is_whole(seed, 0):
            raise ParameterError(f"seed={seed!r}. Fix: pass a whole number, at least 0.")
        if not is_whole(window, 1):
            raise ParameterError(f"window={window!r}. Fix: pass a whole number, at least 1.")
        self.batch, self.shuffle, self.seed, self.drop_last = batch, shuffle, seed, drop_last
        self.share = Share.checked(*share)
        self._rows = _opened(source, like.schema if isinstance(like, Table) else like, window)
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
        order = (self.seed, self.epoch) if self.shuffle else None
        stream = self._rows.stream(order, self.position * self.batch, self.batch, self.share)
        for part in islice(stream, len(self) - self.position):
            turn, self.position = divmod(self.position + 1, len(self))
            self.epoch += turn  # before the batch is given: after a break it is not given again
            if part is not None:
                yield part

    @property
    def length(self) -> int:
        """How many rows there are."""
        return self._rows.length

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

    def stream(
        self, seeds: tuple[int, int] | None, start: int, batch: int, share: Share
    ) -> Iterator[HostRows | None]:
        order = self._order(seeds)
        for first in range(start, self.length, batch):
            own = share.of(min(batch, self.length - first))
            part = slice(first + own.start, first + own.stop)
            yield self._weighted(part if order is None else order[part]) if own.start < own.stop else None

    def _weighted(self, chosen: slice | Order) -> HostRows:
        rows = self.take(chosen)
        return rows if self.weights is None else replace(rows, weights=self.weights[chosen])

    def weigh(self, weights: Weights) -> None:
        """Give the rows weights; from now on there are only those above 0."""
        self.weights, self.length = weights, int(np.count_nonzero(weights))

    def _order(self, seeds: tuple[int, int] | None) -> Order | None:
        """The order of the rows, by their numbers in the source; None: as they are."""
        order = None if seeds is None else np.random.default_rng(seeds).permutation(self.length)
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


def _opened(source: Any, schema: Schema | None, window: int) -> _Array | Groups:
    if isinstance(source, Table):
        return _Array(source.rows, source.missing)
    paths = _paths(source)
    if not paths:
        return _Array(source if isinstance(source, np.ndarray) else plain(source))
    opened: list[Source] = [open_source(path) for path in paths]
    if all(hasattr(each, "sizes") for each in opened):
        return Groups(opened, schema, window)
    if len(opened) == 1 and isinstance(opened[0], NumpySource):
        return _Array(opened[0].array) if schema is None else _Mapped(opened[0], schema)
    other = next(each for each in opened if not hasattr(each, "sizes"))
    raise DataError(
        f"{other.path}: only .npy, Parquet and tar files stream{', and .npy alone' * (len(opened) > 1)}. "
        f"Fix: convert it, or pass read({str(other.path)!r})."
    )


def _paths(source: Any) -> list[str | Path]:
    """The files that are meant, those of a pattern in the order of their names; none: an array."""
    if isinstance(source, str) and has_magic(source) and not Path(source).exists():
        found: list[str | Path] = sorted(glob(source))
        if not found:
            raise DataError(f"{source}: no file is named so. Fix: check the pattern.")
        return found
    if isinstance(source, str | Path):
        return [source]
    several = isinstance(source, list | tuple) and all(isinstance(each, str | Path) for each in source)
    return list(source) if several else []
