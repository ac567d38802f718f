"""Rows that come batch by batch, wherever they come from."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import final

import numpy as np
from numpy.typing import NDArray

from squircuit.data import Batches
from squircuit.data.schema import HostRows
from squircuit.data.share import Part, Share
from squircuit.data.weights import Weights

HostPart = Part[NDArray[np.generic]]
"""The own rows of a batch, as arrays."""


class Streamed(ABC):
    """Rows in batches that somebody else makes.

    Attributes:
        batch: rows of a batch.
        steps: batches of an epoch, without a smaller last one unless that is all.
        key: other data mostly has another one.
        weights: of all rows, or None.
    """

    batch: int
    steps: int
    key: str
    weights: Weights | None = None

    @abstractmethod
    def epoch(self, seed: int, epoch: int, start: int, share: Share) -> Iterator[HostPart]:
        """The own rows of the `steps` batches of an epoch from number ``start`` on."""

    @abstractmethod
    def all(self, share: Share) -> Iterator[HostRows]:
        """All own rows once, for evaluation."""


@final
class BatchStream(Streamed):
    """Those of `sq.data.Batches`, which are not moved on."""

    def __init__(self, source: Batches) -> None:
        self._source, self.batch, self.weights = source, source.batch, source.weights
        self.key = str((len(source), source.batch, source.seed))
        self._trained = copy.copy(source)
        self._trained.drop_last = True
        self._trained.drop_last = len(self._trained) > 0
        self.steps = len(self._trained)

    def epoch(self, seed: int, epoch: int, start: int, share: Share) -> Iterator[HostPart]:
        whole = min(self.batch, self._source.length)
        for rows in _at(self._trained, epoch, start, share):
            yield Part(rows, share.of(whole).start, whole)

    def all(self, share: Share) -> Iterator[HostRows]:
        return _at(self._source, 0, 0, share)


def _at(source: Batches, epoch: int, position: int, share: Share) -> Iterator[HostRows]:
    """The own rows of the batches from one place on."""
    moved = copy.copy(source)
    moved.share = share
    moved.load_state_dict({"epoch": epoch, "position": position})
    return iter(moved)
