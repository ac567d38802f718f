"""The binary data sets nltcs, plants, baudio and dna: mean test log-likelihood beside published ones.

By default one call with no setting of its own for a set, ``sq.learn(train, valid)``: continuous mixtures, EM
and circuits on trees of drawn rows, weighed by the validation rows.

    squircuit reproduce binary --data nltcs plants

With ``--call settings``: mixtures of unitary circuits on the Chow–Liu tree of the training rows, or of rows
drawn from them with replacement (`components` of `sq.table_model`), trained by ``sq.fit``; several of them,
trained apart from different seeds, are mixed with equal weights (`sq.mixture`). Settings were chosen on
validation rows.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

import squircuit as sq
from record import Row, arguments_of, parameters, write
from record import run as as_program

HCLT = {"nltcs": -6.00, "plants": -14.26, "baudio": -39.77, "dna": -79.05}
MPS = {"nltcs": -6.01, "plants": -13.91, "baudio": -42.10, "dna": -79.98}
CM = {"nltcs": -5.99, "plants": -12.26, "baudio": -39.02}
"""Published: hidden Chow–Liu trees; a matrix-product Born machine (optimistic: its minima on validation);
continuous mixtures of Chow–Liu trees (Correia et al., AAAI 2023)."""


@dataclass(frozen=True)
class Setting:
    """What was chosen for a data set, on its validation rows."""

    model: dict[str, Any]  #: options of `sq.table_model`
    fit: dict[str, Any]  #: options of `sq.fit`
    members: int  #: models that are trained apart and mixed
    draws: bool = True  #: the tree of a member is that of rows drawn with replacement


SETTINGS = {
    "nltcs": Setting(
        {"units": 4, "components": 8},
        {"epochs": 12, "average": 0.998, "lr": 0.1, "lr_free": 0.05},
        members=8,
        draws=False,
    ),
    "plants": Setting(
        {"units": 4, "components": 16}, {"epochs": 16, "average": 0.99, "lr_free": 0.05}, members=4
    ),
    "baudio": Setting(
        {"units": 2, "components": 16}, {"epochs": 12, "average": 0.995, "lr_free": 0.05}, members=8
    ),
    "dna": Setting(
        {"units": 2, "components": 16}, {"epochs": 20, "average": 0.98, "lr_free": 0.05}, members=12
    ),
}


def trained(
    data: sq.data.Dataset, seed: int, device: str, setting: Setting
) -> tuple[sq.SquaredCircuit, sq.History]:
    """One member of the mixture."""
    tree = sq.regions.chow_liu(data.train, resample=seed) if setting.draws else None
    model = sq.table_model(data, seed=seed, regions=tree, **setting.model).to(device)
    history = sq.fit(model, data, seed=seed, progress=False, **setting.fit)
    return model, history


def run(data: sq.data.Dataset, seed: int, device: str, setting: Setting) -> Row:
    """Train the members, mix them and score the mixture."""
    started = time.monotonic()
    seeds = range(seed * setting.members, (seed + 1) * setting.members)
    members, histories = zip(*(trained(data, s, device, setting) for s in seeds), strict=True)
    model, minutes = sq.mixture(members), (time.monotonic() - started) / 60
    scores = {"test_ll": score(model, data.test), "valid_ll": score(model, data.valid)}
    scores["log_z"] = model.log_partition().item()
    paper = {"hclt": HCLT[data.name], "mps": MPS[data.name]}
    detail = asdict(setting) | {
        "member_valid_ll": [score(member, data.valid) for member in members],
        "epochs": [len(history.rows) for history in histories],
        "best_epoch": [history.best_epoch for history in histories],
    }
    name = f"⊥ Kronecker, {model.structure.num_roots} roots"
    return Row("binary", data.name, name, parameters(model), seed, scores, minutes, paper, detail)


def learnt(data: sq.data.Dataset, seed: int, device: str, minutes: float | None) -> Row:
    """The default call; members have learnt from the validation rows, too, so their score is that before."""
    started = time.monotonic()
    model = sq.learn(data, minutes=minutes, seed=seed, device=device)
    minutes_taken = (time.monotonic() - started) / 60
    notes = model.notes["learn"]
    scores = {"test_ll": score(model, data.test), "valid_ll": notes["score"]}
    scores["log_z"] = model.log_partition().item()
    paper = {"hclt": HCLT[data.name], "mps": MPS[data.name]}
    paper |= {"continuous_mixture": CM[data.name]} if data.name in CM else {}
    detail = {"minutes": minutes, "members": notes["members"], "held_out": notes["held out"]}
    return Row("binary", data.name, "sq.learn", parameters(model), seed, scores, minutes_taken, paper, detail)


@torch.no_grad()
def score(model: sq.SquaredCircuit, rows: Any) -> float:
    """Mean log-likelihood in nats."""
    parts = torch.split(torch.as_tensor(rows).long(), 500)
    return torch.cat([model.log_prob(part.to(model.device)).double().cpu() for part in parts]).mean().item()


def main(arguments: list[str] | None = None) -> list[Row]:
    parser = arguments_of(__doc__)
    parser.add_argument("--data", nargs="+", default=list(HCLT), choices=list(HCLT))
    parser.add_argument("--call", default="learn", choices=["learn", "settings"], help="learn by default")
    parser.add_argument("--minutes", type=float, help="of learn, in place of its default")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--epochs", type=int, help="of settings: fewer, to try things out")
    parser.add_argument("--folder", help="of the data")
    options = parser.parse_args(arguments)
    rows: list[Row] = []
    for name in options.data:
        data = sq.data.load(name, options.folder)
        setting = SETTINGS[name]
        if options.epochs is not None:
            setting = replace(setting, fit=setting.fit | {"epochs": options.epochs})
        for seed in options.seeds:
            if options.call == "learn":
                rows.append(learnt(data, seed, options.device, options.minutes))
            else:
                rows.append(run(data, seed, options.device, setting))
            write(rows, options.out)
            shown = ", ".join(f"{k} {v:.5g}" for k, v in rows[-1].scores.items())
            published = f"published {dict(rows[-1].paper)}"
            print(f"{name}, {rows[-1].params:,} parameters: {shown}; {published}", flush=True)
    return rows


if __name__ == "__main__":
    as_program(main)
