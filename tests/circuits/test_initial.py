"""Initial weights: each scheme has the distribution that it promises, and each weight its scheme."""

import math

import pytest
import torch

import squircuit as sq
from squircuit.circuits.initial import around_half, haar, positive, scaled_gaussian, schemes


def drawn(scheme, dtype, shape=(200, 300)):
    value = scheme(torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=dtype))
    return torch.view_as_real(value) if value.is_complex() else value


KINDS = pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])


@KINDS
@pytest.mark.parametrize("shape", [(3, 3), (3, 5), (3, 40)])
def test_haar_has_orthonormal_rows(dtype, shape):
    weight = haar(torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=dtype))
    torch.testing.assert_close(weight @ weight.mH, torch.eye(3, dtype=dtype), rtol=0, atol=1e-12)


@KINDS
def test_gaussian_rows_have_length_1_on_average(dtype):
    squares = drawn(scaled_gaussian, dtype).square()
    assert squares.sum().item() / 200 == pytest.approx(1, abs=0.02)


@KINDS
def test_positive_parts_are_the_absolute_values_of_gaussian_ones(dtype):
    torch.testing.assert_close(drawn(positive, dtype), drawn(scaled_gaussian, dtype).abs(), rtol=0, atol=0)


@KINDS
def test_around_half_has_the_mean_and_the_variance_of_uniform_numbers(dtype):
    parts = drawn(around_half, dtype)
    assert parts.mean().item() == pytest.approx(1 / 2, abs=0.01)
    assert parts.var().item() == pytest.approx(1 / 12, abs=0.002)


def test_free_weights_of_states_are_around_half_and_those_of_inner_sums_positive():
    circuit = sq.build(sq.regions.balanced_tree(4), sq.Categorical(3), units=2, unitary=False)
    found = schemes(circuit)
    root = circuit.roots[0]
    assert {found[layer.weight] for layer in circuit.inputs} == {around_half}
    assert {found[layer.weight] for layer in circuit.sums if layer is not root} == {positive}
    assert root.weight not in found
    of_root = circuit.initialise(seed=0).value(root.weight)
    assert torch.view_as_real(of_root).min() < 0


def test_semi_unitary_weights_have_no_scheme_of_their_own():
    assert schemes(sq.build(sq.regions.balanced_tree(4), sq.Categorical(3), units=2)) == {}


def test_weights_of_continuous_inputs_are_gaussian():
    circuit = sq.build(sq.regions.linear(2), sq.Legendre(40), units=30, unitary=False)
    assert all(layer.weight not in schemes(circuit) for layer in circuit.inputs)
    value = circuit.initialise(seed=0).value(circuit.inputs[0].weight)
    assert abs(torch.view_as_real(value).mean().item()) < 1 / math.sqrt(40 * 30)
