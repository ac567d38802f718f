"""Continuous tables: mean test log-likelihood of `sq.learn` by its default call, beside peers.

A table is a file NAME.npz of arrays train, valid and test, (n, d) numbers. All learn from the training rows
and select by the validation rows; test rows are scored once. Peers: the best Gaussian mixture of scikit-learn
by validation rows (1 to 200 components, three floors of the variances), and zuko's neural spline flow, which
stops by validation rows. Peers that are not installed are left out and named.

    squircuit reproduce tables --folder tables --data diamonds magic --peers gmm nsf
"""

from __future__ import annotations

import copy
import importlib.util
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

import squircuit as sq
from record import Row, arguments_of, parameters, write
from record import run as as_program

Numbers = NDArray[np.float64]
BLOCK = 4096
Found = tuple[dict[str, float], int, dict[str, Any]]
"""Scores, the number of parameters, and what else is worth keeping."""


class Parts(NamedTuple):
    """The rows of one table."""

    train: Numbers
    valid: Numbers
    test: Numbers


Run = Callable[[Parts, int], Found]


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


def gaussian_mixture(parts: Parts, seed: int) -> Found:
    """The best of scikit-learn's by validation rows."""
    from sklearn.mixture import GaussianMixture

    tried = {}
    for count in (1, 2, 3, 5, 10, 20, 50, 100, 200):
        for floor in (1e-6, 1e-3, 5e-2):
            if count * 4 > len(parts.train):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    found = GaussianMixture(count, reg_covar=floor, random_state=seed).fit(parts.train)
                except ValueError:  # a covariance that is not positive
                    continue
            tried[count, floor] = float(found.score(parts.valid)), found
    best = max(tried, key=lambda key: tried[key][0])
    valid, model = tried[best]
    scores = {"valid_ll": valid, "test_ll": float(model.score(parts.test))}
    return scores, int(model._n_parameters()), {"components": best[0], "floor": best[1]}


def spline_flow(parts: Parts, seed: int) -> Found:
    """zuko's neural spline flow, 5 transforms of 2×256, 16 bins, Adam, until validation no longer gains."""
    import zuko

    torch.manual_seed(seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    train, valid, test = (torch.tensor(rows, dtype=torch.float32, device=device) for rows in parts)
    flow = zuko.flows.NSF(train.shape[1], transforms=5, bins=16, hidden_features=(256, 256)).to(device)
    optimiser = torch.optim.Adam(flow.parameters(), lr=1e-3)
    best, kept, waited, started, epochs = -np.inf, copy.deepcopy(flow.state_dict()), 0, time.monotonic(), 0
    while waited < 20 and time.monotonic() - started < 600:
        for batch in torch.split(torch.randperm(len(train), device=device), 512):
            loss = -flow().log_prob(train[batch]).mean()
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
            optimiser.step()
        with torch.no_grad():
            reached = flow().log_prob(valid).mean().item()
        epochs, waited = epochs + 1, waited + 1
        if reached > best:
            best, kept, waited = reached, copy.deepcopy(flow.state_dict()), 0
    flow.load_state_dict(kept)
    with torch.no_grad():
        found = flow().log_prob(test).mean().item()
    count = sum(p.numel() for p in flow.parameters())
    return {"valid_ll": best, "test_ll": found}, count, {"epochs": epochs}


PEERS: dict[str, tuple[str, str, Run]] = {
    "gmm": ("sklearn", "best Gaussian mixture", gaussian_mixture),
    "nsf": ("zuko", "neural spline flow", spline_flow),
}
"""Peer → the package it needs, its name, and how it is run."""


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
