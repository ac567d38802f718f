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


OTHER_BATCHES = {
    "check_sample_weight_equivalence_on_dense_data": "repeated rows fall into other batches, and other rows "
    "are held out; tests/training/test_weights.py has the law for full steps"
}


def expected_failures(estimator):
    return OTHER_BATCHES if isinstance(estimator, sq.estimators.SquaredCircuitOutlier) else {}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_it_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)
