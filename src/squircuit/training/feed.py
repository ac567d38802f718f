"""Training data in batches on the device of the model."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from squircuit.data import Rows
from squircuit.data.schema import HostRows
from squircuit.data.share import Part, Share
from squircuit.data.weights import Weights, with_mean_1
from squircuit.families.domain import Domains
from squircuit.training.loaders import Items
from squircuit.training.streams import Streamed

BLOCK = 2**20
"""Numbers of a table that are evaluated or checked at a time."""
BLOCK_ROWS = 2**13
"""Rows at most that are evaluated at a time."""
ITEMS = 256
"""Rows at most of a Dataset that are read and evaluated at a time."""
Batch = Rows[Tensor]
"""Rows (B, d) on the device of the model; weights, where there are some, are 1 in the mean of all rows."""
ALL = Share()
"""The share of a process that is alone."""


class Feed(ABC):
    """Rows in batches; the order is a function of the seed and the epoch.

    Attributes:
        count: number of rows (of a stream, as many as its batches may hold).
        is_weighted: rows have weights, all above 0.
    """

    count: int
    is_weighted: bool = False

    @abstractmethod
    def steps(self, batch: int) -> int:
        """Batches in an epoch: full ones, or one of all rows where there are fewer."""

    @abstractmethod
    def parts(
        self, batch: int, seed: int, epoch: int, start: int = 0, share: Share = ALL
    ) -> Iterator[Part[Tensor]]:
        """The own rows of the batches of an epoch from number ``start`` on; others are not read."""

    def batches(self, batch: int, seed: int, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from number ``start`` on, as a process alone has them."""
        return (part.rows for part in self.parts(batch, seed, epoch, start))

    @abstractmethod
    def blocks(self, share: Share = ALL) -> Iterator[Batch]:
        """All own rows once, for evaluation; no block is empty."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Other data has another one."""


class Data(NamedTuple):
    """Training and validation data."""

    train: Feed
    valid: Feed | None


@final
@dataclass(frozen=True)
class Target:
    """The device and the type of numbers that rows go to, once each cell is in its domain.

    Args:
        name: of the data, for errors.
        domains: of the columns.
        device, dtype: of the batches: int64, or double precision.
    """

    name: str
    domains: Domains
    device: torch.device
    dtype: torch.dtype

    def moved(self, rows: HostRows) -> Batch:
        return checked(rows.to(torch.device("cpu")), self.domains, self.name).to(self.device, self.dtype)


