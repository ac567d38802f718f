"""scikit-learn's own checks of estimators, with few epochs because most of them fit several times."""

from __future__ import annotations

from sklearn.utils.estimator_checks import parametrize_with_checks

import squircuit as sq

FEW = {"epochs": 2, "units": 2, "size": 8}
ESTIMATORS = [
    sq.estimators.SquaredCircuitDensity(**FEW),
    sq.estimators.SquaredCircuitImputer(**FEW),
    sq.estimators.SquaredCircuitOutlier(**FEW),
]


@parametrize_with_checks(ESTIMATORS)
def test_it_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)
