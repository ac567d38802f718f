"""Time and peak memory of a training step on the device where it runs."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable

import torch


def time_calls(call: Callable[[], object], repeats: int, cuda: bool, busy: bool = False) -> list[float]:
    """Milliseconds of each call: CUDA events, or the performance counter.

    Args:
        busy: on a CPU, of all threads of this process together, whatever other processes do.
    """
    return [_cuda_ms(call) if cuda else _cpu_ms(call, busy) for _ in range(repeats)]


def reset_peak(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def peak_gib(device: str) -> float:
    """The most memory held at once: by tensors on a CUDA device, by the whole process on a CPU."""
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated() / 2**30
    unit = 1 if sys.platform == "darwin" else 2**10  # macOS counts bytes, Linux kilobytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30


def _cuda_ms(call: Callable[[], object]) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    start.record()
    call()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end))


def _cpu_ms(call: Callable[[], object], busy: bool) -> float:
    clock = time.process_time if busy else time.perf_counter
    begin = clock()
    call()
    return 1e3 * (clock() - begin)
