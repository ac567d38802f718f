"""How many layers, and how long, a conditional p(x_i | x_<i) takes as the number of variables grows.

    python benchmarks/conditionals.py --sides 4 8 16 32 --units 4

In the order of the tree, in a random order, and beside them by a table of all variables for each conditional
(`model.marginals`), for which a library without such a walk would have to ask. Slopes are exponents in the
number of variables, fitted to the largest sizes: theory says 0, 0 (a logarithm) and 1.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np
import torch

import squircuit as sq
from slopes import exponent
from squircuit.inference.chain.chain import Chain


def walked(model: sq.SquaredCircuit, rows: torch.Tensor, is_foreign: bool) -> tuple[float, float]:
    """Layers and milliseconds of processors for each variable."""
    chain = Chain(model.snapshot())
    order: Sequence[int] = chain.order([0])
    if is_foreign:
        order = np.random.default_rng(0).permutation(rows.shape[1]).tolist()
    walk, started = chain.walk(0), time.process_time()
    with torch.no_grad():
        for v in order:
            walk.masses(v)
            walk.fix(v, rows[:, v], None)
    return walk.computed / rows.shape[1], 1e3 * (time.process_time() - started) / rows.shape[1]


def asked(model: sq.SquaredCircuit, rows: torch.Tensor, count: int = 4) -> float:
    """Milliseconds of processors for a table of all variables, at some of the conditionals."""
    places = np.linspace(0, rows.shape[1] - 1, count).astype(int).tolist()
    started = time.process_time()
    for known in places:
        model.marginals(given=rows, missing=torch.arange(rows.shape[1]) >= known)
    return 1e3 * (time.process_time() - started) / count


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sides", type=int, nargs="+", default=[4, 8, 16, 32], help="of images")
    parser.add_argument("--units", type=int, default=4)
    parser.add_argument("--rows", type=int, default=64)
    options = parser.parse_args()
    torch.set_num_threads(1)
    sizes, times = [side**2 for side in options.sides], []
    print("variables  layers, ms of the tree's order    of a random order    ms of a table of all")
    for side in options.sides:
        model = sq.image_model((side, side), options.units, 16, parts=2)
        rows = model.sample(options.rows, seed=0)
        (layers, own), (more, foreign) = (walked(model, rows, is_foreign) for is_foreign in (False, True))
        times.append((own, foreign, asked(model, rows)))
        print(f"{side**2:9}  {layers:6.2f}  {own:10.3f}  {more:16.2f}  {foreign:10.3f}  {times[-1][2]:12.2f}")
    slopes = [exponent(sizes, column) for column in zip(*times, strict=True)]
    print("exponents in the number of variables:", ", ".join(f"{slope:.2f}" for slope in slopes))


if __name__ == "__main__":
    main()
