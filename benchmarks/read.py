"""How long it takes to read a CSV file, beside pandas.

    python benchmarks/read.py [--rows 100000] [--repeats 9]

Both read the same file of 30 columns, by turns: ten of three decimals, ten of small counts, five of texts,
and five of two decimals with gaps. `sq.data.read` also infers a type for each column and encodes the cells;
with `like=` it takes known types, as for rows to be scored. The least times count, of the processor and of
the clock: other processes only add to them.
"""

from __future__ import annotations

import argparse
import importlib
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import squircuit as sq
from squircuit.circuits.summary import table

pd = importlib.import_module("pandas")  # which has no types of its own

NAMES = ("pandas.read_csv", "sq.data.read", "sq.data.read, like=")


def write(path: Path, rows: int) -> None:
    """A file of so many rows."""
    rng = np.random.default_rng(0)
    columns: dict[str, np.ndarray] = {}
    for i in range(10):
        columns[f"decimal {i}"] = rng.normal(scale=10, size=rows).round(3)
        columns[f"count {i}"] = rng.integers(50, size=rows)
    for i in range(5):
        columns[f"text {i}"] = rng.choice(["red", "green", "blue", "yellow"], size=rows)
        columns[f"gaps {i}"] = np.where(rng.random(rows) < 0.1, np.nan, rng.gamma(2, size=rows).round(2))
    pd.DataFrame(columns).to_csv(path, index=False)


def seconds(run: Callable[[], object]) -> tuple[float, float]:
    """Of the processor, and by the clock."""
    start, begun = time.process_time(), time.perf_counter()
    run()
    return time.process_time() - start, time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        write(path, options.rows)
        known = sq.data.read(path)
        runs: list[Callable[[], object]] = [
            lambda: pd.read_csv(path),
            lambda: sq.data.read(path),
            lambda: sq.data.read(path, like=known),
        ]
        times = [[seconds(run) for run in runs] for _ in range(options.repeats)]
    best = np.array(times).min(axis=0)  # (3, 2)
    lines = [
        (
            name,
            f"{1000 * cpu:.0f} ms",
            f"{cpu / best[0, 0]:.1f}",
            f"{1000 * wall:.0f} ms",
            f"{wall / best[0, 1]:.1f}",
        )
        for name, (cpu, wall) in zip(NAMES, best, strict=True)
    ]
    head = ("reader", "processor", "times pandas", "clock", "times pandas")
    print(f"{options.rows:,} rows of 30 columns")
    print(table(head, lines, right={1, 2, 3, 4}))


if __name__ == "__main__":
    main()