@final
class Memory(Feed):
    """Rows in memory, held on the device where they fit.

    Args:
        rows: (n, d), checked; discrete ones as small integers.
        device: of the batches.
        dtype: of the batches: int64, or that of the model's floats.
    """

    def __init__(self, rows: Batch, device: torch.device, dtype: torch.dtype) -> None:
        if rows.weights is not None:
            rows = replace(rows, weights=torch.from_numpy(with_mean_1(rows.weights.numpy())))
        self.count, self._device, self._dtype = len(rows), device, dtype
        self.is_weighted = rows.weights is not None
        self._fingerprint = _digest(rows)
        self._incomplete = None if rows.gaps is None else rows.gaps.any(dim=1).numpy()
        self._rows = rows.to(device if _fits(rows.x, device) else torch.device("cpu"))

    def steps(self, batch: int) -> int:
        return max(1, self.count // batch)

    def parts(
        self, batch: int, seed: int, epoch: int, start: int = 0, share: Share = ALL
    ) -> Iterator[Part[Tensor]]:
        order = np.random.default_rng([seed, epoch]).permutation(self.count)
        index = torch.from_numpy(order).to(self._rows.x.device)  # at once: each copy waits for the device
        whole = min(batch, self.count)
        for number in range(start, self.steps(batch)):
            own = _moved(share.of(whole), number * batch)
            yield Part(self._take(index[own], order[own]), share.of(whole).start, whole)

    def blocks(self, share: Share = ALL) -> Iterator[Batch]:
        size, own = min(BLOCK_ROWS, max(1, BLOCK // self._rows.x.shape[1])), share.of(self.count)
        for start in range(own.start, own.stop, size):
            part = slice(start, min(start + size, own.stop))
            yield self._take(part, part)

    def fingerprint(self) -> str:
        return self._fingerprint

    def _take(self, index: Tensor | slice, chosen: NDArray[np.int64] | slice) -> Batch:
        """Some rows, named to the device and to the host, which knows whether they are complete."""
        rows = self._rows.take(index)
        if self._incomplete is None or not self._incomplete[chosen].any():
            rows = replace(rows, gaps=None)
        return rows.to(self._device, self._dtype)


@final
class Stream(Feed):
    """Rows that are read batch by batch; a last batch that is smaller is left out of training.

    Args:
        source: gives the rows.
        target: where they go; every batch is checked.
    """

    def __init__(self, source: Streamed, target: Target) -> None:
        self._source, self._target = source, target
        self.batch, self.count = source.batch, source.steps * source.batch
        self._weights = source.weights
        self.is_weighted = self._weights is not None

    def steps(self, batch: int) -> int:
        return self._source.steps

    def parts(
        self, batch: int, seed: int, epoch: int, start: int = 0, share: Share = ALL
    ) -> Iterator[Part[Tensor]]:
        if start < self._source.steps:
            for rows, first, whole in self._source.epoch(seed, epoch, start, share):
                yield Part(self._moved(rows), first, whole)

    def blocks(self, share: Share = ALL) -> Iterator[Batch]:
        yield from map(self._moved, self._source.all(share))

    def fingerprint(self) -> str:
        """A fingerprint of the number of batches and of the first one."""
        return _digest(next(self.blocks()), self._source.key)

    def _moved(self, rows: HostRows) -> Batch:
        if rows.weights is not None:
            rows = replace(rows, weights=with_mean_1(rows.weights, self._weights))
        return self._target.moved(rows)


@final
class Indexed(Feed):
    """Rows that are read one by one, by their numbers, as of a Dataset of torch.

    Args:
        items: that give the rows.
        index: the numbers of the rows that count.
        weights: of these, all above 0, or None.
        target: where they go; every batch is checked.
    """

    def __init__(
        self, items: Items, index: NDArray[np.int64], weights: Weights | None, target: Target
    ) -> None:
        self._items, self._index, self._target = items, index, target
        self._weights = None if weights is None else with_mean_1(weights)
        self.count, self.is_weighted = len(index), weights is not None

    def steps(self, batch: int) -> int:
        return max(1, self.count // batch)

    def parts(
        self, batch: int, seed: int, epoch: int, start: int = 0, share: Share = ALL
    ) -> Iterator[Part[Tensor]]:
        order = np.random.default_rng([seed, epoch]).permutation(self.count)
        whole, numbers = min(batch, self.count), range(start, self.steps(batch))
        own = share.of(whole)
        parts = [order[_moved(own, number * batch)] for number in numbers]
        for rows in self._read(parts, [(seed, epoch, number) for number in numbers], own.start):
            yield Part(rows, own.start, whole)

    def blocks(self, share: Share = ALL) -> Iterator[Batch]:
        own = np.arange(self.count)[share.of(self.count)]
        parts = [own[first : first + ITEMS] for first in range(0, len(own), ITEMS)]
        return self._read(parts, [(int(part[0]),) for part in parts], 0)

    def fingerprint(self) -> str:
        """A fingerprint of the numbers of all rows, of their weights, and of the first ones."""
        more = [part for part in (self._index, self._weights) if part is not None]
        return _digest(next(self.blocks()), " ".join(hashlib.sha256(part.data).hexdigest() for part in more))

    def _read(
        self, parts: list[NDArray[np.int64]], seeds: list[tuple[int, ...]], start: int
    ) -> Iterator[Batch]:
        found = self._items.read([self._index[part] for part in parts], seeds, start)
        for part, rows in zip(parts, found, strict=True):
            weights = None if self._weights is None else self._weights[part]
            yield self._target.moved(replace(rows, weights=weights))


def checked(rows: Batch, domains: Domains, name: str, first_row: int = 0) -> Batch:
    """Rows whose cells are in their domains: those beyond have probability 0, and teach nothing.

    Cells that are missing become 0 in discrete columns, and nothing is left of a mask without any.
    """
    fix = "correct or leave out the row, or build the model with a wider domain"
    domains.require(rows.x, rows.gaps, name=name, first_row=first_row, fix=fix)
    if rows.is_complete:
        return replace(rows, gaps=None)
    return replace(rows, x=rows.x.masked_fill(rows.missing & domains.discrete, 0))


def _moved(part: slice, by: int) -> slice:
    return slice(part.start + by, part.stop + by)


def _fits(rows: Tensor, device: torch.device) -> bool:
    """Rows take no more than half of what is free on a GPU."""
    if device.type != "cuda":
        return True
    free, _ = torch.cuda.mem_get_info(device)
    return rows.numel() * rows.element_size() < free / 2


def _digest(rows: Batch, more: str = "") -> str:
    digest = hashlib.sha256(f"{tuple(rows.x.shape)} {rows.x.dtype} {more}".encode())
    for part in (rows.x, rows.gaps, rows.weights):
        if part is not None:
            digest.update(part.cpu().contiguous().numpy().data)
    return digest.hexdigest()
