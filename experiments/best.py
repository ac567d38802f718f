"""The library's own models of images, beyond the paper's: the presets of each data set, trained and scored.

The row is what `squircuit fit mnist --preset best` trains. Settings were chosen on validation images alone
(tries.md); test images are scored once, with the weights of the best validation, beside the exact log Z.

    squircuit reproduce best --data mnist fashion-mnist
"""

from __future__ import annotations

import sys
import time

import torch

import squircuit as sq
from images import scores_of, show
from record import Row, arguments_of, parameters, write
from record import run as as_program
from squircuit import presets

PUBLISHED = {
    "mnist": {"paper": 1.1923, "sparse_pc": 1.14, "qt_cp": 1.175},
    "fashion-mnist": {"paper": 3.4105, "sparse_pc": 3.27, "qg_cp": 3.326},
}
"""Bits per dimension: the paper's best, SparsePC, the best monotonic circuits of one region graph."""


def run(data: sq.data.Dataset, preset: str, seed: int, device: str, changes: dict[str, int]) -> Row:
    """Train one preset and score it."""
    chosen = presets.load(preset, data.name)
    training = chosen["training"] | changes
    model = sq.model_for(data, seed=seed, **chosen["model"]).to(device)
    started = time.monotonic()
    history = sq.fit(model, data, seed=seed, progress=sys.stderr.isatty(), **training)
    minutes = (time.monotonic() - started) / 60
    scores = scores_of(model, history, torch.as_tensor(data.test))
    detail = {**chosen["model"], **training, "best_epoch": history.best_epoch}
    paper = PUBLISHED.get(data.name, {})
    return Row("best", data.name, f"preset {preset}", parameters(model), seed, scores, minutes, paper, detail)


def main(arguments: list[str] | None = None) -> list[Row]:
    parser = arguments_of(__doc__)
    parser.add_argument("--data", nargs="+", default=list(PUBLISHED), choices=list(PUBLISHED))
    parser.add_argument("--preset", default="best")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--epochs", type=int, help="other than the preset's")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--folder", help="of the data")
    options = parser.parse_args(arguments)
    changes = {} if options.epochs is None else {"epochs": options.epochs}
    rows: list[Row] = []
    for name in options.data:
        data = sq.data.load(name, options.folder)
        for seed in options.seeds:
            rows.append(run(data, options.preset, seed, options.device, changes))
            write(rows, options.out)
            show(rows[-1])
    return rows


if __name__ == "__main__":
    as_program(main)
