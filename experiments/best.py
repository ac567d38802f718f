"""The library's own models of images, beyond the paper's: the presets of each data set, trained and scored.

The row is what `squircuit fit mnist --preset best` trains. Settings were chosen on validation images alone
(tries.md); test images are scored once, with the weights of the best validation, beside the exact log Z.
Members that are trained apart, from different seeds and on trees that halve images in different orders, are
mixed with equal weights, as `squircuit mix` does.

    squircuit reproduce best --data mnist fashion-mnist
    squircuit reproduce best --data fashion-mnist --members 2 --orders vh hv
    squircuit reproduce best --data cifar10-ycocg
"""

from __future__ import annotations

import sys
import time
from itertools import cycle, pairwise

import torch

import squircuit as sq
from images import bits, scores_of, show
from record import Row, arguments_of, parameters, write
from record import run as as_program
from squircuit import presets

PUBLISHED = {
    "mnist": {"paper": 1.1923, "sparse_pc": 1.14, "qt_cp": 1.175},
    "fashion-mnist": {"paper": 3.4105, "sparse_pc": 3.27, "qg_cp": 3.326},
    "cifar10-ycocg": {"hclt": 4.61, "lvd": 4.37, "lvd_pg": 3.87},
}
"""Bits per dimension: the paper's best, SparsePC, the best monotonic circuits of one region graph; in colour
HCLT, latent variable distillation, and the same with progressive growing."""


def trained(
    data: sq.data.Dataset, preset: str, seed: int, device: str, changes: dict[str, int], order: str | None
) -> tuple[sq.SquaredCircuit, Row]:
    """One model of a preset, on the tree of that order or the preset's own, and its row."""
    chosen = presets.load(preset, data.name)
    structure = chosen["model"] | ({} if order is None else {"order": order})
    training = chosen["training"] | changes
    model = sq.model_for(data, seed=seed, **structure).to(device)
    started = time.monotonic()
    history = sq.fit(model, data, seed=seed, progress=sys.stderr.isatty(), **training)
    minutes = (time.monotonic() - started) / 60
    scores = scores_of(model, history, torch.as_tensor(data.test))
    detail = {**structure, **training, "best_epoch": history.best_epoch}
    paper = PUBLISHED.get(data.name, {})
    own = order in (None, chosen["model"].get("order", "hv"))
    title = f"preset {preset}" if own else f"preset {preset}, order {order}"
    row = Row("best", data.name, title, parameters(model), seed, scores, minutes, paper, detail)
    return model, row


def mixed(data: sq.data.Dataset, models: list[sq.SquaredCircuit], rows: list[Row]) -> Row:
    """The mixture of members with equal weights, and what it gains over their mean."""
    model = sq.mixture(models)
    images = {part: torch.as_tensor(getattr(data, part)).long() for part in ("test", "valid")}
    scores = {f"{part}_bpd": bits(model, rows_of) for part, rows_of in images.items()}
    scores["log_z"] = model.log_partition().item()
    minutes = sum(row.minutes for row in rows)
    detail = {
        "seeds": [row.seed for row in rows],
        "orders": [row.options.get("order", "hv") for row in rows],
        "members": [row.scores["valid_bpd"] for row in rows],
    }
    name = f"mixture of {len(rows)}, " + "; ".join(dict.fromkeys(row.model for row in rows))
    first = rows[0]
    return Row("best", data.name, name, parameters(model), first.seed, scores, minutes, first.paper, detail)


def main(arguments: list[str] | None = None) -> list[Row]:
    parser = arguments_of(__doc__)
    parser.add_argument("--data", nargs="+", default=["mnist", "fashion-mnist"], choices=list(PUBLISHED))
    parser.add_argument("--preset", default="best")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="of the first member")
    parser.add_argument("--members", type=int, default=1, help="to mix, trained apart (default 1)")
    parser.add_argument("--orders", nargs="+", default=[None], help="of halves, of the members in turn")
    parser.add_argument("--epochs", type=int, help="other than the preset's")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--folder", help="of the data")
    options = parser.parse_args(arguments)
    changes = {} if options.epochs is None else {"epochs": options.epochs}
    if options.members < 1:
        parser.error(f"--members is {options.members}: pass 1 or more")
    if any(b - a < options.members for a, b in pairwise(sorted(options.seeds))):
        parser.error(f"--seeds {options.seeds}: they share models, take seeds {options.members} apart")
    if len(options.orders) > options.members:
        parser.error(f"--orders are {len(options.orders)}, --members {options.members}: pass as many members")
    for order in [each for some in filter(None, options.orders) for each in some.split(",")]:
        sq.regions.quad_tree((2, 2), 2, order)  # refuses what is no order before anything is trained
    done: list[Row] = []

    def keep(row: Row) -> None:
        done.append(row)
        write(done, options.out)  # after every model: a run that is stopped keeps what it has
        show(row)

    for name in options.data:
        data = sq.data.load(name, options.folder)
        for first in options.seeds:
            models, rows = [], []
            for seed, order in zip(
                range(first, first + options.members), cycle(options.orders), strict=False
            ):
                model, row = trained(data, options.preset, seed, options.device, changes, order)
                models.append(model)
                rows.append(row)
                keep(row)
            if len(models) > 1:
                keep(mixed(data, models, rows))
    return done


if __name__ == "__main__":
    as_program(main)
