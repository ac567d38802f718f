"""What a table of 100,000 rows and 30 columns takes: samples, completions, and training with gaps.

    python benchmarks/waits.py --rows 100000 --columns 30

Processor seconds, so that other programs on the machine disturb them less. Training is one epoch of
`sq.fit` with its defaults, and three iterations of the EM of `sq.learn`, on all rows and on the same rows of
which some cells are missing; beside the ratio of times is that of multiplications of the circuit's sums,
below which it can hardly fall.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import squircuit as sq
from squircuit.learning import fit_mixture

BATCH = 256
REPEATS = 3
LEARNT = 20_000
"""Rows of EM."""


def rows_of(rows: int, columns: int) -> NDArray[np.float64]:
    """Columns that depend on five numbers, and noise."""
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(rows, 5))
    return hidden @ rng.normal(size=(5, columns)) + rng.normal(size=(rows, columns))


def seconds(work: Callable[[], Any]) -> float:
    """Processor time of one run."""
    started = time.process_time()
    work()
    return time.process_time() - started


def iteration(cells: NDArray[np.float64], components: int) -> Callable[[], object]:
    """One iteration of the EM of `sq.learn`, from a mixture that has begun to learn."""
    rows = torch.from_numpy(cells)
    begun = fit_mixture(rows, components, seed=0, iterations=2, starts=1)
    return partial(fit_mixture, rows, components, seed=0, iterations=3, start=begun)


def learning(x: NDArray[np.float64], gappy: NDArray[np.float64], components: int) -> None:
    """The least times of some, one after the other."""
    works = [iteration(cells, components) for cells in (x, gappy)]
    both = [[seconds(work) for work in works] for _ in range(REPEATS)]
    complete, with_gaps = (min(times) for times in zip(*both, strict=True))
    ratio = with_gaps / complete
    print(f"EM, {components:3} components   {complete:8.2f} s, with gaps {with_gaps:.2f} s: {ratio:.2f}")


def multiplications(model: sq.SquaredCircuit, missing: NDArray[np.bool_]) -> float:
    """Of rows with gaps beside rows without: matrices where something is missing below, else vectors."""
    gaps = torch.from_numpy(missing)
    snapshot = model.snapshot()
    shown = snapshot.schedule(torch.zeros_like(gaps[:1])).operations()
    found = [snapshot.schedule(row.unsqueeze(0)).operations() for row in gaps]
    return float(np.mean(found)) / shown


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=30)
    parser.add_argument("--completed", type=int, default=5000, help="rows that are filled in")
    parser.add_argument("--gaps", type=float, default=0.1, help="share of cells that are missing")
    options = parser.parse_args()
    x = rows_of(options.rows, options.columns)
    missing = np.random.default_rng(1).random(x.shape) < options.gaps
    for components in (5, 20, 100):
        learning(x[:LEARNT], np.where(missing, np.nan, x)[:LEARNT], components)
    names = [f"c{v}" for v in range(options.columns)]
    took = {}
    for gaps, cells in ((False, x), (True, np.where(missing, np.nan, x))):
        table = sq.data.table(dict(zip(names, cells.T, strict=True)))
        model = sq.model_for(table, seed=0)
        took[gaps] = seconds(lambda: sq.fit(model, table, epochs=1, batch=BATCH, progress=False, seed=0))  # noqa: B023
        print(f"training, {'with gaps' if gaps else 'complete':9s}  {took[gaps]:8.1f} s an epoch", flush=True)
    model.eval().requires_grad_(False)
    ratio = multiplications(model, missing[:BATCH])
    print(f"training, ratio      {took[True] / took[False]:8.2f}, of multiplications {ratio:.2f}")
    drawing = seconds(lambda: model.sample(options.rows, seed=0))
    print(f"samples              {drawing:8.1f} s of {options.rows}")
    some = np.where(missing, np.nan, x)[: options.completed]
    print(f"mean completion      {seconds(lambda: model.impute(some, how='mean')):8.1f} s of {len(some)}")


if __name__ == "__main__":
    main()
