"""The paper's tables of MNIST and FashionMNIST: bits per dimension against the number of units.

Squared Hadamard circuits (±, Adam, log Z in every step) and unitary Kronecker circuits (⊥, Polar) on the
quad-tree, and the circuit that is not structured-decomposable (``--kind splits``). Test images are scored
once, with the weights of the best validation, beside the exact log Z. Rows are added to those that are there;
``--draw`` trains nothing and draws the figure of all.

    squircuit reproduce images --data mnist --kind unitary --units 4 6 8 --seeds 0 1 2
    squircuit reproduce images --draw
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import squircuit as sq
from record import Row, arguments_of, parameters, read, save_figure, write
from record import run as as_program
from squircuit.circuits.build import Product

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DATA, SHAPE = ("mnist", "fashion-mnist"), (28, 28)
PUBLISHED = {
    ("mnist", "unitary"): {4: 1.3112, 6: 1.2567, 8: 1.2328, 10: 1.2201, 12: 1.2064, 14: 1.1998, 16: 1.1923},
    ("fashion-mnist", "unitary"): {
        4: 3.6700, 6: 3.5325, 8: 3.4651, 10: 3.4306, 12: 3.4148, 14: 3.4105, 16: 3.4128,
    },
    ("mnist", "squared"): {16: 1.3071, 32: 1.2676, 64: 1.2518, 128: 1.2337, 256: 1.2147, 512: 1.1991},
    ("fashion-mnist", "squared"): {16: 3.5451, 32: 3.4689, 64: 3.4479, 128: 3.4545, 256: 3.4349, 512: 3.4199},
}  # fmt: skip
"""(data, kind) → K → bits per dimension in the paper's tables."""


@dataclass(frozen=True)
class Kind:
    """How one line of the tables is built and trained."""

    name: str
    product: Product
    unitary: bool
    lr: Callable[[int], float]  # of the number of units
    average: float = 0.0

    def circuit(self, units: int) -> sq.Circuit:
        regions = sq.regions.patch_splits(SHAPE) if self.name == "splits" else sq.regions.quad_tree(SHAPE)
        grey = sq.Categorical(256, ordered=True)
        return sq.build(regions, grey, units, self.product, unitary=self.unitary)

    def build(self, units: int, seed: int) -> sq.SquaredCircuit:
        generator = torch.Generator().manual_seed(seed)
        circuit = self.circuit(units).initialise(generator)
        model = sq.SquaredCircuit(circuit if self.unitary else with_large_sums(circuit, generator))
        model.shape = SHAPE
        return model


def with_large_sums(circuit: sq.Circuit, generator: torch.Generator) -> sq.Circuit:
    """The circuit with free weights of inner sums that are uniform in (0, 1), real and imaginary parts.

    The library's own are smaller and better on small images; these are better on FashionMNIST, and on MNIST
    where there are many units (tries.md).
    """
    inner = [layer.weight for layer in circuit.sums if layer not in circuit.roots]
    values = {
        circuit.parameter_name(weight): torch.view_as_complex(
            torch.rand(*weight.shape, 2, dtype=torch.float64, generator=generator)
        )
        for weight in inner
    }
    return circuit.with_weights(values)


def _falling(units: int) -> float:
    """Of Polar: steps of rows with K⁴ weights carry more noise the larger K is (tries.md)."""
    return 0.4 / units


KINDS = {
    "unitary": Kind("unitary", "kronecker", True, _falling, average=0.998),
    "squared": Kind("squared", "hadamard", False, lambda units: 0.01),
    "splits": Kind("splits", "kronecker", True, _falling, average=0.998),
}


def bits(model: sq.SquaredCircuit, rows: torch.Tensor) -> float:
    """Mean −log₂ p a pixel, exact and normalised."""
    model.eval()
    with torch.no_grad():
        parts = [model.log_prob(part.to(model.device)).double().sum() for part in torch.split(rows, 500)]
    return -float(torch.stack(parts).sum()) / rows.numel() / math.log(2)


def scores_of(model: sq.SquaredCircuit, history: sq.History, test: torch.Tensor) -> dict[str, float]:
    """Bits per dimension of the test images, of the best validation and of the last epoch, and log Z."""
    best = history.best
    return {
        "test_bpd": bits(model, test.long()),
        "valid_bpd": math.nan if best is None or best.valid is None else best.valid,
        "train_bpd": history.rows[-1].train,
        "log_z": model.log_partition().item(),
    }


