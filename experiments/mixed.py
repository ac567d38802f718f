"""Mixed tables by the default of `sq.learn`: likelihood, a forest that looks for samples, gaps, outliers.

`likelihood` and `forest` are of files NAME.csv or NAME.csv.gz, rows in the order given, of which the first
70 % are learnt from, the next 10 % weigh the members and the last 20 % are scored once:

- test_ll is the mean of log p at the rows as they are. Numbers of a rounded column make it as high as one
  likes, so it is no fair comparison.
- test_cells is the mean of the log-probability that a sample, decoded, is the row. Of a column with a step
  or with levels it is the probability of what is rounded to the value, so that spikes count alike as
  densities and as states. The integral over a row's cell is the mean of p at points drawn in it, half of the
  times in the cell of the step and half in that of the levels; its logarithm is too low on average.
- forest is the area under the curve of a random forest of 200 trees that tells test rows from as many samples
  (8,000 of each at most), decoded as users get them, categories as numbers; it learns from one half and is
  asked about the other. Rows with gaps are left out of it. ½ is best.

`gaps` are of tables of scikit-learn: a fifth of the cells is hidden, the error is the root mean square over
hidden cells of standardised columns. `outliers` are of scikit-learn's, too: the area under the curve of
scores of rows, all of one class being outliers; each learns from half of the other rows.

    squircuit reproduce mixed --folder tables --data adult bike diamonds
    squircuit reproduce mixed --tasks gaps outliers --seeds 0 1 2
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

import squircuit as sq
from record import Row, arguments_of, parameters, write
from record import run as as_program

Numbers = NDArray[np.float64]
BLOCK = 2048
DRAWS = 16
"""Points in the cell of each row."""
MOST = 8000
"""Test rows that a forest sees, and samples."""
TASKS = ("tables", "gaps", "outliers")
HIDDEN = 0.2


class Parts(NamedTuple):
    """The rows of one table."""

    train: sq.data.Table
    valid: sq.data.Table
    test: sq.data.Table


def load(folder: Path, name: str) -> Parts:
    """The first 70 % of the rows, the next 10 % and the rest."""
    paths = [path for path in (folder / f"{name}.csv.gz", folder / f"{name}.csv") if path.is_file()]
    if not paths:
        raise sq.DataError(
            f"there is no table {name} in {folder}. Fix: --folder, with files NAME.csv or .gz."
        )
    table = sq.data.read(paths[0])
    first, second = int(0.7 * len(table)), int(0.8 * len(table))
    cuts = (slice(0, first), slice(first, second), slice(second, None))
    return Parts(
        *(sq.data.Table(table.cells.take(cut), table.schema, table.source, table.shape) for cut in cuts)
    )


def learnt(parts: Parts, seed: int, minutes: float | None) -> sq.SquaredCircuit:
    """The default call."""
    return sq.learn(parts.train, parts.valid, seed=seed, minutes=minutes)


def one_circuit(parts: Parts, seed: int, minutes: float | None) -> sq.SquaredCircuit:
    """One circuit of Hermite functions on a Chow–Liu tree, as `squircuit fit` made it before `sq.learn`."""
    model = sq.model_for(parts.train, seed=seed)
    sq.fit(model, parts.train, parts.valid, seed=seed)
    return model.eval()


MODELS: dict[str, Callable[[Parts, int, float | None], sq.SquaredCircuit]] = {
    "sq.learn": learnt,
    "one circuit": one_circuit,
}


def table_row(name: str, words: str, parts: Parts, seed: int, minutes: float | None) -> Row:
    """What a model scores on one table."""
    started, used = time.monotonic(), time.process_time()
    model = MODELS[words](parts, seed, minutes)
    took = (time.monotonic() - started) / 60
    detail = {"cpu_seconds": round(time.process_time() - used, 1)}
    rows = parts.test.cells
    scores = {
        "test_ll": float(log_probs(model, rows.x, rows.missing).mean()),
        "test_cells": float(cell_log_probs(model, parts.test, seed).mean()),
        "forest": forest(parts.test, model, seed),
        "log_z": model.log_partition().item(),
    }
    return Row("mixed", name, words, parameters(model), seed, scores, took, {}, detail)


@torch.no_grad()
def log_probs(model: sq.SquaredCircuit, x: Any, missing: Any) -> torch.Tensor:
    """log p of rows."""
    cuts = [slice(start, start + BLOCK) for start in range(0, len(x), BLOCK)]
    return torch.cat([model.log_prob(x[cut], missing[cut]).double().cpu() for cut in cuts])


def cell_log_probs(model: sq.SquaredCircuit, table: sq.data.Table, seed: int) -> torch.Tensor:
    """The log-probability that a sample is decoded as each row, see above: (n,)."""
    rng, (x, missing) = np.random.default_rng(seed), table.cells
    fine, wide = cells(table, is_fine=True), cells(table, is_fine=False)
    logs = []
    for draw in range(DRAWS):
        low, high = fine if draw % 2 == 0 else wide
        points = np.where(high > low, low + (high - low) * rng.random(x.shape), x)
        proposed = [_log_even(points, *cell, missing) for cell in (fine, wide)]
        log_q = torch.from_numpy(np.logaddexp(*proposed) - math.log(2))
        logs.append(log_probs(model, points, missing) - log_q)
    return torch.stack(logs).logsumexp(dim=0) - math.log(DRAWS)


def cells(table: sq.data.Table, is_fine: bool) -> tuple[Numbers, Numbers]:
    """The ends of what is decoded as the numbers of each row, (n, d) each; the same where nothing is.

    Args:
        table: of rows.
        is_fine: of columns with levels, too, only what lies within half a step; else as far as half way to
            the next level, and on the outer side of the last one as far as on its inner side.
    """
    low, high = table.rows.astype(np.float64).copy(), table.rows.astype(np.float64).copy()
    for v, column in enumerate(table.columns):
        x = low[:, v].copy()
        if column.levels and not (is_fine and column.step):
            levels = np.asarray(column.levels)
            middles = (levels[1:] + levels[:-1]) / 2
            ends = np.concatenate([[2 * levels[0] - middles[0]], middles, [2 * levels[-1] - middles[-1]]])
            place = np.searchsorted(middles, x)
            low[:, v], high[:, v] = ends[place], ends[place + 1]
        elif not column.is_discrete:
            low[:, v], high[:, v] = x - column.step / 2, x + column.step / 2
    return low, high


def _log_even(points: Numbers, low: Numbers, high: Numbers, missing: Any) -> Numbers:
    """The log-density of points that are drawn evenly between ends: (n,)."""
    width = np.where((high > low) & ~missing, high - low, 1.0)
    inside = missing | (high == low) | ((points >= low) & (points <= high))
    found: Numbers = np.where(inside.all(axis=1), -np.log(width).sum(axis=1), -np.inf)
    return found


def forest(table: sq.data.Table, model: sq.SquaredCircuit, seed: int) -> float:
    """The area under the curve of a forest that tells complete test rows from samples."""
    real = table.rows[~table.missing.any(axis=1)][:MOST]
    drawn = model.sample(len(real), seed=seed).double().cpu().numpy()
    pairs = zip(table.columns, drawn.T, strict=True)
    decoded = np.stack([x if column.is_discrete else column.rounded(x) for column, x in pairs], axis=1)
    return told_apart(real.astype(np.float64), decoded, seed)


def told_apart(real: Numbers, made: Numbers, seed: int) -> float:
    """Learnt from one half of the rows and asked about the other."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.metrics import roc_auc_score

    x, label = np.concatenate([real, made]), np.repeat([1, 0], [len(real), len(made)])
    order = np.random.default_rng(seed).permutation(len(x))
    half, rest = np.array_split(order, 2)
    found = RandomForestClassifier(200, random_state=seed).fit(x[half], label[half])
    return float(roc_auc_score(label[rest], found.predict_proba(x[rest])[:, 1]))


