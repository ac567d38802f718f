"""Which rows of every batch are those of one of several processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, NamedTuple

from squircuit.data.rows import Array, Rows
from squircuit.errors import DataError, ParameterError, is_whole


class Part(NamedTuple, Generic[Array]):
    """The rows of a batch that one process has.

    Args:
        rows: these alone.
        start: the place in the batch of the first of them.
        whole: how many rows the batch has.
    """

    rows: Rows[Array]
    start: int
    whole: int


class Share(NamedTuple):
    """Process ``rank`` of ``size``: it has a stretch of every batch, as long as the others' or one row more.

    Example:
        >>> import torch
        >>> [Share(rank, 3).of(8) for rank in range(3)]
        [slice(0, 2, None), slice(2, 5, None), slice(5, 8, None)]
        >>> Share(1, 2).part(Rows(torch.arange(5)[:, None])).rows.x.flatten().tolist()
        [2, 3, 4]
    """

    rank: int = 0
    size: int = 1

    @staticmethod
    def checked(rank: Any, size: Any) -> Share:
        """A share as users give it."""
        if is_whole(size, 1) and is_whole(rank, 0) and rank < size:
            return Share(rank, size)
        raise ParameterError(
            f"share=({rank!r}, {size!r}). Fix: pass the number of a process, from 0, and how many there are."
        )

    def of(self, count: int) -> slice:
        """Which of so many rows."""
        return slice(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def part(self, batch: Rows[Array]) -> Part[Array]:
        """The own rows of a batch."""
        own = self.of(len(batch))
        return Part(batch if self.size == 1 else batch.take(own), own.start, len(batch))

    def require_enough(self, count: int, name: str) -> None:
        """Refuse, in all processes alike, a batch that has no row for some of them."""
        if count < self.size:
            raise DataError(
                f"{name}: a batch of {count} row{'s' * (count != 1)} has none for each of {self.size} "
                "processes. Fix: larger batches, or fewer processes."
            )


def cuts(count: int, parts: int) -> Iterator[tuple[int, int]]:
    """So many rows as stretches of almost equal length: where each begins and ends.

    Example:
        >>> list(cuts(5, 2))
        [(0, 2), (2, 5)]
    """
    for number in range(parts):
        yield count * number // parts, count * (number + 1) // parts
