"""Conjugate, multiply, square and unitarise against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

import oracle
import squircuit as sq
from oracle import small
from squircuit.families import Categorical, Fourier, Legendre
from strategies import Growth, Shape, circuits, instantiate, max_error

FREE = Shape(unitary=False, share_inputs=True, alternatives=(1, 2, 3))


@given(circuit=circuits(Shape(unitary=False, structured=False, share_inputs=True, continuous=True)))
def test_the_conjugate_has_conjugate_values_and_the_same_structure(circuit):
    rows = oracle.some_rows(circuit)
    other = sq.conjugate(circuit)
    assert max_error(sq.evaluate(other, rows), oracle.amplitudes(circuit, rows).conj()) < 1e-10
    assert list(other.parameters) == list(circuit.parameters)
    assert [layer.kind for layer in other.layers] == [layer.kind for layer in circuit.layers]


@st.composite
def compatible_pairs(draw, families=None):
    """Two circuits over the same variables whose products split scopes alike; kinds and widths differ."""
    d = draw(st.integers(1, 4))
    first = Growth(FREE, draw)
    second = Growth(FREE, draw, splits=first.splits)
    made = []
    for growth in (first, second):
        root = growth.region(tuple(range(d)), draw(st.sampled_from((1, 1, 2))))
        chosen = {v: (families or (Categorical(2), Categorical(1 + d % 4)))[v % 2] for v in range(d)}
        circuit = instantiate(growth, root, draw(st.booleans()), chosen)
        made.append(circuit.initialise(seed=draw(st.integers(0, 2**31))))
    return made


@given(pair=compatible_pairs())
def test_multiplication_is_the_pointwise_product_for_sums_of_several_inputs_and_mixed_products(pair):
    a, b = pair
    rows, _ = oracle.assignments(a, a.scope)
    expected = np.einsum("nr,ns->nrs", oracle.amplitudes(a, rows), oracle.amplitudes(b, rows))
    product = sq.multiply(a, b)
    assert max_error(oracle.amplitudes(product, rows), expected.reshape(len(rows), -1)) < 1e-9 * scale(
        expected
    )
    assert sq.is_smooth(product)
    assert sq.is_decomposable(product)


@given(pair=compatible_pairs(families=(Fourier(3, period=2.0), Legendre(3, 0.0, 1.0))))
def test_multiplication_is_the_pointwise_product_for_continuous_variables(pair):
    a, b = pair
    rows = oracle.some_rows(a, 12)
    expected = np.einsum("nr,ns->nrs", oracle.amplitudes(a, rows), oracle.amplitudes(b, rows))
    product = sq.evaluate(sq.multiply(a, b), rows)
    assert max_error(product, expected.reshape(len(rows), -1)) < 1e-9 * scale(expected)


@given(pair=compatible_pairs(families=(Fourier(3, period=2.0), Legendre(3, 0.0, 1.0))))
def test_inner_products_of_two_circuits_agree_with_their_product_integrated(pair):
    a, b = pair
    direct = sq.inner_product(a, b).reshape(1, -1)
    integral = sq.integrate(sq.multiply(a, sq.conjugate(b)))
    assert max_error(direct, integral) < 1e-9 * scale(integral.numpy())


@given(pair=compatible_pairs())
def test_inner_products_of_two_circuits_are_sums_over_all_states(pair):
    a, b = pair
    rows, _ = oracle.assignments(a, a.scope)
    expected = np.einsum("nr,ns->rs", oracle.amplitudes(a, rows), oracle.amplitudes(b, rows).conj())
    assert max_error(sq.inner_product(a, b)[0], expected) < 1e-9 * scale(expected)


@given(first=circuits(FREE, max_variables=2), second=circuits(FREE, max_variables=2))
def test_circuits_over_disjoint_variables_multiply_to_a_product_distribution(first, second):
    moved = shifted(second, first.num_variables)
    product = sq.multiply(first, moved)
    rows = np.concatenate([oracle.some_rows(first, 5), oracle.some_rows(second, 5)], axis=1)
    left = oracle.amplitudes(first, rows[:, : first.num_variables])
    right = oracle.amplitudes(second, rows[:, first.num_variables :])
    expected = np.einsum("nr,ns->nrs", left, right).reshape(5, -1)
    assert max_error(sq.evaluate(product, rows), expected) < 1e-9 * scale(expected)


def shifted(circuit: sq.Circuit, by: int) -> sq.Circuit:
    """The same circuit over variables with larger numbers."""
    layers: dict = {}
    for layer in circuit.layers:
        match layer:
            case sq.Input():
                layers[layer] = sq.Input(
                    layer.variable + by, layer.family, layer.units, layer.weight, layer.first_row
                )
            case sq.Sum():
                layers[layer] = sq.Sum([layers[i] for i in layer.inputs], weight=layer.weight)
            case _:
                layers[layer] = type(layer)([layers[i] for i in layer.inputs])
    roots = [layers[root] for root in circuit.roots]
    return sq.Circuit(roots, root_weights=circuit.root_weights, weights=circuit.weights)


@given(circuit=circuits(FREE))
def test_the_square_has_the_density_as_value_and_z_as_integral(circuit):
    assume(small(circuit))
    squared = sq.square(circuit)
    rows, _ = oracle.assignments(circuit, circuit.scope)
    density = oracle.density(circuit, rows)
    assert max_error(sq.evaluate(squared, rows).flatten(), density) < 1e-9 * scale(density)
    z = sq.integrate(squared).item()
    assert z == pytest.approx(oracle.partition(circuit), rel=1e-9)
    assert sq.partition(circuit) == pytest.approx(z.real, rel=1e-9)


@pytest.mark.parametrize("structured", [True, False])
@given(data=st.data())
def test_unitarising_a_circuit_with_orthogonal_inputs_divides_it_by_the_square_root_of_z(structured, data):
    circuit = data.draw(circuits(Shape(free_sums=True, structured=structured, continuous=False)))
    assume(small(circuit))
    z = oracle.partition(circuit)
    unitarised = sq.unitarise(circuit)
    result, beta = unitarised.circuit, unitarised.beta
    assert sq.is_unitary(result), sq.check(result)
    assert beta == pytest.approx(z**-0.5, rel=1e-9)
    rows, _ = oracle.assignments(circuit, circuit.scope)
    assert max_error(oracle.density(result, rows), beta**2 * oracle.density(circuit, rows)) < 1e-10
    if circuit.num_roots == 1:
        assert max_error(oracle.amplitudes(result, rows), beta * oracle.amplitudes(circuit, rows)) < 1e-10


@given(circuit=circuits(Shape(free_sums=True, continuous=True), max_variables=2))
def test_unitarising_works_for_continuous_variables(circuit):
    assume(small(circuit, 20000))
    unitarised = sq.unitarise(circuit)
    result, beta = unitarised.circuit, unitarised.beta
    assert beta == pytest.approx(oracle.partition(circuit) ** -0.5, rel=1e-7)
    assert oracle.partition(result) == pytest.approx(1, rel=1e-7)


@given(
    circuit=circuits(
        Shape(unitary=False, share_inputs=True, structured=False, alternatives=(1, 2)), max_variables=3
    )
)
def test_unitarising_any_circuit_makes_all_weights_semi_unitary_and_scales_the_function(circuit):
    assume(circuit.num_roots == 1)
    assume(np.abs(oracle.amplitudes(circuit, oracle.some_rows(circuit))).max() > 1e-9)
    unitarised = sq.unitarise(circuit)
    result, beta = unitarised.circuit, unitarised.beta
    assert sq.satisfies_u3(result)
    rows = oracle.some_rows(circuit, 10)
    expected = beta * oracle.amplitudes(circuit, rows)
    assert max_error(oracle.amplitudes(result, rows), expected) < 1e-9
    assert beta > 0


def scale(values) -> float:
    return max(1.0, float(np.abs(np.asarray(values)).max()))


def test_unitarising_keeps_real_circuits_real_and_declares_orthogonal_blocks():
    circuit = sq.build(sq.regions.random_tree(3, seed=1, repetitions=2), Categorical(6), 2, is_complex=False)
    weights = {
        n: 3 * v + 0.1 if n.startswith("region") else v for n, v in circuit.initialise(seed=0).weights.items()
    }
    result = sq.unitarise(circuit, weights).circuit
    assert all(not p.is_complex for p in result.parameters.values())
    assert sq.is_unitary(sq.Circuit.from_json(result.to_json()))  # declared, without the values


def test_unitarising_input_weights_of_low_rank_keeps_layers_over_one_variable_orthogonal():
    """Rows e1, e1 and e2, e3: a plain QR might complete the first by a vector of the second."""
    rows = torch.eye(4, dtype=torch.float64)
    a = sq.Input(0, Categorical(4), weight=rows[[0, 0]])
    b = sq.Input(0, Categorical(4), weight=rows[[1, 2]])
    circuit = sq.Circuit(sq.Sum([a, b], weight=torch.tensor([[1.0, 2.0, 3.0, 4.0]], dtype=torch.float64)))
    result = sq.unitarise(circuit)
    assert sq.is_unitary(result.circuit)
    assert result.beta == pytest.approx(oracle.partition(circuit) ** -0.5)


@pytest.mark.parametrize("factor", [1e3, 1e-3])
def test_unitarising_a_deep_circuit_stays_in_range_where_beta_does_not(factor):
    circuit = sq.build(sq.regions.linear(300), Categorical(2), 2).initialise(seed=0)
    scaled = {n: v * factor if n.startswith("region") else v for n, v in circuit.weights.items()}
    result = sq.unitarise(circuit.with_weights(scaled))
    assert sq.is_unitary(result.circuit)
    assert result.log_beta == pytest.approx(-len(circuit.sums) * np.log(factor))


def test_circuits_over_nested_scopes_multiply():
    """a splits {0,1}; b splits {0,1,2} into {0,1} {2}, and {0,1} as a does."""
    a = sq.build(sq.regions.linear(2), Categorical(2), 2).initialise(seed=0)
    b = sq.build(sq.regions.linear(3), Categorical(2), 2).initialise(seed=1)
    rows, _ = oracle.assignments(b, b.scope)
    expected = oracle.amplitudes(a, rows[:, :2]) * oracle.amplitudes(b, rows)
    for product in (sq.multiply(a, b), sq.multiply(b, a)):
        assert max_error(oracle.amplitudes(product, rows), expected) < 1e-12


def test_products_of_a_single_input_multiply_like_that_input():
    x = sq.Input(0, Categorical(3), units=2)
    plain, wrapped = (sq.Circuit(sq.Sum(layer)).initialise(seed=0) for layer in (x, sq.Hadamard([x])))
    rows = np.arange(3.0)[:, None]
    expected = oracle.amplitudes(plain, rows) ** 2
    for a, b in ((plain, wrapped), (wrapped, plain), (wrapped, wrapped)):
        assert max_error(oracle.amplitudes(sq.multiply(a, b), rows), expected) < 1e-12
