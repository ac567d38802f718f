"""Training steps of several processes: time, memory and the bytes that they send, beside those of one.

    OMP_NUM_THREADS=1 python benchmarks/scale.py --processes 1 2 4 --units 16
    OMP_NUM_THREADS=1 python benchmarks/scale.py --processes 1 2 4 --units 16 --weak
    python benchmarks/scale.py --predict
    python benchmarks/scale.py --device cuda --side 76 --units 16 --processes 1 --repeats 5
    python benchmarks/scale.py --device cuda --side 12 --units 16 --processes 1 2 --repeats 2 --double

The last but one has 2.0 × 10⁹ weights, 16 GB, for a GPU with more than 90 GB; the last two processes on one,
which talk by gloo and must have the weights of one: to rounding in double precision, while in single a GPU
computes steps in TF32, whose rounding depends on how many rows there are.

The batch is the same however many processes share it (strong scaling), or with ``--weak`` as large for each.
Bytes are counted by the kernel, on the TCP connections of each process, beside what rings and trees send: of
W bytes of weights 2 (N − 1)/N · W whether all sum all gradients (all-reduce) or share the optimiser's work
(reduce-scatter and all-gather); where the weights are in parts, these are sent forward and, but for those of
input layers, backward, and gradients are sent once. Weights, gradients and the optimiser's state are those
that one process holds between steps; the peak is that of its main memory above what it had before the model
was made, and on a GPU that of the device. Apart is how far some thousands of weights are at most from where
the first line has them. Linux only. Several processes on one GPU talk by gloo.

``--predict`` measures nothing: see prediction.py.
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
from prediction import predict
from squircuit.circuits.initial import haar
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
        formula: bytes that the formula says.
        weights, gradients, state: bytes held.
        peak: bytes of memory above what there was before.
        loss: of the last step, in nats: with the same batch the same up to rounding.
        sample: some weights after the last step, which are the same likewise.
    """

    size: int
    shard: str
    ms: list[float]
    cpu_ms: float
    sent: float
    formula: float
    weights: int
    gradients: int
    state: int
    peak: int
    loss: float
    sample: list[float]


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Steps of several processes beside those of one, and the bytes they send."
    )
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--shards", nargs="+", default=["none", "optimiser", "weights"])
    parser.add_argument("--side", type=int, default=16, help="of the images")
    parser.add_argument("--units", type=int, default=16)
    parser.add_argument("--batch", type=int, default=256, help="of all processes; with --weak of each")
    parser.add_argument("--weak", action="store_true", help="the batch grows with the processes")
    parser.add_argument("--warm", type=int, default=3, help="steps before those that are timed")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--double", action="store_true", help="precision, which has no TF32")
    parser.add_argument("--predict", action="store_true", help="predict larger clusters; measures nothing")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.predict:
        predict()
    elif wanted.rank is not None:
        (wanted.folder / f"{wanted.rank}.json").write_text(json.dumps(asdict(row(wanted))))
    else:
        table(wanted)


def table(wanted: argparse.Namespace) -> None:
    print(f"{os.cpu_count()} cores, torch {torch.__version__}, one thread a process, batch {wanted.batch}")
    print(
        "processes  shard      ms/step  CPU ms/step  speed-up  ideal  MB sent  formula  "
        "MB weights  gradients    state     peak        loss    apart"
    )
    alone, sample = 0.0, torch.zeros(0, dtype=torch.float64)
    for size in wanted.processes:
        for shard in wanted.shards if size > 1 else wanted.shards[:1]:  # alone there is nothing to share
            found = together(size, shard)
            first, ms = found[0], statistics.median(found[0].ms)
            alone = alone or ms * (1 if wanted.weak else size)
            weights = torch.tensor(first.sample, dtype=torch.float64)
            sample = sample if len(sample) else weights
            most = {name: max(getattr(each, name) for each in found) / 1e6 for name in BYTES}
            sent = statistics.mean(each.sent for each in found) / 1e6
            print(
                f"{size:<9}  {shard:<9}  {ms:7.1f}  {first.cpu_ms:11.1f}  {alone / ms:8.2f}  "
                f"{1 if wanted.weak else size:5}  {sent:7.3f}  {first.formula / 1e6:7.3f}  "
                f"{most['weights']:10.3f}  {most['gradients']:9.3f}  {most['state']:7.3f}  "
                f"{most['peak']:7.1f}  {first.loss:10.4f}  {(weights - sample).abs().max():7.1e}",
                flush=True,
            )


BYTES = ("weights", "gradients", "state", "peak")


