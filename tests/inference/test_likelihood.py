"""log_prob with missing entries against enumeration, for every class of models."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import squircuit as sq
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


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
@settings(max_examples=15)
def test_in_single_precision_a_marginal_is_the_enumerated_one_up_to_rounding(name, data):
    circuit, model = data.draw(models(name, dtype=torch.complex64))
    rows = oracle.some_rows(circuit, 4)
    masks = random_mask(circuit, 4, data.draw(st.integers(0, 99)))
    with torch.no_grad():
        found = model.log_prob(rows, missing=masks).double().exp()
    expected = np.exp(log_marginals(circuit, rows, masks))
    assert np.allclose(found, expected, rtol=1e-3, atol=1e-4 * max(1.0, expected.max()))


def test_input_layers_of_different_families_over_one_variable_interfere_and_are_integrated_together():
    families = [sq.Legendre(2, -1.0, 1.0), sq.Fourier(3, period=2.0, learnable=True)]
    inputs = [
        [sq.Input(v, f, 2, weight=sq.Parameter((2, f.size), "free")) for f in families] for v in range(2)
    ]
    products = [sq.Kronecker([inputs[0][i], inputs[1][i]]) for i in range(2)]
    root = sq.Sum(products, weight=sq.Parameter((1, 8), "free"))
    circuit = sq.Circuit(root).initialise(seed=0)
    model = sq.SquaredCircuit(circuit, dtype=torch.complex128)
    nodes, weights = np.polynomial.legendre.leggauss(40)
    grid = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 2)
    joint = oracle.density(circuit, grid).reshape(40, 40)
    total = weights @ joint @ weights
    found = model.log_prob(grid[::40], missing=[False, True])
    assert close(found.detach(), np.log(joint @ weights / total))
    assert model.mean()[0, 0].item() == pytest.approx((weights * nodes) @ joint @ weights / total)
    found.sum().backward()
    assert model.fourier_shift.grad.abs().max() > 0


def test_gradients_of_marginals_pass_through_what_is_exactly_zero():
    """A branch that is 0 has a gradient where another is added to it, as finite differences show."""

    def held(*rows):
        value = torch.tensor(rows, dtype=torch.float64)
        return sq.Parameter(tuple(value.shape), "semi-unitary", False, value=value)

    family = sq.Categorical(2)
    weights = [held([1.0, 0.0], [0.0, 1.0]), held([0.6, 0.8], [-0.8, 0.6])]
    products = [sq.Hadamard([sq.Input(v, family, 1, weights[v], row) for v in (0, 1)]) for row in (0, 1)]
    both = sq.Sum(products, weight=held([0.6, 0.8]))  # the second product is 0 at state 0 of variable 0
    circuit = sq.Circuit(sq.Hadamard([both, sq.Input(2, family, weight=held([0.8, -0.6]))]))
    model = sq.SquaredCircuit(circuit, dtype=torch.float64).eval()
    assert model.is_normalised()

    def log_p(entry):
        changed = torch.tensor([[1.0, 0.0], [entry, 1.0]], dtype=torch.float64)
        moved = model.circuit().with_weights({**model.circuit().weights, name: changed})
        squares = sq.evaluate(moved, torch.tensor([[0, 0, 0], [0, 0, 1]])).abs().square()
        return squares.sum().log().item()

    (name,) = [n for n, p in circuit.parameters.items() if p is weights[0]]
    expected = (log_p(1e-6) - log_p(-1e-6)) / 2e-6
    model.log_prob([[0, 0, 0]], missing=[False, False, True]).sum().backward()
    stack, place = model._places[name]
    assert abs(expected) > 0.5
    assert getattr(model, stack).grad[place][1, 0].item() == pytest.approx(expected, abs=1e-6)
