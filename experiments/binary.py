"""The binary data sets nltcs, plants, baudio and dna: mean test log-likelihood beside published ones.

Models are mixtures of unitary circuits on several trees (`trees` of `sq.table_model`): the Chow–Liu tree of the
training rows, and those of rows drawn from them with replacement. Each tree has several circuits above the same
inputs (`components`) and is trained as if it were alone. Settings were chosen on validation rows; test rows are
scored once.

    squircuit reproduce binary --data nltcs plants
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

import squircuit as sq
from record import Row, arguments_of, parameters, write
from record import run as as_program

HCLT = {"nltcs": -6.00, "plants": -14.26, "baudio": -39.77, "dna": -79.05}
MPS = {"nltcs": -6.01, "plants": -13.91, "baudio": -42.10, "dna": -79.98}
"""Published: hidden Chow–Liu trees; a matrix-product Born machine (optimistic: its minima on validation)."""


@dataclass(frozen=True)
class Setting:
    """What was chosen for a data set, on its validation rows."""

    model: dict[str, Any]  #: options of `sq.table_model`
    fit: dict[str, Any]  #: options of `sq.fit`


SETTINGS = {
    "nltcs": Setting(
        {"units": 4, "components": 8, "trees": 8},
        {"epochs": 12, "average": 0.998, "lr": 0.1, "lr_free": 0.05},
    ),
    "plants": Setting(
        {"units": 4, "components": 16, "trees": 4}, {"epochs": 16, "average": 0.99, "lr_free": 0.05}
    ),
    "baudio": Setting(
        {"units": 2, "components": 16, "trees": 8}, {"epochs": 12, "average": 0.995, "lr_free": 0.05}
    ),
    "dna": Setting(
        {"units": 2, "components": 16, "trees": 16}, {"epochs": 20, "average": 0.98, "lr_free": 0.05}
    ),
}


def run(data: sq.data.Dataset, seed: int, device: str, setting: Setting) -> Row:
    """Train the mixture and score it."""
    trees = setting.model["trees"]
    model = sq.table_model(data, seed=seed * trees, **setting.model).to(device)
    started = time.monotonic()
    history = sq.fit(model, data, seed=seed, progress=False, **setting.fit)
    minutes = (time.monotonic() - started) / 60
    scores = {"test_ll": score(model, data.test), "valid_ll": score(model, data.valid)}
    scores["log_z"] = model.log_partition().item()
    paper = {"hclt": HCLT[data.name], "mps": MPS[data.name]}
    detail = asdict(setting) | {
        "tree_valid_ll": scores_of_trees(model, data.valid, trees),
        "epochs": len(history.rows),
        "best_epoch": history.best_epoch,
    }
    name = f"⊥ Kronecker, {trees} trees"
    return Row("binary", data.name, name, parameters(model), seed, scores, minutes, paper, detail)


@torch.no_grad()
def scores_of_trees(model: sq.SquaredCircuit, rows: Any, trees: int) -> list[float]:
    """Mean log-likelihood of each tree alone, whose share is one of so many."""
    terms = model.component_log_prob(torch.as_tensor(rows).long().to(model.device)).double()
    alone = terms.unflatten(1, (trees, -1)).logsumexp(dim=2) + math.log(trees)
    return [float(mean) for mean in alone.mean(dim=0)]


@torch.no_grad()
def score(model: sq.SquaredCircuit, rows: Any) -> float:
    """Mean log-likelihood in nats."""
    return model.log_prob(torch.as_tensor(rows).long().to(model.device)).double().mean().item()


def main(arguments: list[str] | None = None) -> list[Row]:
    parser = arguments_of(__doc__)
    parser.add_argument("--data", nargs="+", default=list(HCLT), choices=list(HCLT))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--epochs", type=int, help="fewer than by default, to try things out")
    parser.add_argument("--folder", help="of the data")
    options = parser.parse_args(arguments)
    rows: list[Row] = []
    for name in options.data:
        data = sq.data.load(name, options.folder)
        setting = SETTINGS[name]
        if options.epochs is not None:
            setting = replace(setting, fit=setting.fit | {"epochs": options.epochs})
        for seed in options.seeds:
            rows.append(run(data, seed, options.device, setting))
            write(rows, options.out)
            shown = ", ".join(f"{k} {v:.5g}" for k, v in rows[-1].scores.items())
            published = f"published {dict(rows[-1].paper)}"
            print(f"{name}, {rows[-1].params:,} parameters: {shown}; {published}", flush=True)
    return rows


if __name__ == "__main__":
    as_program(main)
