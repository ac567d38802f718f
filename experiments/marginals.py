"""Theorem 3 as a figure: the cost of a marginal against the layers it has to carry as matrices.

A rectangle of an image is marginalised. Layers inside it are skipped, layers outside are vectors, and only
the *mixed* ones, whose scope holds both, carry K×K matrices: the theorem bounds the cost by their number. The
naive square is only counted: a K1×K2 matrix becomes K1²×K2². `benchmarks/queries.py marginals` times the
general recursion and cirkit's beside ours.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import torch
from matplotlib.figure import Figure

import squircuit as sq
from record import Row, arguments_of, parameters, save_figure, write
from record import run as as_program


def rectangle(side: int, width: int) -> torch.Tensor:
    """The left ``width`` columns are missing: (side²,)."""
    return (torch.arange(side**2) % side) < width


def mixed_layers(circuit: sq.Circuit, missing: torch.Tensor) -> int:
    """Sum layers whose scope holds missing and observed variables."""
    gone = set(torch.nonzero(missing).flatten().tolist())
    return sum(bool(scope & gone) and bool(scope - gone) for scope in (set(s.scope) for s in circuit.sums))


def sizes(circuit: sq.Circuit) -> tuple[int, int]:
    """Weights of the sums of the circuit, and of its naive square: a K1×K2 matrix becomes K1²×K2²."""
    shapes = [layer.weight.shape for layer in circuit.sums]
    return sum(a * b for a, b in shapes), sum((a * b) ** 2 for a, b in shapes)


@torch.no_grad()
def seconds(work: Callable[[], object], repeats: int) -> float:
    """Median time of a call."""
    work()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return sorted(times)[len(times) // 2]


def draw(rows: list[Row]) -> Figure:
    """Time in likelihoods against the number of mixed layers."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    axis = figure.subplots()
    for side in sorted({row.options["side"] for row in rows}):
        some = [row for row in rows if row.options["side"] == side and row.options["width"] > 0]
        mixed, ratios = zip(*((row.options["mixed"], row.scores["ratio"]) for row in some), strict=True)
        axis.plot(mixed, ratios, "o", label=f"{side}×{side}")
    axis.set_xlabel("mixed layers")
    axis.set_ylabel("time of the marginal / time of a likelihood")
    axis.legend()
    return figure


def measure(side: int, units: int, batch: int, repeats: int) -> Iterator[Row]:
    """Marginals of one size of images, with more and more columns missing."""
    circuit = sq.build(sq.regions.quad_tree((side, side)), sq.Categorical(16), units)
    model = sq.SquaredCircuit(circuit, seed=0).eval()
    x = torch.randint(16, (batch, side**2), generator=torch.Generator().manual_seed(0))
    log_z, whole = model.log_partition().item(), seconds(lambda: model.log_prob(x), repeats)
    weights, squared = sizes(circuit)
    for width in sorted({0, 1, side // 8, side // 4, side // 2, 3 * side // 4, side - 1, side}):
        missing = rectangle(side, width)
        took = seconds(partial(model.log_prob, x, missing=missing), repeats)
        scores = {"seconds": took, "likelihood_seconds": whole, "ratio": took / whole, "log_z": log_z}
        detail = {"side": side, "width": width, "mixed": mixed_layers(circuit, missing)}
        detail |= {"layers": len(circuit.sums), "weights": weights, "weights_of_the_square": squared}
        name, title = f"{side}×{side}", f"⊥ Kronecker K={units}"
        yield Row("marginals", name, title, parameters(model), 0, scores, 0.0, {}, detail)


def main(arguments: list[str] | None = None) -> list[Row]:
    parser = arguments_of(__doc__)
    parser.add_argument("--sides", type=int, nargs="+", default=[8, 16, 32])
    parser.add_argument("--units", type=int, default=8)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args(arguments)
    rows = []
    for side in options.sides:
        for row in measure(side, options.units, options.batch, options.repeats):
            rows.append(row)
            detail = "{width} columns missing: {mixed} of {layers} layers mixed".format(**row.options)
            print(f"{row.data}, {detail}, {row.scores['ratio']:.2f} likelihoods", flush=True)
    print(f"wrote {write(rows, options.out)}")
    save_figure(draw(rows), options.out / "marginals.png")
    return rows


if __name__ == "__main__":
    as_program(main)
