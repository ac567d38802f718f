"""How our step grows with K, batch and number of variables: fitted exponents beside theoretical ones.

python benchmarks/slopes.py --kind unitary-kronecker --along units --values 4 8 16
python benchmarks/slopes.py --kind squared-hadamard
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence

import torch

import peers
from measure import Plan, Row, measure
from report import machine, write_json
from setups import KINDS, Setup
from step import add_common, add_rows, plan

ALONG = ("units", "batch", "variables")
VALUES = {
    "cpu": {"kronecker": [2, 4, 6, 8], "hadamard": [16, 32, 64, 128], "batch": [16, 32, 64, 128]},
    "cuda": {"kronecker": [4, 8, 12, 16], "hadamard": [64, 128, 256, 512], "batch": [128, 256, 512, 1024]},
}
SIDES = [8, 16, 32]


def theory(kind: str, along: str) -> tuple[int, str]:
    """The exponent of the largest term of a step, and that term a region (B batch, K units)."""
    kronecker = kind.endswith("kronecker")
    if along == "units":
        return (5, "B·K⁵ and weights K⁵") if kronecker else (3, _hadamard(kind))
    if along == "batch":
        return 1, "B·K⁵; the optimiser is constant" if kronecker else "B·K²; " + _hadamard(
            kind
        ) + " is constant"
    return 1, "regions are d/3"


def _hadamard(kind: str) -> str:
    return "K³ of the optimiser's Grams" if kind.startswith("unitary") else "K³ of log Z"


def exponent(sizes: Sequence[float], times: Sequence[float], largest: int = 3) -> float:
    """The slope of log t over log n by least squares through the largest sizes."""
    points = sorted(zip(sizes, times, strict=True))[-largest:]
    points = [(math.log(n), math.log(t)) for n, t in points if t > 0 and math.isfinite(t)]
    if len(points) < 2:
        return float("nan")
    centre_n, centre_t = (sum(column) / len(points) for column in zip(*points, strict=True))
    covariance = sum((n - centre_n) * (t - centre_t) for n, t in points)
    return float(covariance / sum((n - centre_n) ** 2 for n, _ in points))


def series(setup: Setup, along: str, values: Sequence[int]) -> list[tuple[int, Setup]]:
    """The set-ups of one slope with the size of each; variables are given by the side of the image."""
    if along == "variables":
        return [(side**2, setup.with_(side=side)) for side in values]
    return [(value, setup.with_(**{along: value})) for value in values]


def slope(sizes: Sequence[int], rows: Sequence[Row]) -> dict[str, float]:
    """Exponents of the whole step, of its parts, and of the memory where only tensors are counted in it."""
    fitted = {
        "step": exponent(sizes, [row.least for row in rows]),
        "forward and backward": exponent(sizes, [row.least - row.optimiser_least for row in rows]),
        "optimiser": exponent(sizes, [row.optimiser_least for row in rows]),
    }
    if rows[0].setup.device.startswith("cuda"):
        fitted["memory"] = exponent(sizes, [row.gib for row in rows])
    return {what: value for what, value in fitted.items() if math.isfinite(value)}


def run(along: str, points: Sequence[tuple[int, Setup]], peer: str, how: Plan) -> list[Row]:
    """Measure one series, each row shown when it is there, then its exponents."""
    first, rows = points[0][1], []
    print(f"\n{first.kind}, least time against {along} ({first.describe()} first)")
    print(f"  {along:>10}{'step':>13}{'optimiser':>13}{'memory':>12}", flush=True)
    for size, point in points:
        row = measure(peer, point, how)
        figures = f"{row.least:10.2f} ms{row.optimiser_least:10.2f} ms{row.gib:8.2f} GiB"
        print(f"  {size:>10}{row.problem or figures}", flush=True)
        rows.append(row)
    expected, term = theory(first.kind, along)
    fitted = ", ".join(f"{what} {value:.2f}" for what, value in slope([n for n, _ in points], rows).items())
    print(f"  exponent of the largest three: {fitted}; theory {expected} ({term})", flush=True)
    return rows


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kind", default="unitary-kronecker", choices=KINDS)
    parser.add_argument("--along", action="append", choices=ALONG, help="default: all three")
    parser.add_argument("--values", type=int, nargs="+", help="sizes; sides of the image for variables")
    parser.add_argument("--units", type=int, help="K where it is not what varies")
    parser.add_argument("--batch", type=int, help="B where it is not what varies")
    parser.add_argument("--side", type=int, default=28)
    parser.add_argument("--peer", default="ours")
    parser.add_argument("--tf32", action="store_true")
    add_common(parser)
    add_rows(parser)
    options = parser.parse_args(arguments)
    try:
        peers.check_name(options.peer)
    except ValueError as error:
        parser.error(str(error))
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    defaults = VALUES["cuda" if options.device.startswith("cuda") else "cpu"]
    product = options.kind.split("-")[1]
    setup = Setup(
        options.kind,
        options.units or defaults[product][1],
        options.batch or defaults["batch"][1],
        options.side,
        device=options.device,
        tf32=options.tf32,
    )
    print(machine(options.device))
    done: list[Row] = []
    for along in options.along or ALONG:
        values = {"units": defaults[product], "batch": defaults["batch"], "variables": SIDES}[along]
        points = series(setup, along, options.values or values)
        done += run(along, points, options.peer, plan(options))
    if options.json:
        write_json(options.json, done, machine=machine(options.device), threads=torch.get_num_threads())


if __name__ == "__main__":
    main()