def gap_rows(seed: int, minutes: float | None) -> Iterator[Row]:
    """Errors of hidden cells of three tables."""
    from sklearn import datasets
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer, KNNImputer
    from sklearn.preprocessing import StandardScaler

    for name in ("wine", "breast_cancer", "diabetes"):
        rows = StandardScaler().fit_transform(getattr(datasets, f"load_{name}")().data)
        hidden = np.random.default_rng(seed).random(rows.shape) < HIDDEN
        shown = np.where(hidden, np.nan, rows)
        imputers = {
            "SquaredCircuitImputer": sq.estimators.SquaredCircuitImputer(random_state=seed, minutes=minutes),
            "KNNImputer": KNNImputer(),
            "IterativeImputer": IterativeImputer(max_iter=30, random_state=seed),
        }
        for words, imputer in imputers.items():
            started = time.monotonic()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that 30 rounds were not enough
                filled = imputer.fit_transform(shown)
            error = float(np.sqrt(np.square(filled - rows)[hidden].mean()))
            yield Row("mixed", name, words, 0, seed, {"error": error}, (time.monotonic() - started) / 60)


def outlier_rows(seed: int, minutes: float | None) -> Iterator[Row]:
    """How well the rows of another class are told by their scores."""
    from sklearn.ensemble import IsolationForest
    from sklearn.metrics import roc_auc_score
    from sklearn.mixture import GaussianMixture

    for name, usual, odd in outlier_data():
        order = np.random.default_rng(seed).permutation(len(usual))
        train, test = (usual[part] for part in np.array_split(order, 2))
        rows, label = np.concatenate([test, odd]), np.repeat([0, 1], [len(test), len(odd)])
        ours = sq.estimators.SquaredCircuitOutlier(random_state=seed, minutes=minutes)
        detectors = {
            "SquaredCircuitOutlier": ours,
            "SquaredCircuitOutlier, pairs": ours,  # the same density, asked otherwise
            "IsolationForest": IsolationForest(random_state=seed),
            "three Gaussians": GaussianMixture(3, reg_covar=1e-3, random_state=seed),
        }
        for words, detector in detectors.items():
            started = time.monotonic()
            mean, spread = train.mean(axis=0), train.std(axis=0) + 1e-12
            moved = words == "three Gaussians"
            learn_from, ask = ((a - mean) / spread if moved else a for a in (train, rows))
            fitted = ours.set_params(pairs=True) if words.endswith("pairs") else detector.fit(learn_from)
            scores = -fitted.score_samples(ask)
            area = float(roc_auc_score(label, np.nan_to_num(scores, posinf=1e300)))
            yield Row("mixed", name, words, 0, seed, {"outliers": area}, (time.monotonic() - started) / 60)


