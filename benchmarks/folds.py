"""Processes that own a part of the image each, and send the roots of these parts: what it would cost.

    OMP_NUM_THREADS=1 python benchmarks/folds.py --processes 1 2 4 --units 8 --repeats 4

A trial beside scale.py, and not a way of training that the library has. The four quarters of an image are
shared among 1, 2 or 4 processes, which see all rows, step their own weights and send the K values of each
quarter, and their gradients back, to the first, which has the one layer above them. Every process has the
weights of its quarters alone, and no weight or gradient of a weight is ever sent. The model is that of
scale.py, but for the order in which its weights are drawn. Losses are those of one process.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn

import squircuit as sq
from scale import bytes_sent, memory, nbytes
from squircuit.circuits.initial import haar
from squircuit.execution import weighted_product

LEVELS, PARTS = 16, 4


class Quarters:
    """The quarters of one process, and in the first the layer above all."""

    def __init__(self, rank: int, size: int, side: int, units: int) -> None:
        self.rank, self.size, half = rank, size, side // 2
        graph, family = sq.regions.quad_tree((half, half)), sq.Categorical(LEVELS, ordered=True)
        circuit = sq.build(graph, family, units, roots=units)
        self.owned = range(PARTS * rank // size, PARTS * (rank + 1) // size)
        self.models = {part: sq.SquaredCircuit(circuit, seed=part) for part in self.owned}
        pixels = torch.arange(side * side).view(2, half, 2, half).transpose(1, 2).reshape(PARTS, half * half)
        self.columns = list(pixels)
        drawn = torch.randn(
            1, units**PARTS, dtype=torch.complex64, generator=torch.Generator().manual_seed(9)
        )
        self.top = nn.Parameter(haar(drawn).unsqueeze(0))
        self.top.constraint = "semi-unitary"  # type: ignore[attr-defined]
        learnt = [p for model in self.models.values() for p in model.parameters()] + [self.top] * (rank == 0)
        self.optimiser = sq.optim.Polar([{"params": learnt, "constrained": True}], lr=0.1)
        self.learnt = learnt

    def step(self, x: Tensor) -> float:
        """One step with all rows; the loss, of process 0."""
        self.optimiser.zero_grad(set_to_none=True)
        found = {part: _root(self.models[part], x[:, self.columns[part]]) for part in self.owned}
        values, scales = self._gathered(found)
        loss = 0.0
        if self.rank == 0:
            loss = self._above(values, scales)
        gradients = self._returned(values)
        own = [found[part][0] for part in self.owned]
        torch.autograd.backward(own, [gradients[part] for part in self.owned])
        self.optimiser.step()
        return loss

    def _gathered(self, found: dict[int, tuple[Tensor, Tensor]]) -> tuple[list[Tensor], list[Tensor]]:
        """The values of all quarters and their log-scales at process 0; others have their own alone."""
        values, scales = [], []
        for part in range(PARTS):
            owner = part * self.size // PARTS
            like = next(iter(found.values()))
            value, scale = (t.detach().contiguous() for t in found.get(part, map(torch.empty_like, like)))
            for tensor in (value, scale):
                self._move(tensor, owner, 0)
            values.append(value.requires_grad_())
            scales.append(scale)
        return values, scales

    def _above(self, values: list[Tensor], scales: list[Tensor]) -> float:
        """Forward and backward through the layer above the quarters."""
        pairs = torch.view_as_real(self.top).flatten(2)
        out: Tensor = Product.apply(pairs, *values)  # type: ignore[no-untyped-call]  # (1, 1, 2, B)
        squares = out.square().sum(dim=(0, 1, 2))
        log_p = squares.log() + 2 * torch.stack(scales).sum(dim=0).flatten()
        loss = -log_p.mean()
        loss.backward()  # type: ignore[no-untyped-call]
        return float(loss.detach())

    def _returned(self, values: list[Tensor]) -> list[Tensor]:
        gradients = []
        for part, value in enumerate(values):
            gradient = torch.empty_like(value) if value.grad is None else value.grad
            self._move(gradient, 0, part * self.size // PARTS)
            gradients.append(gradient)
        return gradients

    def _move(self, tensor: Tensor, sender: int, receiver: int) -> None:
        if sender != receiver and self.rank == sender:
            distributed.send(tensor, receiver)
        elif sender != receiver and self.rank == receiver:
            distributed.recv(tensor, sender)


class Product(torch.autograd.Function):
    """W (v₁ ⊗ … ⊗ v₄), by the library's own forward and backward passes."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, *values: Tensor) -> Tensor:
        out, ctx.kept = weighted_product.forward("kronecker", weight, list(values), keep=True)
        ctx.save_for_backward(weight, *values)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        weight, *values = ctx.saved_tensors
        targets, total = [torch.empty_like(v) for v in values], torch.empty_like(weight)
        given = ctx.kept, gradients[0].contiguous(), targets, total
        weighted_product.backward("kronecker", weight, *given, fresh=True)
        return total, *targets


