"""log_prob with missing entries against enumeration, for every class of models."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from query_laws import KINDS, close, log_marginals, models, random_mask


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
@settings(max_examples=40)
def test_a_marginal_is_the_sum_over_what_is_missing_in_each_row(name, data):
    circuit, model = data.draw(models(name))
    rows = oracle.some_rows(circuit, 5)
    masks = random_mask(circuit, 5, data.draw(st.integers(0, 99)))
    with torch.no_grad():
        assert close(model.log_prob(rows, missing=masks), log_marginals(circuit, rows, masks))
        one = np.tile(masks[0], (5, 1))
        assert close(model.log_prob(rows, missing=masks[0]), log_marginals(circuit, rows, one))