def show(row: Row) -> None:
    """A row in one line."""
    scores = ", ".join(f"{k} {v:.4g}" if k == "log_z" else f"{k} {v:.4f}" for k, v in row.scores.items())
    published = f"published {dict(row.paper)}"
    print(
        f"{row.data}, {row.model}, seed {row.seed}: {scores}; {published}; {row.minutes:.1f} min", flush=True
    )


def run(
    data: sq.data.Dataset, kind: Kind, units: int, seed: int, device: str, epochs: int, rows: int | None
) -> Row:
    """Train one model and score it."""
    model = kind.build(units, seed).to(device)
    train, valid, test = (torch.as_tensor(part[:rows]) for part in (data.train, data.valid, data.test))
    options: dict[str, Any] = {
        "epochs": epochs,
        "batch": 256,
        "lr": kind.lr(units),
        "average": kind.average,
        "patience": 0,
    }
    started = time.monotonic()
    history = sq.fit(
        model, train, valid, progress=False, valid_every=max(1, epochs // 10), seed=seed, **options
    )
    minutes = (time.monotonic() - started) / 60
    printed = PUBLISHED.get((data.name, kind.name), {}).get(units)
    paper = {} if printed is None else {"test_bpd": printed}
    name = f"images-{data.name}-{kind.name}"
    title = f"{'⊥' if kind.unitary else '±'} {kind.product} K={units}"
    scores, detail = scores_of(model, history, test), options | {"units": units}
    return Row(name, data.name, title, parameters(model), seed, scores, minutes, paper, detail)


def draw(folder: Path) -> Figure:
    """Bits per dimension on test images against the number of parameters: every row in the folder."""
    from matplotlib.figure import Figure  # rows can be made without it

    figure = Figure(figsize=(9, 3.8), layout="constrained")
    for axis, data in zip(figure.subplots(1, 2), DATA, strict=True):
        for colour, kind in zip(("tab:blue", "tab:orange", "tab:green"), KINDS, strict=True):
            lines = {
                "o-": ("here", _means(_rows(f"images-{data}-{kind}", folder))),
                "x:": ("the paper", _printed(data, kind)),
            }
            for style, (whose, points) in lines.items():
                if points[0]:
                    axis.plot(*points, style, color=colour, markersize=4, label=f"{kind}, {whose}")
        rows = [row for row in _rows("best", folder) if row["model"] == "preset best"]
        best = [row for row in rows if row["data"] == data]
        axis.plot(*_means(best), "*", color="black", markersize=10, label="preset best")
        axis.set(title=data, xlabel="parameters", ylabel="bits per dimension, test", xscale="log")
    axis.legend(fontsize=8)
    return figure


def _rows(name: str, folder: Path) -> list[dict[str, Any]]:
    return read(name, folder) if (folder / f"{name}.jsonl").exists() else []


def _means(rows: list[dict[str, Any]]) -> tuple[list[int], list[float]]:
    """Parameters and the mean over seeds of the test images."""
    found: dict[int, list[float]] = {}
    for row in rows:
        found.setdefault(row["params"], []).append(row["test_bpd"])
    sizes = sorted(found)
    return sizes, [sum(found[size]) / len(found[size]) for size in sizes]


def _printed(data: str, kind: str) -> tuple[list[int], list[float]]:
    """Parameters and what the paper prints, of all its circuits."""
    found = PUBLISHED.get((data, kind), {})
    return [KINDS[kind].circuit(units).num_parameters() for units in found], list(found.values())


def main(arguments: list[str] | None = None) -> list[Row]:
    parser = arguments_of(__doc__)
    parser.add_argument("--data", default="mnist", choices=DATA)
    parser.add_argument("--kind", default="unitary", choices=sorted(KINDS))
    parser.add_argument("--units", type=int, nargs="+", default=[4, 6, 8])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--lr", type=float, help="other than the table's")
    parser.add_argument("--rows", type=int, help="of each part, to try things out")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--folder", help="of the data")
    parser.add_argument("--draw", action="store_true", help="draw the figure of the rows that are there")
    options = parser.parse_args(arguments)
    if options.draw:
        if not list(options.out.glob("images-*.jsonl")):
            parser.error(f"there are no rows images-*.jsonl in {options.out}: train some models first")
        save_figure(draw(options.out), options.out / "images.png")
        return []
    data, rows = sq.data.load(options.data, options.folder), []
    kind = KINDS[options.kind]
    if options.lr is not None:
        kind = replace(kind, lr=lambda units: options.lr)
    for units in options.units:
        for seed in options.seeds:
            row = run(data, kind, units, seed, options.device, options.epochs, options.rows)
            rows.append(row)
            write(rows, options.out)  # after every model: a long run that is stopped keeps what it has
            show(row)
    return rows


if __name__ == "__main__":
    as_program(main)