def _root(model: sq.SquaredCircuit, x: Tensor) -> tuple[Tensor, Tensor]:
    """The root units of a quarter, (1, K, 2, B), and their log-scale, (1, B)."""
    amplitudes = model._density.amplitudes
    inputs, scales = amplitudes._inputs(model, x, model.precision)
    value, scale = amplitudes._network(inputs, model.stacks(), scales)
    return value.unsqueeze(0), scale[:1]


def work(wanted: argparse.Namespace) -> None:
    """Be one process: write what was found to the folder."""
    rank, size = wanted.rank, wanted.processes[0]
    distributed.init_process_group("gloo", f"file://{wanted.folder}/store", rank=rank, world_size=size)
    before = memory("VmRSS")
    quarters = Quarters(rank, size, wanted.side, wanted.units)
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(LEVELS, (wanted.batch, wanted.side**2), generator=generator)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    for _ in range(3):
        quarters.step(x)
    distributed.barrier()
    sent, computed, ms, loss = bytes_sent(), time.process_time(), [], 0.0
    for _ in range(wanted.repeats):
        start = time.perf_counter()
        loss = quarters.step(x)
        ms.append(1e3 * (time.perf_counter() - start))
    computed = time.process_time() - computed
    distributed.barrier()
    found = {
        "ms": statistics.median(ms), "computed": 1e3 * computed / wanted.repeats,
        "sent": (bytes_sent() - sent) / wanted.repeats, "weights": sum(map(nbytes, quarters.learnt)),
        "peak": memory("VmHWM") - before, "loss": loss,
    }  # fmt: skip
    distributed.destroy_process_group()
    (Path(wanted.folder) / f"{rank}.json").write_text(json.dumps(found))


def table(wanted: argparse.Namespace, given: Sequence[str]) -> None:
    print("processes  ms/step  CPU ms/step, most  MB sent, mean  MB weights, most   peak        loss")
    env = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"} | dict(os.environ)
    for size in wanted.processes:
        with tempfile.TemporaryDirectory() as folder:
            words = [sys.executable, __file__, *given, "--processes", str(size), "--folder", folder]
            started = [subprocess.Popen([*words, "--rank", str(rank)], env=env) for rank in range(size)]
            if sum(process.wait() for process in started):
                sys.exit(1)
            found = [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(size)]
        most = {name: max(each[name] for each in found) for name in found[0]}
        sent = statistics.mean(each["sent"] for each in found)
        print(
            f"{size:<9}  {found[0]['ms']:7.1f}  {most['computed']:17.1f}  {sent / 1e6:13.4f}  "
            f"{most['weights'] / 1e6:16.3f}  {most['peak'] / 1e6:5.0f}  {found[0]['loss']:10.4f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="Processes that own a part of the image each.")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4], choices=[1, 2, 4])
    parser.add_argument("--side", type=int, default=16, help="of the images")
    parser.add_argument("--units", type=int, default=8)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.rank is None:
        table(wanted, sys.argv[1:])
    else:
        work(wanted)


if __name__ == "__main__":
    main()
