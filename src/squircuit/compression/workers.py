"""Blocks of rows side by side, each by one thread: no sum depends on how many processors there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

from squircuit.progress import steps

T = TypeVar("T")
R = TypeVar("R")


def side_by_side(
    work: Callable[[T], R], blocks: Sequence[T], sizes: Sequence[float], device: torch.device
) -> Iterator[R]:
    """The results of some work on each block, in their order.

    Args:
        work: on one block.
        blocks: on as many of which there are threads of torch.
        sizes: of the blocks, for those who wait.
        device: where the work is done; of a GPU there is one.
    """
    workers = 1 if device.type != "cpu" else min(torch.get_num_threads(), max(1, len(blocks)))
    with _one_thread(), ThreadPoolExecutor(workers) as pool:
        try:
            yield from steps(pool.map(torch.no_grad()(work), blocks), sizes)
        finally:
            pool.shutdown(cancel_futures=True)  # where something is wrong with a block, or of Ctrl-C


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
