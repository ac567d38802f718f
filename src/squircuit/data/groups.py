"""Rows that are read some hundreds or thousands at a time, side by side, from files of any size."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

from squircuit.data.rows import Rows
from squircuit.data.schema import Chunk, HostRows, Schema
from squircuit.data.share import Share, cuts
from squircuit.data.tabular import chosen, matched
from squircuit.data.weights import Weights
from squircuit.errors import DataError

Order = NDArray[np.int64]


class GroupSource(Protocol):
    """A file whose rows are read by groups.

    Attributes:
        path: of the file.
        names: of its columns.
        sizes: rows of each group.
    """

    path: Any
    names: tuple[str, ...]
    sizes: list[int]

    def group(self, group: int, names: Sequence[str]) -> Chunk: ...
    def numbers(self, group: int, names: Sequence[str]) -> NDArray[Any] | None:
        """The rows of a group as one array, (n, d); None: only `group` has them."""


@final
class Groups:
    """The rows of some files, a few groups of each at a time.

    All groups, in the order of an epoch, are one long sequence of rows. It is cut into ``window`` lanes that
    are read side by side, and every batch has as many rows of each lane: so rows of as many groups are mixed,
    each group is in memory once, and a process that has a part of every batch reads the lanes of that part.
    Where a lane begins and which rows a batch takes of it follow from the numbers of rows alone: so reading
    begins at any batch.

    Args:
        sources: the files, with the same columns.
        schema: the types of the columns; None: numbers as they are.
        window: groups that are mixed, and in memory, at once.
    """

    weights: Weights | None = None

    def __init__(self, sources: Sequence[Any], schema: Schema | None, window: int) -> None:
        self.sources, self.schema, self.window = list(sources), schema, window
        self.names = [matched(s, schema) if schema else chosen(s, None)[0] for s in self.sources]
        for source, names in zip(self.sources, self.names, strict=True):
            if schema is None and names != self.names[0]:
                raise DataError(
                    f"{source.path}: other columns than {self.sources[0].path} has. "
                    "Fix: give all files the same columns, or pass like=scan(path) of one."
                )
        self._places = [(s, group) for s, each in enumerate(self.sources) for group in range(len(each.sizes))]
        self._sizes = [size for source in self.sources for size in source.sizes]
        self.length = sum(self._sizes)

    def weigh(self, weights: Weights) -> None:
        """Give the rows weights; from now on there are only those above 0."""
        self.weights, self.length = weights, int(np.count_nonzero(weights))
        self._parts = np.split(weights, np.cumsum(self._sizes)[:-1])
        self._sizes = [int(np.count_nonzero(part)) for part in self._parts]

    def stream(
        self, order: tuple[int, int] | None, start: int, batch: int, share: Share
    ) -> Iterator[HostRows | None]:
        """The own rows of every batch, from the one that begins with row ``start``; None where none is.

        Args:
            order: what the order of the rows is a function of; None: as in the files.
            start: a multiple of the batch.
            batch: rows of a batch of all processes.
            share: of the batch that is read here.
        """
        lanes = self._lanes(order, batch)
        for first in range(start, self.length, batch):
            count = min(batch, self.length - first)
            own, found = share.of(count), list[HostRows]()
            for lane, (begin, end) in zip(lanes, cuts(count, len(lanes)), strict=True):
                before = lane.quota * (first // batch) - begin  # of the lane, less those of the batch
                begin, end = max(begin, own.start), min(end, own.stop)
                if begin < end:
                    found += lane.take(before + begin, before + end)
            yield Rows.joined(found) if found else None

    def _lanes(self, order: tuple[int, int] | None, batch: int) -> list[_Lane]:
        """The lanes of an epoch; in order there is one."""
        count = len(self._sizes)
        groups = np.arange(count) if order is None else np.random.default_rng(order).permutation(count)
        full, rest = divmod(self.length, batch)
        lanes, width, first = [], 1 if order is None else min(self.window, count), 0
        ends = list(accumulate(self._sizes[group] for group in groups))
        for (a, b), (c, d) in zip(cuts(batch, width), cuts(rest, width), strict=True):
            last = first + full * (b - a) + (d - c)
            pieces = []
            for place in range(bisect_right(ends, first), len(groups)):
                group, begin = int(groups[place]), ends[place] - self._sizes[groups[place]]
                if begin >= last:
                    break
                pieces.append((group, max(first - begin, 0), min(last, ends[place]) - begin))
            lanes.append(_Lane(pieces, b - a, lambda group: self._mixed(group, order)))
            first = last
        return lanes

    def _mixed(self, group: int, order: tuple[int, int] | None) -> HostRows:
        """The rows of a group in the order of an epoch."""
        rows = self._read(group)
        if order is None:
            return rows
        return rows.take(np.random.default_rng([*order, group]).permutation(len(rows)))

    def _read(self, group: int) -> HostRows:
        rows = self._encoded(*self._places[group])
        if self.weights is None:
            return rows
        weights = self._parts[group]
        return replace(rows, weights=weights).take(weights > 0)

    def _encoded(self, number: int, group: int) -> HostRows:
        source, names = self.sources[number], self.names[number]
        numbers = source.numbers(group, names)
        if numbers is not None:
            rows = Rows.of(numbers) if self.schema is None else self.schema.encode_numbers(numbers)
            if rows is not None:
                return rows
        chunk = source.group(group, names)
        if self.schema is not None:
            return self.schema.encode_chunk(chunk)
        for name, cells in zip(names, chunk.cells, strict=True):
            if cells.dtype == object:
                raise DataError(
                    f"{source.path}, column {name!r}: it holds texts. "
                    f"Fix: pass like=scan({str(source.path)!r})."
                )
        return Rows.of(np.stack(chunk.cells, axis=1))


@final
class _Lane:
    """A stretch of all rows, which goes through some groups, one in memory at a time.

    Args:
        pieces: a group, and the first and the last but one of its rows that are here; in order.
        quota: rows of it in a full batch.
        read: a group.
    """

    def __init__(
        self, pieces: list[tuple[int, int, int]], quota: int, read: Callable[[int], HostRows]
    ) -> None:
        self.quota, self._read = quota, read
        self._pieces = [piece for piece in pieces if piece[1] < piece[2]]
        self._starts = [0, *accumulate(last - first for _, first, last in self._pieces)]
        self._held: tuple[int, HostRows] | None = None

    def take(self, first: int, last: int) -> Iterator[HostRows]:
        """Some of its rows, by their places in it: those of each group, one after the other."""
        place = bisect_right(self._starts, first) - 1
        while first < last:
            end = min(last, self._starts[place + 1])
            begin = self._pieces[place][1] - self._starts[place]
            yield self._piece(place).take(slice(begin + first, begin + end))
            first, place = end, place + 1

    def _piece(self, place: int) -> HostRows:
        if self._held is None or self._held[0] != place:
            self._held = None  # before another one is read
            self._held = place, self._read(self._pieces[place][0])
        return self._held[1]
