"""A mask is never lost: masked arrays of NumPy are refused at every door, and their unmasked like is not."""

from __future__ import annotations

import numpy as np
import pytest

import squircuit as sq

VALUES = np.random.default_rng(0).normal(size=(12, 3))
MASKED = np.ma.masked_array(VALUES, mask=np.random.default_rng(1).random(VALUES.shape) < 0.3)
UNMASKED = np.ma.masked_array(VALUES)


def model() -> sq.SquaredCircuit:
    return sq.SquaredCircuit(sq.build(sq.regions.linear(3), sq.Hermite(4), units=2), seed=0).eval()


def fitted() -> sq.estimators.SquaredCircuitDensity:
    return sq.estimators.SquaredCircuitDensity(epochs=1).fit(VALUES)


DOORS = {
    "table": sq.data.table,
    "table of columns": lambda x: sq.data.table({"a": x[:, 0], "b": x[:, 1]}),
    "Batches": lambda x: next(iter(sq.data.Batches(x, 4))),
    "model_for": sq.model_for,
    "table_model": sq.table_model,
    "chow_liu": sq.regions.chow_liu,
    "fit": lambda x: sq.fit(model(), x, epochs=1, progress=False),
    "fit's validation": lambda x: sq.fit(model(), VALUES, x, epochs=1, progress=False),
    "evaluate": lambda x: sq.evaluate(model().circuit(), x),
    "log_prob": lambda x: model().log_prob(x),
    "missing": lambda x: model().log_prob(VALUES, missing=x > 0),
    "mean": lambda x: model().mean(x),
    "sample": lambda x: model().sample(2, given=x, missing=[True, False, False]),
    "density": lambda x: sq.estimators.SquaredCircuitDensity(epochs=1).fit(x),
    "score_samples": lambda x: fitted().score_samples(x),
    "imputer": lambda x: sq.estimators.SquaredCircuitImputer(epochs=1).fit(x),
    "outlier": lambda x: sq.estimators.SquaredCircuitOutlier(epochs=1).fit(x),
}


@pytest.mark.parametrize("door", DOORS)
def test_an_array_with_masked_cells_is_refused_with_a_fix_wherever_data_enters(door):
    with pytest.raises(sq.DataError, match=r"masked array with masked entries\. Fix: "):
        DOORS[door](MASKED)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("door", DOORS)
def test_an_array_whose_mask_hides_nothing_is_data_like_any_other(door):
    DOORS[door](UNMASKED)


def test_what_the_error_proposes_keeps_the_gaps():
    table = sq.data.table(MASKED.astype(float).filled(np.nan))
    assert np.array_equal(table.missing, np.ma.getmaskarray(MASKED))
