"""Small tables: what mixing components and members gains, beside the best Gaussian mixture.

Mean log-likelihood of held-out rows, 30 % of each table, over several splits. Estimators of one member are
the mean of four seeds. The Gaussian mixture, of one to five, full or diagonal, on standardised columns, is
the one that is best on the held-out rows themselves, which flatters it.

    python examples/members.py
    python examples/members.py --data wine --splits 1
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.datasets import load_iris, load_wine
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import squircuit as sq

TABLES = {"iris": load_iris, "wine": load_wine}
KINDS = {
    "default": {},
    "components=8": {"components": 8},
    "and members=4": {"components": 8, "members": 4},
    "and members=8": {"components": 8, "members": 8},
}


def score(train: np.ndarray, held: np.ndarray, kind: dict[str, int]) -> float:
    """Mean log-likelihood of the held-out rows."""
    seeds = range(1 if "members" in kind else 4)
    options = {"units": 4, "columns": "continuous", **kind}
    made = (sq.estimators.SquaredCircuitDensity(**options, random_state=seed) for seed in seeds)
    return float(np.mean([estimator.fit(train).score_samples(held).mean() for estimator in made]))


def best_gaussians(train: np.ndarray, held: np.ndarray) -> float:
    scaler = StandardScaler().fit(train)
    rows, asked = scaler.transform(train), scaler.transform(held)
    made = [
        GaussianMixture(count, covariance_type=kind, random_state=0).fit(rows)
        for count in range(1, 6)
        for kind in ("full", "diag")
    ]
    return float(max(each.score(asked) for each in made) - np.log(scaler.scale_).sum())


def main(arguments: list[str] | None = None) -> dict[str, dict[str, float]]:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", nargs="+", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--splits", type=int, default=4)
    options = parser.parse_args(arguments)
    means = {}
    for name in options.data:
        rows = TABLES[name]().data
        parts = [train_test_split(rows, test_size=0.3, random_state=n) for n in range(options.splits)]
        means[name] = {
            title: float(np.mean([score(*pair, kind) for pair in parts])) for title, kind in KINDS.items()
        } | {"best Gaussian mixture": float(np.mean([best_gaussians(*pair) for pair in parts]))}
        for title, mean in means[name].items():
            print(f"{name:6} {title:24} {mean:8.2f}", flush=True)
    return means


if __name__ == "__main__":
    main()
