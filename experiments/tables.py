"""Continuous tables: mean test log-likelihood of `sq.learn` by its default call, beside peers.

A table is a file NAME.npz of arrays train, valid and test, (n, d) numbers. All learn from the training rows
and select by the validation rows; test rows are scored once. Peers: the best Gaussian mixture of scikit-learn
by validation rows (1 to 200 components, three floors of the variances), zuko's neural spline flow, LearnSPN
and an Einet of SPFlow. All stop or are chosen by validation rows. Those that are not installed are named and
left out.

    squircuit reproduce tables --folder tables --data diamonds magic --peers gmm nsf learn-spn einet
"""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path

import numpy as np
import torch

import squircuit as sq
from record import Row, arguments_of, parameters, write
from record import run as as_program
from table_peers import PEERS, Found, Numbers, Parts, Run

BLOCK = 4096


def load(folder: Path, name: str) -> Parts:
    """The three parts of a table, in double precision."""
    path = folder / f"{name}.npz"
    if not path.is_file():
        raise sq.DataError(
            f"there is no file {path}. Fix: --folder, with files of train, valid and test rows."
        )
    with np.load(path, allow_pickle=False) as file:
        return Parts(*(file[part].astype(np.float64) for part in Parts._fields))


def learnt(parts: Parts, seed: int, minutes: float | None) -> Found:
    """The default call; columns are numbers, whatever values they have."""
    columns = {str(v): "continuous" for v in range(parts.train.shape[1])}
    train, valid = (sq.data.table(rows, columns) for rows in (parts.train, parts.valid))
    model = sq.learn(train, valid, seed=seed, minutes=minutes)
    scores = {f"{name}_ll": score(model, getattr(parts, name)) for name in ("valid", "test")}
    return scores | {"log_z": model.log_partition().item()}, parameters(model), dict(model.notes["learn"])


@torch.no_grad()
def score(model: sq.SquaredCircuit, rows: Numbers) -> float:
    """Mean log-likelihood in nats a row."""
    found = [model.log_prob(rows[start : start + BLOCK]).cpu() for start in range(0, len(rows), BLOCK)]
    return torch.cat(found).mean().item()


def main(arguments: list[str] | None = None) -> list[Row]:
    parser = arguments_of(__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="of the tables, NAME.npz each")
    parser.add_argument("--data", nargs="+", help="names of tables; default all of the folder")
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, help="as for sq.learn; default its own choice")
    options = parser.parse_args(arguments)
    names = options.data or sorted(path.stem for path in options.folder.glob("*.npz"))
    rows: list[Row] = []
    for name in names:
        parts = load(options.folder, name)
        rows.append(_timed(name, "sq.learn", options.seed, lambda p, s: learnt(p, s, options.minutes), parts))
        for peer in options.peers:
            package, words, run = PEERS[peer]
            if importlib.util.find_spec(package) is None:
                print(f"{name:12} {words}: {package} is not installed")
                continue
            rows.append(_timed(name, words, options.seed, run, parts))
        write(rows, options.out)
    return rows


def _timed(name: str, model: str, seed: int, run: Run, parts: Parts) -> Row:
    started = time.monotonic()
    scores, count, detail = run(parts, seed)
    minutes = (time.monotonic() - started) / 60
    shown = ", ".join(f"{key} {value:.3f}" for key, value in scores.items())
    print(f"{name:12} {model:22} {shown}, {60 * minutes:.0f} s", flush=True)
    return Row("tables", name, model, count, seed, scores, minutes, {}, detail)


if __name__ == "__main__":
    as_program(main)
