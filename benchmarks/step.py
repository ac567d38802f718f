"""Times one whole training step (forward, backward, optimiser) and its peak memory, ours beside peers.

    python benchmarks/step.py --kind unitary-kronecker --units 8 --peer ours --peer NAME=ADAPTER.py

An adapter is a file with a function make(kind, units, side, device, graph, batch) that returns a step.
Warm-up, then the median of CUDA events or the performance counter; prints a table, with --json writes a file.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import ours
import torch
from torch import Tensor


def time_step(step: Callable[[Tensor], Tensor], x: Tensor, repeats: int, warm_up: int) -> list[float]:
    """Milliseconds of each repetition."""
    for _ in range(warm_up):
        step(x)
    times = []
    for _ in range(repeats):
        if x.is_cuda:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            step(x)
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end))
        else:
            begin = time.perf_counter()
            step(x)
            times.append(1e3 * (time.perf_counter() - begin))
    return times


def load(path: str) -> Callable[..., Callable[[Tensor], Tensor]]:
    """The function ``make`` of a peer's adapter file."""
    spec = importlib.util.spec_from_file_location("peer", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.make  # type: ignore[no-any-return]


def measure(name: str, options: argparse.Namespace) -> dict[str, object]:
    """One row of the table."""
    device = options.device
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(256, (options.batch, options.side**2), generator=generator).to(device)
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    label, _, path = name.partition("=")
    make = ours.make if not path else load(path)
    graph = label.endswith("graph")
    step = make(options.kind, options.units, options.side, device, graph, x)
    times = time_step(step, x, options.repeats, options.warm_up)
    memory = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else float("nan")
    return {"peer": label, "ms": statistics.median(times), "spread": max(times) - min(times), "gib": memory}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", default="unitary-kronecker")
    parser.add_argument("--units", type=int, default=8)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--side", type=int, default=28)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--warm-up", type=int, default=5)
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--peer", action="append", help="ours, ours-graph, or NAME=ADAPTER.py")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = options.tf32
    where = torch.cuda.get_device_name() if options.device == "cuda" else platform.processor() or "CPU"
    rows = [measure(name, options) for name in options.peer or ["ours"]]
    what = f"{options.kind} K={options.units} {options.side}×{options.side} batch {options.batch}"
    print(f"{what} on {where}, torch {torch.__version__}")
    for row in rows:
        ratio = rows[0]["ms"] / row["ms"]  # type: ignore[operator]
        took = f"{row['ms']:9.2f} ms  ±{row['spread']:.2f}  {row['gib']:.2f} GiB"
        print(f"  {row['peer']:24} {took}  first/this {ratio:.2f}")
    if options.json:
        options.json.write_text(
            json.dumps({"options": vars(options) | {"json": None}, "rows": rows}, default=str)
        )


if __name__ == "__main__":
    main()
