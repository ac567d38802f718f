"""Single-variable marginals, moments and expectations against enumeration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import squircuit as sq
from query_laws import DISCRETE, KINDS, lacking, models, random_mask


def fine(circuit, variable):
    """Points and weights that integrate x p(x), too: on an interval the oracle's rule is for periodic p."""
    domain = circuit.domains[variable]
    if not isinstance(domain, sq.families.Interval):
        return oracle.nodes(circuit, variable)
    x, w = np.polynomial.legendre.leggauss(40)
    return domain.anchor + x * (domain.high - domain.low) / 2, w * (domain.high - domain.low) / 2


def tables(circuit, row, mask, variable):
    """p(x_v | observed) at the oracle's nodes of v, by enumeration of all else; None if p(observed) is 0."""
    points, weights = fine(circuit, variable)
    filled = np.tile(row, (len(points), 1))
    filled[:, variable] = points
    joint = oracle.marginal(circuit, filled, lacking(circuit, mask) - {variable})
    total = joint @ weights
    return (points, weights, joint / total) if total > 1e-12 else None


def positive(circuit, rows, masks):
    return [
        i
        for i in range(len(rows))
        if oracle.marginal(circuit, rows[i : i + 1], lacking(circuit, masks[i]))[0] > 1e-6
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
@settings(max_examples=25)
def test_marginals_are_the_enumerated_tables_for_every_missing_variable(name, data):
    circuit, model = data.draw(models(name))
    rows = oracle.some_rows(circuit, 4)
    masks = random_mask(circuit, 4, data.draw(st.integers(0, 99)))
    keep = positive(circuit, rows, masks)
    rows, masks = rows[keep], masks[keep]
    grid = {
        v: fine(circuit, v)[0]
        for v in circuit.scope
        if masks[:, v].any() and not circuit.domains[v].is_discrete
    }
    found = model.marginals(given=rows, missing=masks, grid=grid)
    for i in range(len(rows)):
        for v in lacking(circuit, masks[i]):
            points, weights, expected = tables(circuit, rows[i], masks[i], v)
            assert np.allclose(found.points[v], points)
            assert np.allclose(found.values[v][i], expected, atol=1e-7)
            mean = expected * weights @ points
            assert found.mean[i, v].item() == pytest.approx(mean, abs=1e-6)
            assert found.variance[i, v].item() == pytest.approx(
                expected * weights @ (points - mean) ** 2, abs=1e-5
            )


@pytest.mark.parametrize("name", DISCRETE)
@given(data=st.data())
@settings(max_examples=20)
def test_moments_and_expectations_of_products_are_the_enumerated_ones(name, data):
    circuit, model = data.draw(models(name))
    count = 2 if sq.is_structured_decomposable(circuit) else 1
    functions = {v: (lambda x, v=v: x**2 - v + 0.5) for v in sorted(circuit.scope)[:count]}
    rows, weights = oracle.assignments(circuit, circuit.scope)
    p = oracle.density(circuit, rows) * weights
    p = p / p.sum()
    for k, found in enumerate(model.moments(3), start=1):
        assert np.allclose(found[0, sorted(circuit.scope)], (p @ rows**k)[sorted(circuit.scope)], atol=1e-7)
    product = math.prod(f(rows[:, v]) for v, f in functions.items())
    assert model.expectation(functions).item() == pytest.approx(p @ product, abs=1e-7)
