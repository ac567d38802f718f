"""Circuits whose input functions are of several variables at once: the laws hold as for any other."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import squircuit as sq
from squircuit.circuits import Circuit
from squircuit.reference.inner_product import root_norms
from tests import oracle
from tests.strategies import block_circuits

SOME = settings(max_examples=25, deadline=None)


@given(block_circuits())
@SOME
def test_evaluation_follows_the_definition(circuit):
    rows = oracle.some_rows(circuit)
    expected = oracle.amplitudes(circuit, rows)
    np.testing.assert_allclose(sq.evaluate(circuit, rows).numpy(), expected, rtol=1e-9, atol=1e-12)


@given(block_circuits())
@SOME
def test_the_partition_function_is_the_integral_of_the_density(circuit):
    z = oracle.partition(circuit)
    assert sq.partition(circuit) == pytest.approx(z, rel=1e-7)
    model = sq.SquaredCircuit(circuit, dtype=torch.complex128)
    assert model.log_partition().exp().item() == pytest.approx(z, rel=1e-7)
    if circuit.inputs[0].family.is_orthonormal:
        assert model.is_unitary
        assert sq.is_unitary(circuit)
        assert z == pytest.approx(1, rel=1e-7)


@given(block_circuits(), st.sampled_from((torch.complex64, torch.complex128)))
@SOME
def test_log_prob_of_complete_rows_is_the_log_of_the_normalised_density(circuit, dtype):
    rows = oracle.some_rows(circuit)
    expected = np.log(oracle.density(circuit, rows)) - np.log(oracle.partition(circuit))
    model = sq.SquaredCircuit(circuit, dtype=dtype)
    tolerance = 1e-7 if dtype == torch.complex128 else 1e-3
    found = model.log_prob(torch.from_numpy(rows)).detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@given(block_circuits(), st.data())
@settings(max_examples=40, deadline=None)
def test_marginals_also_over_a_part_of_a_block_are_integrals_over_what_is_left_out(circuit, data):
    over = data.draw(st.sampled_from(oracle.subsets(circuit.scope)))
    rows = oracle.some_rows(circuit, count=2)
    expected = oracle.marginal(circuit, rows, over)
    found = root_norms(circuit, rows, over) @ circuit.root_shares
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-7, atol=1e-12)


@given(block_circuits(("mixture", "product")), st.data())
@SOME
def test_integrals_of_the_circuit_itself_also_over_a_part_of_a_block_agree_with_quadrature(circuit, data):
    over = data.draw(st.sampled_from(oracle.subsets(circuit.scope)))
    row = oracle.some_rows(circuit, count=1)
    points, weights = oracle.assignments(circuit, over)
    filled = np.tile(row, (len(points), 1))
    filled[:, sorted(over)] = points[:, sorted(over)]
    expected = weights @ oracle.amplitudes(circuit, filled)
    found = sq.integrate(circuit, row, over)[0].numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)  # tails of √p end beyond the grid


@given(block_circuits())
@SOME
def test_transforms_keep_the_function_or_say_why_not(circuit):
    rows = oracle.some_rows(circuit)
    values = oracle.amplitudes(circuit, rows)
    np.testing.assert_allclose(sq.evaluate(sq.unroll(circuit), rows).numpy(), values, rtol=1e-9, atol=1e-12)
    conjugate = sq.evaluate(sq.conjugate(circuit), rows).numpy()
    np.testing.assert_allclose(conjugate, values.conj(), rtol=1e-9, atol=1e-12)
    with pytest.raises(sq.StructureError, match=r"several variables are no family.*Fix"):
        sq.square(circuit)
    if circuit.inputs[0].family.is_orthonormal:
        made = sq.unitarise(circuit).circuit
        assert sq.is_unitary(made)
        np.testing.assert_allclose(oracle.density(made, rows), oracle.density(circuit, rows), rtol=1e-6)
    else:
        with pytest.raises(sq.StructureError, match="not orthonormal"):
            sq.unitarise(circuit)


@given(block_circuits())
@SOME
def test_json_brings_back_the_same_circuit(circuit):
    again = Circuit.from_json(circuit.to_json(weights=True))
    rows = oracle.some_rows(circuit)
    assert torch.equal(sq.evaluate(again, rows), sq.evaluate(circuit, rows))
    assert [layer.variables for layer in again.inputs] == [layer.variables for layer in circuit.inputs]


@given(block_circuits())
@settings(max_examples=10, deadline=None)
def test_derivatives_of_the_log_likelihood_are_right(circuit):
    model = sq.SquaredCircuit(circuit, dtype=torch.complex128)
    x = torch.from_numpy(oracle.some_rows(circuit, count=3))
    parameters = [p for p in model.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(model.log_prob(x).sum(), parameters, allow_unused=True)
    step = 1e-6
    for parameter, gradient in zip(parameters, gradients, strict=True):
        if model.is_unitary and parameter.constraint == "semi-unitary":
            continue  # off the manifold Z is another
        direction = torch.randn_like(parameter)
        with torch.no_grad():
            parameter += step * direction
            above = model.log_prob(x).sum()
            parameter -= 2 * step * direction
            below = model.log_prob(x).sum()
            parameter += step * direction
        slope = 0.0 if gradient is None else (gradient.conj() * direction).real.sum().item()
        assert ((above - below) / (2 * step)).item() == pytest.approx(slope, rel=1e-4, abs=1e-4)


def test_rows_far_from_all_components_have_exact_log_densities_in_single_precision_too():
    family = sq.MultivariateGaussian(2, 2)
    values = family.values_of(
        [[0.0, 0.0], [50.0, 0.0]], [[[1.0, 0.5], [0.5, 1.0]], [[0.01, 0.0], [0.0, 9.0]]]
    )
    table = torch.tensor([[1.0, 0.0], [0.0, 1.0]])  # one component a category
    layers = [sq.Input((0, 2), family, parameters=values), sq.Input(1, sq.Categorical(2), weight=table)]
    model = sq.SquaredCircuit(sq.Circuit(sq.Hadamard(layers)))
    x = torch.tensor([[50.0, 0.0, 0.0], [0.0, 1.0, 0.0]], dtype=torch.float64)  # the category of the other
    normal = torch.distributions.MultivariateNormal
    expected = [
        normal(torch.zeros(2), torch.tensor([[1.0, 0.5], [0.5, 1.0]])).log_prob(torch.tensor([50.0, 0.0])),
        normal(torch.tensor([50.0, 0.0]), torch.diag(torch.tensor([0.01, 9.0]))).log_prob(torch.zeros(2)),
    ]
    found = model.log_prob(x) - torch.log(torch.tensor(0.5))
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-5, atol=0)


@given(block_circuits(), st.data())
@SOME
def test_every_property_has_a_verdict_for_all_sets_of_variables(circuit, data):
    verdicts = list(sq.check(circuit))
    assert all(verdict.holds in (True, False, None) for verdict in verdicts)
    over = data.draw(st.sampled_from(oracle.subsets(circuit.scope)[1:]))
    for test in (sq.is_orthogonal, sq.is_regular_orthogonal, sq.is_basis_decomposable):
        assert test(circuit, over).holds in (True, False, None)
    if sq.is_orthogonal(circuit).holds is True:  # then Z is the sum of the squares of the weights' terms
        z = oracle.partition(circuit)
        assert sq.scalar.partition(sq.unroll(circuit)) == pytest.approx(z, rel=1e-6)


def test_blocks_that_overlap_are_not_decided_and_not_integrated():
    first = sq.Input((0, 1), sq.MultivariateGaussian(2, 2))
    second = sq.Input((1, 2), sq.MultivariateGaussian(2, 2))
    x0, x2 = (sq.Input(v, sq.Hermite(2)) for v in (0, 2))
    circuit = Circuit(sq.Sum([sq.Hadamard([first, x2]), sq.Hadamard([x0, second])])).initialise(seed=0)
    assert sq.is_smooth(circuit)
    assert sq.is_decomposable(circuit)
    assert sq.is_structured_decomposable(circuit).holds is False
    assert sq.is_unitary(circuit).holds is not True
    declared = circuit.declared()
    assert sq.satisfies_u1(declared).holds is None
    with pytest.raises(sq.StructureError, match="split"):
        sq.partition(circuit)


def test_a_sum_of_a_block_and_of_a_product_over_the_same_variables_is_not_structured():
    block = sq.Input((0, 1), sq.MultivariateGaussian(2, 2))
    product = sq.Hadamard([sq.Input(0, sq.Hermite(2)), sq.Input(1, sq.Hermite(2))])
    circuit = Circuit(sq.Sum([block, product])).initialise(seed=0)
    assert sq.is_structured_decomposable(circuit).holds is False
    with pytest.raises(sq.StructureError, match="split"):
        sq.partition(circuit)


def test_two_orders_of_one_block_are_refused_with_the_fix():
    layers = [sq.Input(order, sq.MultivariateGaussian(2, 2)) for order in ((0, 1), (1, 0))]
    circuit = Circuit(sq.Sum(layers)).initialise(seed=0)
    with pytest.raises(sq.StructureError, match="one order"):
        sq.partition(circuit)


def test_properties_of_blocks_whose_inner_products_have_no_closed_form_are_not_decided():
    squeeze = sq.Monotone((0.0, 1.0), (0.0, 2.0), (2.0, 2.0))
    gaussian = sq.MultivariateGaussian.of([[0.0, 0.5]], [[[1.0, 0.2], [0.2, 1.0]]])
    mapped = sq.MultivariateGaussian.of([[0.0, 0.5]], [[[1.0, 0.2], [0.2, 1.0]]], columns=(squeeze, None))
    pairs = [
        [sq.Input((0,), sq.MultivariateGaussian(1, 1)), sq.Input(0, sq.Hermite(2))],
        [sq.Input((0, 1), gaussian), sq.Input((1, 0), gaussian)],
        [sq.Input((0, 1), gaussian), sq.Input((0, 1), mapped)],
    ]
    for layers in pairs:
        verdicts = {
            verdict.name: verdict for verdict in sq.check(Circuit(sq.Sum(layers, 1)).initialise(seed=0))
        }
        assert verdicts["U1"].holds is not True
        assert verdicts["regular orthogonal"].holds is None
        assert "no closed form" in verdicts["regular orthogonal"].reason


def test_marginals_over_a_part_of_one_family_at_two_places_are_integrals_over_what_is_left_out():
    family = sq.MultivariateGaussian.of([[0.0, 1.0]], [[[1.0, 0.4], [0.4, 2.0]]], learnable=True)
    moved = {"loc": torch.tensor([[-1.0, 0.5]], dtype=torch.float64)}
    layers = [sq.Input((0, 1), family, 1), sq.Input((0, 1), family, 1, parameters=moved)]
    circuit = Circuit(sq.Sum(layers, weight=torch.tensor([[1.0, -0.7]]))).initialise(seed=0)
    rows = np.array([[0.3, -1.0]])
    for over in ({0}, {1}, {0, 1}):
        found = root_norms(circuit, rows, over) @ circuit.root_shares
        np.testing.assert_allclose(found.numpy(), oracle.marginal(circuit, rows, over), rtol=1e-7)


def test_no_rows_have_no_densities_and_no_marginals():
    circuit = Circuit(sq.Sum(sq.Input((1, 0), sq.MultivariateGaussian(2, 2), 2), 1)).initialise(seed=0)
    model = sq.SquaredCircuit(circuit)
    none = torch.zeros(0, 2)
    assert model.log_prob(none).shape == (0,)
    assert model.log_prob(none, torch.zeros(0, 2, dtype=torch.bool)).shape == (0,)


@pytest.mark.parametrize("first", [0, 1])
def test_a_block_of_one_variable_and_other_functions_of_it_are_mixed_under_several_roots(first):
    gaussian = sq.MultivariateGaussian.of([[0.5], [1.5]], [[[1.0]], [[0.6]]])
    states = sq.Input(1, sq.Categorical(2), weight=torch.tensor([[0.6, 0.8], [1.0, 0.0]]))
    roots = [
        sq.Hadamard([sq.Input((0,), gaussian), states]),
        sq.Hadamard([sq.Input(0, sq.Hermite(2, learnable=True)), states]),
    ]
    circuit = Circuit(roots[::-1] if first else roots)
    rows = np.array([[0.3, 1.0], [7.0, 0.0]])
    model = sq.SquaredCircuit(circuit, dtype=torch.complex128)
    expected = oracle.marginal(circuit, rows, {1}) / oracle.partition(circuit)
    found = model.log_prob(torch.from_numpy(rows), torch.tensor([False, True])).exp().detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-7)


def test_the_algorithm_for_unitary_circuits_integrates_over_a_part_of_a_block():
    base = sq.MultivariateGaussian.of([[0.0, 1.0], [2.0, -1.0]], [[1.0, 0.4], [0.4, 2.0]], "tied")
    block = sq.Input((0, 1), sq.OrthonormalisedBlock(base), 2)
    circuit = Circuit(sq.Sum(sq.Kronecker([block, sq.Input(2, sq.Hermite(2), 2)]), 1)).initialise(seed=0)
    rows = np.array([[0.3, -1.0, 0.5]])
    for over in ({0}, {1, 2}, {0, 1}):
        found = sq.inference.unitary.marginal(circuit, rows, over)
        np.testing.assert_allclose(found.numpy(), oracle.marginal(circuit, rows, over), rtol=1e-7)


def test_mixtures_of_blocks_that_are_not_normalised_have_the_mean_density_of_their_members():
    family = sq.MultivariateGaussian.of([[0.0, 1.0], [2.0, 1.0]], [[0.6, 1.0], [1.2, 1.2]], "diagonal")
    block = sq.Input((0, 2), family, weight=torch.tensor([[1.0, 2.0]]))
    single = sq.Input(1, sq.Hermite(1), weight=torch.tensor([[3.0]]))
    members = [
        sq.SquaredCircuit(Circuit(sq.Hadamard([block, single])), dtype=torch.float64).eval(),
        sq.SquaredCircuit(
            Circuit(sq.Hadamard([sq.Input((0, 2), family, 1), single])).initialise(seed=1)
        ).eval(),
    ]
    x = torch.tensor([[0.3, 0.1, -1.0], [1.0, 0.0, 2.0]], dtype=torch.float64)
    mean = sum(member.log_prob(x).exp() for member in members) / 2
    torch.testing.assert_close(sq.mixture(members).log_prob(x).exp(), mean, rtol=1e-5, atol=0)


def test_the_marginal_of_a_unitary_circuit_refuses_parts_of_blocks_below_a_sum_of_several_inputs():
    """Functions of a block are orthogonal over all of it; a part that is integrated leaves cross terms."""
    gaussians = sq.MultivariateGaussian.of([[0.0, 0.0], [1.0, 2.0]], [[1.0, 1.0], [1.0, 2.0]], "diagonal")
    family = sq.OrthonormalisedBlock(gaussians)
    inputs = [
        sq.Input((0, 1), family, 1, sq.Parameter((1, 2), value=torch.tensor([row])))
        for row in ([-0.8, 0.6], [0.6, 0.8])
    ]
    circuit = sq.Circuit(sq.Sum(inputs, 1)).initialise(seed=0)
    x = torch.zeros(1, 2, dtype=torch.float64)
    with pytest.raises(sq.StructureError, match="not orthogonal over what is integrated at sum"):
        sq.inference.unitary.marginal(circuit, x, over=[1])
    assert sq.inference.unitary.marginal(circuit, x, over=[0, 1]).item() == pytest.approx(1)