def outlier_data() -> Iterator[tuple[str, Numbers, Numbers]]:
    """Name, usual rows and odd ones."""
    from sklearn import datasets

    cancer, wine, digits = datasets.load_breast_cancer(), datasets.load_wine(), datasets.load_digits()
    yield "malignant among benign", cancer.data[cancer.target == 1], cancer.data[cancer.target == 0]
    yield "third wine among two", wine.data[wine.target != 2], wine.data[wine.target == 2]
    chosen = np.isin(digits.target, (1, 7))
    seen = digits.data[:, digits.data[chosen].std(axis=0) > 0]
    yield "digit 7 among 1", seen[digits.target == 1], seen[digits.target == 7]


def main(arguments: list[str] | None = None) -> list[Row]:
    parser = arguments_of(__doc__)
    parser.add_argument("--folder", type=Path, help="of the tables, NAME.csv or NAME.csv.gz each")
    parser.add_argument("--data", nargs="+", default=["adult", "bike", "diamonds"], help="names of tables")
    parser.add_argument(
        "--tasks", nargs="+", choices=TASKS, help="default: tables with --folder, else the rest"
    )
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=["sq.learn"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--minutes", type=float, help="as for sq.learn; default its own choice")
    options = parser.parse_args(arguments)
    tasks = options.tasks or (TASKS[:1] if options.folder else TASKS[1:])
    if "tables" in tasks and options.folder is None:
        raise sq.ParameterError(
            "tables need a folder of files. Fix: --folder FOLDER, or --tasks gaps outliers."
        )
    rows: list[Row] = []
    for row in _rows(tasks, options):
        rows.append(row)
        shown = ", ".join(f"{key} {value:.3f}" for key, value in row.scores.items())
        print(f"{row.data:22} {row.model:22} {shown}, {60 * row.minutes:.0f} s", flush=True)
        write(rows, options.out)
    return rows


def _rows(tasks: Any, options: Any) -> Iterator[Row]:
    for seed in options.seeds:
        for name in options.data if "tables" in tasks else ():
            parts = load(options.folder, name)
            for words in options.models:
                yield table_row(name, words, parts, seed, options.minutes)
        if "gaps" in tasks:
            yield from gap_rows(seed, options.minutes)
        if "outliers" in tasks:
            yield from outlier_rows(seed, options.minutes)


if __name__ == "__main__":
    as_program(main)
