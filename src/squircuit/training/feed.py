"""Training data as batches on the device of the model: from memory, or streamed."""

from __future__ import annotations

import copy
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from squircuit.data import Batches, Encoded
from squircuit.training.domains import Domains

BLOCK = 2**20
"""Numbers of a table that are evaluated or checked at a time."""
BLOCK_ROWS = 2**13
"""Rows at most that are evaluated at a time."""


class Batch(NamedTuple):
    """Rows (B, d) on the device, and which entries are missing; None: none of them."""

    x: Tensor
    missing: Tensor | None


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
        missing: (n, d) or None.
        device: of the batches.
        dtype: of the batches: int64, or that of the model's floats.
    """

    def __init__(
        self, rows: Tensor, missing: Tensor | None, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.count, self._device, self._dtype = len(rows), device, dtype
        self._fingerprint = _digest(rows, missing)
        self._incomplete = None if missing is None else missing.any(dim=1).numpy()
        home = device if _fits(rows, device) else torch.device("cpu")
        self._rows, self._missing = rows.to(home), None if missing is None else missing.to(home)

    def steps(self, batch: int) -> int:
        return max(1, self.count // batch)

    def batches(self, batch: int, seed: int, epoch: int, start: int = 0) -> Iterator[Batch]:
        order = np.random.default_rng([seed, epoch]).permutation(self.count)
        index = torch.from_numpy(order).to(self._rows.device)  # at once: each copy waits for the device
        for number in range(start, self.steps(batch)):
            part = slice(number * batch, (number + 1) * batch)
            yield self._take(index[part], order[part])

    def blocks(self) -> Iterator[Batch]:
        size = min(BLOCK_ROWS, max(1, BLOCK // self._rows.shape[1]))
        for start in range(0, self.count, size):
            part = slice(start, start + size)
            yield self._take(part, part)

    def fingerprint(self) -> str:
        return self._fingerprint

    def _take(self, index: Tensor | slice, chosen: NDArray[np.int64] | slice) -> Batch:
        """Some rows, named to the device and to the host, which knows whether they are complete."""
        x = self._rows[index].to(self._device, self._dtype)
        if self._missing is None or self._incomplete is None or not self._incomplete[chosen].any():
            return Batch(x, None)
        return Batch(x, self._missing[index].to(self._device))


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
        first = next(self.blocks())
        return _digest(first.x.cpu(), first.missing, str((len(self._source), self.batch, self._source.seed)))

    def _at(self, epoch: int, start: int) -> Batches:
        """The stream at one place, without a smaller last batch unless that is all."""
        source = copy.copy(self._source)
        source.drop_last = True
        source.drop_last = len(source) > 0
        source.load_state_dict({"epoch": epoch, "position": start})
        return source

    def _moved(self, encoded: Encoded) -> Batch:
        rows, missing = torch.from_numpy(encoded.rows), torch.from_numpy(encoded.missing)
        self._domains.require_inside(rows, missing, self._name)
        if bool(missing.any()):
            rows = rows.masked_fill(missing & self._domains.discrete, 0)
            return Batch(rows.to(self._device, self._dtype), missing.to(self._device))
        return Batch(rows.to(self._device, self._dtype), None)


def _fits(rows: Tensor, device: torch.device) -> bool:
    """Rows take no more than half of what is free on a GPU."""
    if device.type != "cuda":
        return True
    free, _ = torch.cuda.mem_get_info(device)
    return rows.numel() * rows.element_size() < free / 2


def _digest(rows: Tensor, missing: Tensor | None, more: str = "") -> str:
    digest = hashlib.sha256(f"{tuple(rows.shape)} {rows.dtype} {more}".encode())
    digest.update(_bytes(rows))
    if missing is not None:
        digest.update(_bytes(missing))
    return digest.hexdigest()


def _bytes(values: Tensor) -> memoryview:
    return values.cpu().contiguous().numpy().data
