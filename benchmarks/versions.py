"""Times this version beside another one, step by step in turns: what a change of the sources costs or saves.

    git worktree add /tmp/before COMMIT
    python benchmarks/versions.py --before /tmp/before --device cpu --repeats 20

A step is forward and backward, without an optimiser; a score is `log_prob` without gradients, and a sample
fills in the half that rows lack. Each version has a process of its own, and they take turns at every single
step, so that other load on the machine meets both alike: compare the least times.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

import squircuit as sq
from setups import Setup
from squircuit.circuits.summary import table
from timing import time_calls

HERE = Path(__file__).resolve().parents[1]
KEEP = {"MALLOC_TRIM_THRESHOLD_": "2000000000", "MALLOC_MMAP_THRESHOLD_": "1000000000"}
"""glibc gives no memory back: whether it does depends on chance, and costs up to a third of a step."""


def _kronecker() -> sq.Circuit:
    return Setup(units=8).circuit()


def _tied() -> sq.Circuit:
    return sq.build(sq.regions.quad_tree((28, 28)), sq.Categorical(256), units=8, tie=1)


def _splits() -> sq.Circuit:
    """Sums with several inputs, layers with several readers."""
    return sq.build(sq.regions.patch_splits((12, 12), min_side=3), sq.Categorical(256), units=4)


def _squared(product: str, units: int) -> Callable[[], sq.Circuit]:
    return Setup(f"squared-{product}", units).circuit


def _small() -> sq.Circuit:
    return sq.build(sq.regions.quad_tree((8, 8)), sq.Categorical(17), units=4)


def _middle() -> sq.Circuit:
    return sq.build(sq.regions.quad_tree((16, 16)), sq.Categorical(16), units=8)


def _continuous() -> sq.Circuit:
    return sq.build(sq.regions.balanced_tree(12), sq.Hermite(8), units=8)


CASES: dict[str, tuple[str, Callable[[], sq.Circuit]]] = {
    "unitary Kronecker K=8": ("log p", _kronecker),
    "the same, tied": ("log p", _tied),
    "splits of patches K=4": ("log p", _splits),
    "squared Hadamard K=16": ("log p and Z", _squared("hadamard", 16)),
    "log Z, Hadamard K=16": ("log Z", _squared("hadamard", 16)),
    "log Z, Kronecker K=4": ("log Z", _squared("kronecker", 4)),
    "score, small": ("score", _small),
    "score, middle": ("score", _middle),
    "score, large": ("score", _kronecker),
    "score, continuous": ("score", _continuous),
    "score, squared Hadamard K=16": ("score", _squared("hadamard", 16)),
    "sample, small": ("sample", _small),
    "sample, middle": ("sample", _middle),
    "sample, continuous": ("sample", _continuous),
}
"""What is asked of a model, and its circuit."""


def step_of(case: str, device: str, batch: int) -> Callable[[], object]:
    asked, circuit = CASES[case]
    model = sq.SquaredCircuit(circuit(), seed=0).to(device)
    columns = model.structure.num_variables
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(16 if asked in ("score", "sample") else 256, (batch, columns), generator=generator)
    x = (torch.randn(batch, columns, generator=generator) if "continuous" in case else x).to(device)
    half = torch.arange(columns, device=device) % 2 == 0

    def ask() -> None:
        with torch.no_grad():
            model.log_prob(x) if asked == "score" else model.sample(1, x, half, seed=0)

    if asked in ("score", "sample"):
        model.eval()
        return ask

    def step() -> None:
        model.zero_grad(set_to_none=True)
        loss = torch.zeros((), device=device)
        if "log p" in asked:
            loss = loss - model.log_densities(x).mean()
        if "Z" in asked:
            loss = loss + model.log_partition(double=False)
        loss.backward()  # type: ignore[no-untyped-call]

    return step


def work(case: str, device: str, batch: int, busy: bool) -> None:
    """Be one version: answer every line with the milliseconds of one step."""
    step = step_of(case, device, batch)
    time_calls(step, 2, device.startswith("cuda"))
    print("ready", flush=True)
    for _ in sys.stdin:
        print(*time_calls(step, 1, device.startswith("cuda"), busy), flush=True)


def start(tree: Path, case: str, options: argparse.Namespace) -> subprocess.Popen[str]:
    """A process that imports the sources of a tree."""
    path = os.pathsep.join(filter(None, [str(tree / "src"), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, __file__, "--work", case]
    command += ["--device", options.device, "--batch", str(options.batch), *["--busy"] * options.busy]
    worker = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **KEEP, "PYTHONPATH": path},
    )
    if _answer(worker) != "ready":
        raise RuntimeError(f"{case} failed with the sources of {tree}: see above")
    return worker


def _answer(worker: subprocess.Popen[str]) -> str:
    assert worker.stdout is not None
    return worker.stdout.readline().strip()


def _ask(worker: subprocess.Popen[str]) -> float:
    assert worker.stdin is not None
    worker.stdin.write("\n")
    worker.stdin.flush()
    return float(_answer(worker))


def compare(case: str, options: argparse.Namespace) -> tuple[str, ...]:
    """A row: least and median of both versions, and the ratio of the least."""
    workers = [start(tree, case, options) for tree in (options.before, HERE)]
    times = [[_ask(worker) for worker in workers] for _ in range(options.repeats)]
    for worker in workers:
        worker.communicate()  # closes its input, which ends it
    before, after = (list(each) for each in zip(*times, strict=True))
    numbers = (min(before), min(after), statistics.median(before), statistics.median(after))
    return case, *(f"{number:.1f}" for number in numbers), f"{min(after) / min(before):.3f}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--before", type=Path, help="another checkout of this repository")
    parser.add_argument("--case", action="append", choices=list(CASES), help="default all")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--busy", action="store_true", help="on a CPU, time of the process, not of the clock")
    parser.add_argument("--work", choices=list(CASES), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.work:
        work(options.work, options.device, options.batch, options.busy)
        return
    if options.before is None or not (options.before / "src" / "squircuit").is_dir():
        parser.error(f"--before needs a checkout that has src/squircuit, got {options.before}")
    rows = [compare(case, options) for case in options.case or CASES]
    headings = ("ms a step", "before, least", "after, least", "before, median", "after, median", "ratio")
    print(table(headings, rows, right={1, 2, 3, 4, 5}))


if __name__ == "__main__":
    main()
