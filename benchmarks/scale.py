"""Training steps of several processes: their time beside that of one, and the bytes that they send.

    OMP_NUM_THREADS=1 python benchmarks/scale.py --processes 1 2 4 --units 16

The batch is the same however many processes share it (strong scaling). Bytes are counted by the kernel, on
the TCP connections of each process, beside what a ring sends: 2 (N − 1)/N numbers for each number of the
weights, whether all sum all gradients (all-reduce) or share the optimiser's work (reduce-scatter and
all-gather). Those of the optimiser's state are held by one process. CPUs and gloo on Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import distributed

import squircuit as sq
from squircuit.training.steps import Steps

ACKED = 120
"""Where the kernel's tcp_info holds the bytes that the other side has received."""


@dataclass
class Row:
    """What one process has found.

    Args:
        ms: of each step.
        cpu_ms: that this process has computed in a step, in the mean.
        sent: bytes in a step, in the mean.
        ring: bytes that a ring sends.
        state: bytes of the optimiser's state.
    """

    size: int
    shard: str
    ms: list[float]
    cpu_ms: float
    sent: float
    ring: float
    state: int


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--side", type=int, default=16, help="of the images")
    parser.add_argument("--units", type=int, default=16)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.rank is not None:
        (wanted.folder / f"{wanted.rank}.json").write_text(json.dumps([asdict(r) for r in rows(wanted)]))
        return
    print(f"{os.cpu_count()} cores, torch {torch.__version__}, one thread a process, batch {wanted.batch}")
    print("processes  shard      ms/step  CPU ms/step  speed-up  ideal  MB sent  MB ring  MB state")
    alone = 0.0
    for size in wanted.processes:
        for number, row in enumerate(together(size)[0]):
            ms = statistics.median(row.ms)
            alone = alone or ms * size
            print(
                f"{size:<9}  {row.shard:<9}  {ms:7.1f}  {row.cpu_ms:11.1f}  {alone / ms:8.2f}  {size:5}  "
                f"{row.sent / 1e6:7.3f}  {row.ring / 1e6:7.3f}  {row.state / 1e6:8.3f}"
            )
            if size == 1 and number == 0:
                break  # there is nothing to share


def together(size: int) -> list[list[Row]]:
    """What each of so many processes has found."""
    env = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"} | dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, __file__, *sys.argv[1:], "--processes", str(size), "--folder", folder]
        started = [subprocess.Popen([*words, "--rank", str(rank)], env=env) for rank in range(size)]
        codes = [process.wait() for process in started]
        if any(codes):
            sys.exit(1)
        found = [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(size)]
    return [[Row(**row) for row in own] for own in found]


def rows(wanted: argparse.Namespace) -> list[Row]:
    """Of this process, with each way to share the work."""
    size = wanted.processes[0]
    store = f"file://{wanted.folder}/store"
    distributed.init_process_group("gloo", store, rank=wanted.rank, world_size=size)
    found = [measured(wanted, size, shard) for shard in ("none", "optimiser")]
    distributed.destroy_process_group()
    return found


def measured(wanted: argparse.Namespace, size: int, shard: str) -> Row:
    model = sq.image_model((wanted.side, wanted.side), units=wanted.units, levels=16, seed=0)
    config = sq.TrainingConfig(optimiser="polar", lr=0.1, shard=shard)
    steps = Steps(model, config, sq.training.Distributed())
    generator = torch.Generator().manual_seed(0)
    rows = sq.data.Rows(torch.randint(16, (wanted.batch, wanted.side**2), generator=generator))
    batch = sq.training.Distributed().share.part(rows)
    for _ in range(3):
        steps(batch, 1.0)
    distributed.barrier()
    sent, computed, ms = bytes_sent(), time.process_time(), []
    for _ in range(wanted.repeats):
        start = time.perf_counter()
        steps(batch, 1.0)
        ms.append(1e3 * (time.perf_counter() - start))
    distributed.barrier()
    states: Any = steps.optimiser.state.values()
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    return Row(
        size,
        shard,
        ms,
        1e3 * (time.process_time() - computed) / wanted.repeats,
        (bytes_sent() - sent) / wanted.repeats,
        2 * (size - 1) / size * weights,
        sum(value.numel() * value.element_size() for state in states for value in state.values()),
    )


def bytes_sent() -> int:
    """On all TCP connections of this process, as far as the other sides have received them."""
    total = 0
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # no socket, or one without a connection
            with socket.socket(fileno=os.dup(int(name))) as found:
                info = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
            total += struct.unpack_from("Q", info, ACKED)[0]
    return total


if __name__ == "__main__":
    main()
