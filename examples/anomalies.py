"""Anomaly detection: AUC of log densities beside scikit-learn's detectors, trained on normal rows only.

Breast cancer (569 patients, 30 measurements): benign cases are normal, malignant ones are to be found. Half
of the benign rows are for training; the others and all malignant ones are ranked, once complete and once with
half of their cells missing, which the circuit marginalises and the others have to get filled with means.

    python examples/anomalies.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import IsolationForest
from sklearn.impute import SimpleImputer
from sklearn.metrics import roc_auc_score
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import squircuit as sq


def detectors() -> dict[str, Any]:
    """Name → an estimator with ``fit`` and ``score_samples``."""
    return {
        "squared circuit": sq.estimators.SquaredCircuitDensity(epochs=30, random_state=0),
        "isolation forest": make_pipeline(SimpleImputer(), IsolationForest(random_state=0)),
        "mixture of 2 Gaussians": make_pipeline(
            SimpleImputer(), StandardScaler(), GaussianMixture(2, reg_covar=1e-2, random_state=0)
        ),
    }


def main() -> dict[str, tuple[float, ...]]:
    data, seed = load_breast_cancer(), 0
    rows = np.log1p(data.data)  # the measurements are positive and skewed
    train, normal = train_test_split(rows[data.target == 1], test_size=0.5, random_state=seed)
    asked = np.concatenate([normal, rows[data.target == 0]])
    truth = np.arange(len(asked)) >= len(normal)  # malignant
    holey = np.where(np.random.default_rng(seed).random(asked.shape) < 0.5, np.nan, asked)
    fitted = {name: detector.fit(train) for name, detector in detectors().items()}
    areas = {
        name: tuple(float(roc_auc_score(truth, -detector.score_samples(x))) for x in (asked, holey))
        for name, detector in fitted.items()
    }
    print(f"{'AUC of malignant rows':24} all cells   50 % missing")
    for name, (complete, half) in areas.items():
        print(f"{name:24} {complete:9.3f} {half:14.3f}")
    return areas


if __name__ == "__main__":
    main()