def together(size: int, shard: str) -> list[Row]:
    """What each of so many processes has found."""
    env = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"} | dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, __file__, *sys.argv[1:], "--processes", str(size), "--folder", folder]
        words += ["--shards", shard]
        started = [subprocess.Popen([*words, "--rank", str(rank)], env=env) for rank in range(size)]
        codes = [process.wait() for process in started]
        if any(codes):
            sys.exit(1)
        return [Row(**json.loads((Path(folder) / f"{rank}.json").read_text())) for rank in range(size)]


def row(wanted: argparse.Namespace) -> Row:
    """Of this process."""
    size, (shard,) = wanted.processes[0], wanted.shards
    store = f"file://{wanted.folder}/store"
    distributed.init_process_group("gloo", store, rank=wanted.rank, world_size=size)
    before = memory("VmRSS")
    dtype = torch.complex128 if wanted.double else torch.complex64
    model = drawn((wanted.side, wanted.side), wanted.units, torch.device(wanted.device), dtype)
    whole = {name: nbytes(parameter) for name, parameter in model.named_parameters()}
    config = sq.TrainingConfig(optimiser="polar", lr=0.1, shard=shard)
    steps = Steps(model, config, sq.training.Distributed())
    held = watched(steps, model)
    count, generator = wanted.batch * (size if wanted.weak else 1), torch.Generator().manual_seed(0)
    rows = sq.data.Rows(torch.randint(16, (count, wanted.side**2), generator=generator).to(wanted.device))
    batch = sq.training.Distributed().share.part(rows)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    for _ in range(wanted.warm):
        steps(batch, 1.0)
    distributed.barrier()
    sent, computed, ms, found = bytes_sent(), time.process_time(), [], torch.zeros(3)
    for _ in range(wanted.repeats):
        start = time.perf_counter()
        found = steps(batch, 1.0)
        if wanted.device != "cpu":
            torch.cuda.synchronize()
        ms.append(1e3 * (time.perf_counter() - start))
    distributed.barrier()
    computed, sent = time.process_time() - computed, bytes_sent() - sent
    peak = memory("VmHWM") - before if wanted.device == "cpu" else torch.cuda.max_memory_allocated()
    states: Any = steps.optimiser.state.values()
    inputs = {model.plan.stacks[g.weight.stack].name for g in model.plan.input_groups if g.weight}
    after = steps.gathered({name: parameter.detach() for name, parameter in model.named_parameters()})
    distributed.destroy_process_group()
    return Row(
        size, shard, ms, 1e3 * computed / wanted.repeats, sent / wanted.repeats,
        (size - 1) / size * formula(whole, inputs, shard),
        sum(map(nbytes, model.parameters())), held[0],
        sum(nbytes(value) for state in states for value in state.values()), peak,
        float(found[0]), [number for value in after.values() for number in some_of(value)],
    )  # fmt: skip


def drawn(shape: tuple[int, int], units: int, device: torch.device, dtype: torch.dtype) -> sq.SquaredCircuit:
    """A model of images whose weights are drawn on the device: on one core billions take minutes."""
    circuit = sq.build(sq.regions.quad_tree(shape), sq.Categorical(16, ordered=True), units=units)
    nowhere = {name: torch.empty(p.shape, device="meta") for name, p in circuit.parameters.items()}
    model = sq.SquaredCircuit(circuit.with_weights(nowhere), dtype=dtype)
    model.make_room(device)
    generator = torch.Generator(device).manual_seed(0)
    for stack in model.parameters():
        for entry in stack.data:
            shape_and_kind = {"dtype": entry.dtype, "device": device, "generator": generator}
            entry.copy_(haar(torch.randn(entry.shape, **shape_and_kind)))
    return model


def some_of(weight: torch.Tensor) -> list[float]:
    """A thousand numbers or two from all over a weight."""
    numbers = torch.view_as_real(weight).flatten()
    return [float(number) for number in numbers[:: max(1, len(numbers) // 1000)].tolist()]


def formula(whole: dict[str, int], inputs: set[str], shard: str) -> float:
    """Bytes that a process sends in a step, but for (N − 1)/N."""
    once = sum(whole.values())
    if shard != "weights":
        return 2 * once
    return 2 * once + sum(size for name, size in whole.items() if name not in inputs)


def watched(steps: Steps, model: sq.SquaredCircuit) -> list[int]:
    """Bytes of all gradients before a step of the optimiser, in a list that is kept up to date."""
    held, update = [0], steps._update

    def watch() -> None:
        own = {id(p): p for p in (*model.parameters(), *steps._own.values())}
        held[0] = sum(nbytes(p.grad) for p in own.values() if p.grad is not None)
        update()

    steps._update = watch  # type: ignore[method-assign]
    return held


def nbytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def memory(name: str) -> int:
    """An entry of /proc/self/status, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))


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
