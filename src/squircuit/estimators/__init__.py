"""Squared circuits as scikit-learn estimators: densities, classes, numbers, imputation, outliers.

They need scikit-learn: ``pip install 'squircuit[estimators]'``. ``squircuit`` imports this folder when
``squircuit.estimators`` is first asked for, so all else works without.
"""

from __future__ import annotations

from squircuit.data.optional import need

need("sklearn", "squircuit.estimators", "estimators")  # before the imports, for its error

from squircuit.estimators.classifier import SquaredCircuitClassifier  # noqa: E402
from squircuit.estimators.density import SquaredCircuitDensity  # noqa: E402
from squircuit.estimators.imputer import SquaredCircuitImputer  # noqa: E402
from squircuit.estimators.outlier import SquaredCircuitOutlier  # noqa: E402
from squircuit.estimators.regressor import SquaredCircuitRegressor  # noqa: E402

__all__ = [
    "SquaredCircuitClassifier",
    "SquaredCircuitDensity",
    "SquaredCircuitImputer",
    "SquaredCircuitOutlier",
    "SquaredCircuitRegressor",
]
