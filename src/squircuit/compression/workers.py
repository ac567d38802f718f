"""Blocks of rows side by side, each by one thread: no sum depends on how many processors there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

from squircuit.progress import steps

T = TypeVar("T")
R = TypeVar("R")


def side_by_side(
    work: Callable[[T], R], blocks: Sequence[T], sizes: Sequence[float], workers: int
) -> Iterator[R]:
    """The results of some work on each block, in their order.

    Args:
        work: on one block; torch has one thread, see :func:`squircuit.execution.threads.one_thread`.
        blocks: that do not depend on each other.
        sizes: of the blocks, for those who wait.
        workers: on as many blocks at once.
    """
    with ThreadPoolExecutor(max(1, min(workers, len(blocks)))) as pool:
        try:
            yield from steps(pool.map(torch.no_grad()(work), blocks), sizes)
        finally:
            pool.shutdown(cancel_futures=True)  # where something is wrong with a block, or of Ctrl-C
