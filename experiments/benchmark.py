"""The paper's table and figure of time and memory: a training step of squared and of unitary circuits.

Both set-ups, 28×28 images with learnt inputs and 32×32 ones with fixed inputs, with cirkit beside where its
folder is given. Without a GPU choose smaller suites. ``--draw`` measures nothing and draws the figure of
the rows that are there.

    squircuit reproduce benchmark --cirkit FOLDER --tf32 both
    squircuit reproduce benchmark --suites cpu --device cpu
    squircuit reproduce benchmark --draw
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch

from record import Row, arguments_of, read, save_figure, write
from record import run as as_program
from squircuit.cli.harness import folder

sys.path.append(str(folder("benchmarks")))

import measure
from setups import KINDS, Setup, suite
from step import precisions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {
    "± hadamard": "tab:orange",
    "± kronecker": "tab:red",
    "⊥ hadamard": "tab:green",
    "⊥ kronecker": "tab:blue",
}


def row_of(measured: measure.Row) -> Row:
    """A row of the harness as one of an experiment."""
    setup = measured.setup
    circuit = setup.circuit()
    image = f"{setup.side}×{setup.side}, {setup.inputs} inputs, batch {setup.batch}"
    precision = " TF32" if setup.tf32 else ""
    whose = "ours" if measured.peer.startswith("ours") else measured.peer
    sign = "⊥" if setup.is_unitary else "±"
    halves = " in halves" if setup.parts == 2 else ""
    title = f"{sign} {setup.product}{halves} K={setup.units}, {whose}{precision}"
    scores = {"ms": measured.ms, "gib": measured.gib}
    minutes = sum(measured.times) / 60_000
    return Row("benchmark", image, title, circuit.num_parameters(), 0, scores, minutes)


def run(setups: Iterable[Setup], device: str, plan: measure.Plan, tf32: str) -> Iterable[measure.Row]:
    """Every model by every peer, with and without TF32 where both are wanted."""
    ours = "ours-graph" if device.startswith("cuda") else "ours"
    peers = [ours, "cirkit"] if plan.folders.get("cirkit") else [ours]
    for setup in setups:
        for peer in peers:
            for on in precisions(peer, tf32):
                yield measure.measure(peer, setup.with_(device=device, tf32=on), plan)


def draw(rows: list[dict[str, Any]]) -> Figure:
    """Time and memory against the number of parameters, one row of axes for each set-up."""
    from matplotlib.figure import Figure

    images = list(dict.fromkeys(row["data"] for row in rows))
    figure = Figure(figsize=(9, 0.5 + 3.2 * len(images)), layout="constrained")
    axes = figure.subplots(len(images), 2, squeeze=False)
    for image, pair in zip(images, axes, strict=True):
        for axis, score, label in zip(pair, ("ms", "gib"), ("ms a step", "GiB at most"), strict=True):
            for (kind, whose), points in _lines(rows, image, score).items():
                style = "o-" if whose == "ours" else "x:"
                colour = COLOURS.get(kind, "tab:gray")
                axis.plot(
                    *zip(*points, strict=True), style, color=colour, markersize=4, label=f"{kind}, {whose}"
                )
            axis.set(title=image, xlabel="parameters", ylabel=label, xscale="log", yscale="log")
    lines = {line.get_label(): line for pair in axes for line in pair[0].get_lines()}
    figure.legend(list(lines.values()), list(lines), loc="outside lower center", ncols=4, fontsize=8)
    return figure


def _lines(
    rows: list[dict[str, Any]], image: str, score: str
) -> dict[tuple[str, str], list[tuple[int, float]]]:
    """(kind, whose) → points of a line."""
    lines: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for row in sorted(rows, key=lambda row: int(row["params"])):
        name, whose = row["model"].rsplit(", ", 1)
        if row["data"] == image:
            lines.setdefault((name.split(" K=")[0], whose), []).append((row["params"], row[score]))
    return lines


def main(arguments: list[str] | None = None) -> list[Row]:
    parser = arguments_of(__doc__)
    parser.add_argument("--suites", nargs="+", default=["gpu", "32"], help="of benchmarks/step.py")
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS, help="only these of the suites")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--cirkit", default="", help="folder that holds the package cirkit")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--tf32", default="off", choices=("on", "off", "both"), help="of the peer")
    parser.add_argument("--limit", type=float, default=measure.Plan.limit, help="seconds for a model")
    parser.add_argument("--draw", action="store_true", help="draw the figure of the rows that are there")
    options = parser.parse_args(arguments)
    try:
        setups = [setup for name in options.suites for setup in suite(name) if setup.kind in options.kinds]
    except ValueError as error:
        parser.error(str(error))
    rows: list[Row] = []
    if not options.draw:
        plan = measure.Plan(options.repeats, 3, {"cirkit": options.cirkit}, limit=options.limit)
        for measured in run(setups, options.device, plan, options.tf32):
            rows += _kept(measured)
            if rows:
                write(rows, options.out)  # after every model: a long run that is stopped keeps what it has
    if not (options.out / "benchmark.jsonl").exists():
        parser.error(f"there are no rows in {options.out / 'benchmark.jsonl'}: measure some models first")
    save_figure(draw(read("benchmark", options.out)), options.out / "benchmark.png")
    return rows


def _kept(measured: measure.Row) -> list[Row]:
    """The row, shown; none where the peer failed, which is said."""
    if measured.problem:
        print(f"{measured.setup.describe()}, {measured.peer}: {measured.problem}", flush=True)
        return []
    row = row_of(measured)
    print(f"{row.data}, {row.model}: {measured.ms:.2f} ms, {measured.gib:.2f} GiB", flush=True)
    return [row]


if __name__ == "__main__":
    as_program(main)
