"""The theorems of the paper on random circuits, with enumeration as the oracle."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

import oracle
import squircuit as sq
from oracle import small
from strategies import Shape, circuits, max_error

UNITARY = {
    "structured": Shape(),
    "not structured": Shape(structured=False, alternatives=(2,)),
    "Kronecker": Shape(kinds=("kronecker",), widths=(1, 2)),
    "Hadamard": Shape(kinds=("hadamard",)),
    "one unit": Shape(widths=(1,), roots=(1,)),
}


@pytest.mark.parametrize("name", UNITARY)
@given(data=st.data())
def test_thm2_unitary_circuits_are_normalised_and_orthogonal(name, data):
    circuit = data.draw(circuits(UNITARY[name]))
    assume(small(circuit))
    assert sq.is_unitary(circuit), sq.check(circuit)
    assert abs(oracle.partition(circuit) - 1) < 1e-10
    assert sq.is_orthogonal(circuit), sq.is_orthogonal(circuit)


@given(circuit=circuits(Shape(continuous=True), max_variables=2))
def test_thm2_holds_for_continuous_and_mixed_variables(circuit):
    assume(small(circuit, 20000))
    assert sq.is_unitary(circuit)
    assert abs(oracle.partition(circuit) - 1) < 1e-9


@pytest.mark.parametrize("name", UNITARY)
@given(data=st.data())
def test_thm3_every_marginal_of_a_unitary_circuit_is_the_sum_over_what_is_left_out(name, data):
    circuit = data.draw(circuits(UNITARY[name]))
    assume(small(circuit, 1024))
    assert sq.satisfies_u4(circuit)
    rows = oracle.some_rows(circuit)
    for over in oracle.subsets(circuit.scope):
        expected = oracle.marginal(circuit, rows, over)
        assert max_error(sq.inference.unitary.marginal(circuit, rows, over), expected) < 1e-10
        assert max_error(sq.marginal(circuit, rows, over), expected) < 1e-10


@given(circuit=circuits(Shape(continuous=True), max_variables=2))
def test_thm3_holds_for_continuous_and_mixed_variables(circuit):
    assume(small(circuit, 20000))
    rows = oracle.some_rows(circuit, 3)
    for over in oracle.subsets(circuit.scope):
        expected = oracle.marginal(circuit, rows, over)
        assert max_error(sq.inference.unitary.marginal(circuit, rows, over), expected) < 1e-8


@given(circuit=circuits(Shape(structured=False, alternatives=(1, 2))))
def test_thm1_orthogonal_circuits_have_their_partition_function_from_one_pass(circuit):
    """Any weights on orthogonal inputs: scale a unitary circuit so that Z is not 1."""
    assume(small(circuit))
    scaled = scale_rows(circuit)
    verdict = sq.is_orthogonal(scaled)
    assert verdict.holds is not None
    assume(verdict)
    assert sq.scalar.partition(scaled) == pytest.approx(oracle.partition(scaled), rel=1e-10)


def scale_rows(circuit: sq.Circuit) -> sq.Circuit:
    """Rows of all sum weights multiplied by positive numbers: orthogonality survives, Z = 1 does not."""
    generator = torch.Generator().manual_seed(7)
    scaled = {}
    for layer in circuit.sums:
        weight = circuit.value(layer.weight)
        scaled[circuit.parameter_name(layer.weight)] = weight * (
            0.5 + torch.rand(len(weight), 1, generator=generator, dtype=torch.float64)
        )
    return circuit.with_weights(scaled)


@given(circuit=circuits(Shape(unitary=False, share_inputs=True, alternatives=(1, 2, 3))))
def test_inner_products_of_layers_give_every_marginal_of_a_free_structured_circuit(circuit):
    assume(small(circuit))
    rows = oracle.some_rows(circuit)
    scale = max(oracle.partition(circuit), 1e-12)
    for over in oracle.subsets(circuit.scope):
        expected = oracle.marginal(circuit, rows, over)
        assert max_error(sq.marginal(circuit, rows, over), expected) < 1e-9 * max(scale, 1)


@given(circuit=circuits(Shape(unitary=False, share_inputs=True, structured=False, continuous=True)))
def test_evaluation_follows_the_definition(circuit):
    rows = oracle.some_rows(circuit, 8)
    assert max_error(sq.evaluate(circuit, rows), oracle.amplitudes(circuit, rows)) < 1e-9


@given(circuit=circuits(Shape(unitary=False, share_inputs=True, structured=False)))
def test_integration_of_a_smooth_decomposable_circuit_is_the_sum_over_its_values(circuit):
    assume(small(circuit))
    rows = oracle.some_rows(circuit, 3)
    for over in oracle.subsets(circuit.scope):
        points, weights = oracle.assignments(circuit, over)
        expected = []
        for row in rows:
            filled = np.tile(row, (len(points), 1))
            filled[:, sorted(over)] = points[:, sorted(over)]
            expected.append(weights @ oracle.amplitudes(circuit, filled))
        assert max_error(sq.integrate(circuit, rows, over), np.array(expected)) < 1e-9
