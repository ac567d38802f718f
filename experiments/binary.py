"""The binary data sets nltcs, plants, baudio and dna: mean test log-likelihood beside published ones.

A unitary circuit on the Chow–Liu tree of the training rows (or another tree), trained by ``sq.fit``. The
settings of a data set were chosen on its validation rows; test rows are scored once.

    squircuit reproduce binary --data nltcs plants
"""

from __future__ import annotations

import time
from typing import Any

import torch

import squircuit as sq
from record import Row, arguments_of, parameters, write
from record import run as as_program

HCLT = {"nltcs": -6.00, "plants": -14.26, "baudio": -39.77, "dna": -79.05}
MPS = {"nltcs": -6.01, "plants": -13.91, "baudio": -42.10, "dna": -79.98}
"""Published: hidden Chow–Liu trees; a matrix-product Born machine (optimistic: its minima on validation)."""

MODEL: dict[str, dict[str, Any]] = {name: {} for name in HCLT}
FIT: dict[str, dict[str, Any]] = {name: {"epochs": 40, "average": 0.998} for name in HCLT}
"""Options of `sq.table_model` and `sq.fit` that were chosen on validation rows."""


def run(data: sq.data.Dataset, seed: int, device: str, options: dict[str, Any], fit: dict[str, Any]) -> Row:
    """Train one model and score it."""
    model = sq.table_model(data, seed=seed, **options).to(device)
    started = time.monotonic()
    history = sq.fit(model, data, seed=seed, progress=False, **fit)
    minutes, best = (time.monotonic() - started) / 60, history.best
    model.eval()
    with torch.no_grad():
        test = torch.as_tensor(data.test).long().to(device)
        scores = {
            "test_ll": model.log_prob(test).double().mean().item(),
            "valid_ll": -best.valid if best is not None and best.valid is not None else float("nan"),
            "log_z": model.log_partition().item(),
        }
    paper = {"hclt": HCLT[data.name], "mps": MPS[data.name]}
    detail = {
        "model": options,
        "fit": fit,
        "epochs": len(history.rows),
        "best_epoch": history.best_epoch,
    }
    return Row("binary", data.name, "⊥ Kronecker", parameters(model), seed, scores, minutes, paper, detail)


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
        fit = FIT[name] | ({} if options.epochs is None else {"epochs": options.epochs})
        for seed in options.seeds:
            rows.append(run(data, seed, options.device, MODEL[name], fit))
            write(rows, options.out)
            shown = ", ".join(f"{k} {v:.5g}" for k, v in rows[-1].scores.items())
            published = f"published {dict(rows[-1].paper)}"
            print(f"{name}, {rows[-1].params:,} parameters: {shown}; {published}", flush=True)
    return rows


if __name__ == "__main__":
    as_program(main)
