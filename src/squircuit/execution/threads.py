"""How many threads of torch serve: one where operations are small, or where the machine is busy.

Threads meet at the end of every operation. Where these are short that takes longer than it saves;
and where other programs want the processors, too, a thread that waits for its turn holds up all others with
each operation: two threads are then many times slower than one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from squircuit.execution.plan import Plan

SMALL = 2e7
"""Multiplications of an operation below which one thread is as fast."""
BUSY = 1.5
"""How many times longer two threads may take for what one does, until one is used."""


@contextmanager
def fitting_threads(operation: float = 0.0) -> Iterator[None]:
    """One thread while this lasts, where more would not be faster; else as many as torch has.

    Those who say how many there shall be, by ``OMP_NUM_THREADS``, are heard.

    Args:
        operation: multiplications in a typical operation of the work.

    Example:
        >>> with fitting_threads(operation=1e3):
        ...     torch.ones(3).sum().item()
        3.0
    """
    threads = torch.get_num_threads()
    if threads == 1 or "OMP_NUM_THREADS" in os.environ or (operation >= SMALL and not _is_busy(threads)):
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def one_thread() -> Iterator[int]:
    """One thread while this lasts, whatever the machine: then sums do not depend on how many there are.

    Yields:
        As many as there were.

    Example:
        >>> with one_thread():
        ...     torch.get_num_threads()
        1
    """
    before = torch.get_num_threads()
    if before > 1:
        torch.set_num_threads(1)
    try:
        yield before
    finally:
        if before > 1:
            torch.set_num_threads(before)


def typical_operation(plan: Plan, rows: int) -> float:
    """Multiplications of a group of layers, on average, for so many rows."""
    weights = sum(len(s.parameters) * s.shape[0] * s.shape[1] for s in plan.stacks if len(s.shape) == 2)
    return rows * weights / max(1, len(plan.groups))


def _is_busy(threads: int) -> bool:
    """Several threads take longer for a small piece of work than one does."""
    work, took = torch.ones(2**17), []
    try:
        for count in (1, threads):
            torch.set_num_threads(count)
            work.exp()  # the first one starts the threads
            started = time.perf_counter()
            for _ in range(8):
                work.exp()
            took.append(time.perf_counter() - started)
    finally:
        torch.set_num_threads(threads)
    return took[1] > BUSY * took[0]
