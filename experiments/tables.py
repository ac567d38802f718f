"""Continuous tables: mean test log-likelihood of `sq.learn` by its default call, beside peers.

A table is a file NAME.npz of arrays train, valid and test, (n, d) numbers, or one of those that
`other_tables.py` has, such as wine or rings. All learn from the training rows and select by the validation
rows; test rows are scored once. Peers: the best Gaussian mixture of scikit-learn (1 to 200 components, three
floors of the variances), zuko's neural spline flow, LearnSPN and an Einet of SPFlow. All stop or are chosen
by validation rows; the mixture is chosen by five folds of both where they are fewer than 4,000, and learns
from both in the end, as `sq.learn` does. Those that are not installed are named and left out.

    squircuit reproduce tables --folder tables --data diamonds magic --peers gmm nsf learn-spn einet
    squircuit reproduce tables --peers gmm
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch

import squircuit as sq
from other_tables import NAMES, other_table
from record import Row, arguments_of, parameters, write
from record import run as as_program
from table_peers import PEERS, Found, Numbers, Parts, Run

BLOCK = 4096


def load(folder: Path | None, name: str, seed: int = 0) -> Parts:
    """The three parts of a table, in double precision: of a file, or one of those known by name."""
    path = (folder or Path()) / f"{name}.npz"
    if name in NAMES and not (folder and path.is_file()):
        return other_table(name, seed)
    if folder is None or not path.is_file():
        raise sq.DataError(
            f"there is no file {path}. Fix: --folder, with files of train, valid and test rows, or one of "
            f"{', '.join(NAMES)}."
        )
    with np.load(path, allow_pickle=False) as file:
        return Parts(*(file[part].astype(np.float64) for part in Parts._fields))


def learnt(parts: Parts, seed: int, minutes: float | None) -> Found:
    """The default call; columns are numbers, whatever values they have."""
    columns = {str(v): "continuous" for v in range(parts.train.shape[1])}
    train = sq.data.table(parts.train, columns)
    model = sq.learn(train, parts.valid, seed=seed, minutes=minutes)
    scores = {f"{name}_ll": score(model, getattr(parts, name)) for name in ("valid", "test")}
    return scores | {"log_z": model.log_partition().item()}, parameters(model), dict(model.notes["learn"])


@torch.no_grad()
def score(model: sq.SquaredCircuit, rows: Numbers) -> float:
    """Mean log-likelihood in nats a row."""
    found = [model.log_prob(rows[start : start + BLOCK]).cpu() for start in range(0, len(rows), BLOCK)]
    return torch.cat(found).mean().item()


def main(arguments: list[str] | None = None) -> list[Row]:
    parser = arguments_of(__doc__)
    parser.add_argument("--folder", type=Path, help="of the tables, NAME.npz each")
    parser.add_argument(
        "--data", nargs="+", help="names of tables; default all of the folder, or all that need no file"
    )
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, help="as for sq.learn; default its own choice")
    options = parser.parse_args(arguments)
    names = options.data or _names(options.folder)
    rows: list[Row] = []
    for name in names:
        parts = load(options.folder, name, options.seed)
        for words, run in _models(name, options):
            try:
                rows.append(_timed(name, words, options.seed, run, parts))
            except Exception as error:  # of other libraries, which may fail in any way
                if words == "sq.learn" and not isinstance(error, sq.SquircuitError):
                    raise
                print(f"{name:12} {words}: {error}", flush=True)
            else:
                write(rows, options.out)
    return rows


def _models(name: str, options: argparse.Namespace) -> Iterator[tuple[str, Run]]:
    """What is tried on a table: ours, and the peers that are installed."""
    yield "sq.learn", partial(learnt, minutes=options.minutes)
    for peer in options.peers:
        package, words, run = PEERS[peer]
        if importlib.util.find_spec(package) is None:
            print(f"{name:12} {words}: {package} is not installed")
        else:
            yield words, run


def _names(folder: Path | None) -> list[str]:
    return list(NAMES) if folder is None else sorted(path.stem for path in folder.glob("*.npz"))


def _timed(name: str, model: str, seed: int, run: Run, parts: Parts) -> Row:
    started = time.monotonic()
    scores, count, detail = run(parts, seed)
    minutes = (time.monotonic() - started) / 60
    shown = ", ".join(f"{key} {value:.3f}" for key, value in scores.items())
    print(f"{name:12} {model:22} {shown}, {60 * minutes:.0f} s", flush=True)
    return Row("tables", name, model, count, seed, scores, minutes, {}, detail)


if __name__ == "__main__":
    as_program(main)
