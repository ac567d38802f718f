"""What rows with gaps cost beside rows without, and many masks beside one; ratios of one run, and slopes.

    python benchmarks/gaps.py --rows 500 1000 2000

Times are of the processor, so that other programs on the machine disturb them less.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

import squircuit as sq

COLUMNS = 30


def model(units: int) -> sq.SquaredCircuit:
    """A circuit on a tree of continuous columns, as tables get."""
    return sq.SquaredCircuit(sq.build(sq.regions.random_tree(COLUMNS, seed=0), sq.Hermite(16), units), seed=0)


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """The least processor time of some runs."""
    work()
    taken = []
    for _ in range(repeats):
        started = time.process_time()
        work()
        taken.append(time.process_time() - started)
    return min(taken)


def step(circuit: sq.SquaredCircuit, x: Tensor, missing: Tensor | None) -> None:
    """The gradient of a batch, as training computes it."""
    with circuit.training_step(on_manifold=True):
        torch.autograd.backward(circuit.log_prob(x, missing).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[500, 1000, 2000])
    parser.add_argument("--units", type=int, default=8)
    parser.add_argument("--gaps", type=float, default=0.1, help="share of cells that are missing")
    options = parser.parse_args()
    circuit, before = model(options.units), None
    print(f"{'rows':>6} {'work':>9} {'one mask':>9} {'many':>9} {'ratio':>6} {'slope':>6}")
    for rows in options.rows:
        x = torch.randn(rows, COLUMNS, generator=torch.Generator().manual_seed(0))
        missing = torch.rand(rows, COLUMNS, generator=torch.Generator().manual_seed(1)) < options.gaps
        one = missing[:1].expand(rows, -1)
        fill = partial(circuit.impute, x, how="mean")
        pairs: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
            "density": (partial(circuit.log_prob, x, one), partial(circuit.log_prob, x, missing)),
            "mean": (partial(fill, one), partial(fill, missing)),
            "training": (
                partial(step, circuit, x[:256], None),
                partial(step, circuit, x[:256], missing[:256]),
            ),
        }
        found = {}
        for name, (first, second) in pairs.items():
            times = seconds(first), seconds(second)
            found[name] = rows, times[1]
            slope = ""
            if before is not None and name != "training":
                last, took = before[name]
                slope = f"{math.log(times[1] / took) / math.log(rows / last):6.2f}"
            print(f"{rows:6} {name:>9} {times[0]:9.3f} {times[1]:9.3f} {times[1] / times[0]:6.2f} {slope}")
        before = found


if __name__ == "__main__":
    main()
