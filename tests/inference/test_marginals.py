"""Single-variable marginals, moments and expectations against enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import squircuit as sq
from query_laws import DISCRETE, KINDS, lacking, models, random_mask
from squircuit.families.quadrature import gauss_legendre


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


FAMILIES = (
    sq.Legendre(5, -1.0, 2.0),
    sq.Fourier(5, period=4.0),
    sq.Hermite(4),
    sq.Bins(edges=(0.0, 0.5, 0.8, 2.0)),
    sq.BSpline(5, 0.0, 1.0),
    sq.Laguerre(3),
    sq.Gaussian(2, loc=(-8.0, 8.0), scale=(0.05, 3.0)),
)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: type(family).__name__)
def test_quantiles_of_continuous_variables_are_where_the_integral_of_the_density_reaches_the_level(family):
    """Given a state of another variable; integrals by a fine rule over the units of Definition 1."""
    free = sq.Constraint.FREE
    column = sq.Input(0, family, weight=sq.Parameter((2, family.size), free))
    state = sq.Input(1, sq.Categorical(3), weight=sq.Parameter((2, 3), free))
    circuit = sq.Circuit(sq.Sum(sq.Hadamard([column, state]), units=1)).initialise(seed=2)
    model = sq.SquaredCircuit(circuit, dtype=torch.complex128).eval()
    rows = torch.tensor([[0.0, 2.0], [0.5, 1.0], [0.5, 0.0]], dtype=torch.float64)
    levels = [0.01, 0.3, 0.5, 0.95]
    found = model.marginals(rows, missing=torch.tensor([[True, False], [False, False], [True, True]]))
    quantiles = found.quantiles(0, levels)
    assert quantiles[1].isnan().all()
    ends = zip(circuit.domains[0].bounds, found.nodes[0][[0, -1]].tolist(), strict=True)
    low, high = (node if math.isinf(bound) else bound for bound, node in ends)
    for row, states in ((0, [2.0]), (2, [0.0, 1.0, 2.0])):
        for level, end in zip(levels, quantiles[row].tolist(), strict=True):
            jumps = [place for place in (-9.0, -8.0, -7.0, 0.5, 0.8) if low < place < high]
            below = integral(model, [low, *(place for place in jumps if place < end), end], states)
            above = integral(model, [end, *(place for place in jumps if place > end), high], states)
            assert below / (below + above) == pytest.approx(level, abs=1e-10)


def integral(model, ends, states):
    """∫ p(x, s) dx between some points, summed over states s of the second variable."""
    panels = torch.cat(
        [torch.linspace(a, b, 200, dtype=torch.float64)[:-1] for a, b in itertools.pairwise(ends)]
    )
    x, w = gauss_legendre(torch.cat([panels, torch.tensor(ends[-1:], dtype=torch.float64)]), 6)
    rows = np.stack([np.tile(x.numpy(), len(states)), np.repeat(states, len(x))], axis=1)
    return float(oracle.density(model.circuit(), rows) @ np.tile(w.numpy(), len(states)))


def test_probabilities_of_single_precision_are_right_where_nearly_all_terms_cancel():
    units = sq.Parameter((2, 3), "free", False, value=torch.tensor([[1.0, 1.0, 1.0], [1.0, 1.001, 0.998]]))
    sums = sq.Parameter((1, 2), "free", False, value=torch.tensor([[1.0, -1.0]]))
    other = sq.Input(1, sq.Categorical(2), weight=sq.Parameter((2, 2), "free", False, value=torch.ones(2, 2)))
    product = sq.Hadamard([sq.Input(0, sq.Categorical(3), weight=units), other])
    model = sq.SquaredCircuit(sq.Circuit(sq.Sum(product, weight=sums)), dtype=torch.float32).eval()
    expected = [0.0, 0.2, 0.8]  # squares of the differences 0, −0.001 and 0.002
    rows = [[0.0, 0.0]] * 6
    for count in (1, 6):
        missing = [[True, bool(row % 2)] for row in range(count)]
        found = model.marginals(rows[:count], missing).values[0]
        assert found.dtype == torch.float32
        assert torch.allclose(found, torch.tensor([expected] * count), atol=1e-3)
