"""How the properties of the paper imply one another, on random circuits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

import oracle
import squircuit as sq
from oracle import small
from squircuit import scalar
from strategies import Shape, circuits, max_error


@st.composite
def scalar_circuits(draw, disjoint: bool, monotonic: bool = False, max_variables: int = 4):
    """Random decision-like scalar circuits: sums over products of input units and smaller circuits.

    Input functions over a variable are orthogonal: deltas (``disjoint`` supports), or on overlapping
    supports rows of a random orthogonal matrix.
    """
    seed = draw(st.integers(0, 2**31))
    random = np.random.default_rng(seed)
    states = draw(st.integers(2, 4))
    d = draw(st.integers(1, max_variables))
    tables = [np.eye(states) if disjoint else _orthogonal(random, states, monotonic) for _ in range(d)]
    family = sq.Categorical(states)
    inputs = [[scalar.input_unit(v, family, row) for row in tables[v]] for v in range(d)]

    def weight():
        return random.uniform(0.2, 2) if monotonic else complex(*random.normal(size=2))

    def grow(variables, pools):
        """A unit over ``variables`` that uses only the input units in ``pools``."""
        first, *rest = variables
        if not rest:
            chosen = pools[first]
            return scalar.sum_unit(chosen, [weight() for _ in chosen])
        parts = []
        for k, unit in enumerate(pools[first]):
            smaller = {
                v: [u for i, u in enumerate(pools[v]) if i % len(pools[first]) == k] or pools[v] for v in rest
            }
            parts.append(scalar.product_unit([unit, grow(draw(st.permutations(rest)), smaller)]))
        return scalar.sum_unit(parts, [weight() for _ in parts])

    pools = {v: inputs[v][: draw(st.integers(1, states))] for v in range(d)}
    return sq.Circuit(grow(draw(st.permutations(range(d))), pools))


def _orthogonal(random, states, monotonic):
    if monotonic:  # non-negative and orthogonal means disjoint supports: blocks of positive numbers
        table = np.zeros((2, states))
        table[0, : states // 2] = random.uniform(0.5, 2, states // 2)
        table[1, states // 2 :] = random.uniform(0.5, 2, states - states // 2)
        return table
    q, _ = np.linalg.qr(random.normal(size=(states, states)))
    return q


@given(circuit=scalar_circuits(disjoint=True))
def test_determinism_implies_orthogonality(circuit):
    assert sq.is_deterministic(circuit)
    assert sq.is_orthogonal(circuit)


@given(circuit=scalar_circuits(disjoint=False, monotonic=True))
def test_orthogonality_implies_determinism_for_monotonic_circuits(circuit):
    assert sq.is_orthogonal(circuit)
    assert sq.is_deterministic(circuit)


@given(
    circuit=circuits(
        Shape(unitary=False, share_inputs=True, widths=(1, 2), alternatives=(1, 2)), max_variables=3
    )
)
def test_determinism_and_orthogonality_agree_on_any_monotonic_circuit(circuit):
    assume(small(circuit, 512))
    generator = torch.Generator().manual_seed(0)
    monotonic = {
        n: v.abs() * (torch.rand(v.shape, generator=generator) < 0.5)
        for n, v in circuit.weights.items()
        if n != "roots"
    }
    circuit = circuit.with_weights(monotonic)
    assert sq.is_deterministic(circuit).holds == sq.is_orthogonal(circuit).holds


@given(circuit=scalar_circuits(disjoint=False))
def test_regular_orthogonality_implies_orthogonality_but_not_determinism(circuit):
    assert sq.is_basis_decomposable(circuit)
    assert sq.is_regular_orthogonal(circuit)
    assert sq.is_orthogonal(circuit)
    overlapping = any(len(layer.inputs) > 1 for layer in circuit.sums)
    assert bool(sq.is_deterministic(circuit)) == (not overlapping)


@given(circuit=scalar_circuits(disjoint=False))
def test_thm1_mar_ortho_dec_gives_every_marginal_over_which_the_circuit_is_orthogonal(circuit):
    rows = oracle.some_rows(circuit)
    for over in oracle.subsets(circuit.scope):
        if over and sq.is_orthogonal(circuit, over):
            expected = oracle.marginal(circuit, rows, over)
            assert max_error(scalar.marginal(circuit, rows, over), expected) < 1e-9 * max(1, expected.max())


@given(circuit=scalar_circuits(disjoint=False))
def test_regular_z_orthogonality_implies_z_orthogonality(circuit):
    for over in oracle.subsets(circuit.scope):
        if over and sq.is_regular_orthogonal(circuit, over):
            assert sq.is_orthogonal(circuit, over)


@given(circuit=scalar_circuits(disjoint=False))
def test_orthogonality_over_each_variable_implies_it_over_every_set_of_variables(circuit):
    assume(all(sq.is_orthogonal(circuit, [v]) for v in circuit.scope))
    rows = oracle.some_rows(circuit)
    for over in oracle.subsets(circuit.scope):
        if over:
            assert sq.is_orthogonal(circuit, over)
            expected = oracle.marginal(circuit, rows, over)
            assert max_error(scalar.marginal(circuit, rows, over), expected) < 1e-9 * max(1, expected.max())


@pytest.mark.parametrize("structured", [True, False])
@given(data=st.data())
def test_the_orthogonality_verdict_agrees_with_enumerated_inner_products(structured, data):
    shape = Shape(unitary=False, share_inputs=True, widths=(1, 2), alternatives=(1, 2), structured=structured)
    circuit = data.draw(circuits(shape))
    assume(small(circuit, 512))
    verdict = sq.is_orthogonal(circuit)
    assert verdict.holds == enumerated_orthogonality(circuit, circuit.scope)


@pytest.mark.parametrize("structured", [True, False])
@given(data=st.data())
def test_the_z_orthogonality_verdict_agrees_with_enumerated_inner_products(structured, data):
    circuit = data.draw(
        circuits(Shape(widths=(1, 2), alternatives=(1, 2), structured=structured), max_variables=3)
    )
    assume(small(circuit, 512))
    for over in oracle.subsets(circuit.scope):
        if over:
            assert sq.is_orthogonal(circuit, over).holds == enumerated_orthogonality(circuit, over)


def enumerated_orthogonality(circuit, over) -> bool:
    """Definition "Z-orthogonality", by brute force over all assignments."""
    for layer in circuit.sums:
        integrated = sorted(layer.scope & set(over))
        if not integrated:
            continue
        rest = sorted(layer.scope - set(over))
        points, weights = oracle.assignments(circuit, integrated)
        for y in oracle.assignments(circuit, rest)[0]:
            rows = np.tile(y, (len(points), 1))
            rows[:, integrated] = points[:, integrated]
            if not _orthogonal_inputs(circuit, layer, rows, weights):
                return False
    return True


def _orthogonal_inputs(circuit, layer, rows, weights) -> bool:
    known: dict = {}
    values = [u for item in layer.inputs for u in oracle.units(circuit, item, rows, known)]
    matrix = circuit.value(layer.weight).numpy()
    norms = [np.sqrt(weights @ np.abs(v) ** 2) for v in values]
    for row in matrix:
        for i, j in itertools.combinations(np.nonzero(row)[0], 2):
            overlap = abs(weights @ (values[i] * np.conj(values[j])))
            if overlap > 1e-7 * norms[i] * norms[j] and norms[i] * norms[j] > 1e-20:
                return False
    return True


@given(circuit=circuits(Shape(unitary=False, share_inputs=True, widths=(1, 2), alternatives=(1, 2))))
def test_the_determinism_verdict_agrees_with_enumerated_supports(circuit):
    assume(small(circuit, 512))
    generator = torch.Generator().manual_seed(0)
    sparse = {
        n: v * (torch.rand(v.shape, generator=generator) < 0.4)
        for n, v in circuit.weights.items()
        if n != "roots"
    }
    circuit = circuit.with_weights(sparse)  # zeros, so that some are deterministic
    assert sq.is_deterministic(circuit).holds == enumerated_determinism(circuit)


def enumerated_determinism(circuit) -> bool:
    rows, _ = oracle.assignments(circuit, circuit.scope)
    known: dict = {}
    for layer in circuit.sums:
        values = [u for item in layer.inputs for u in oracle.units(circuit, item, rows, known)]
        for row in circuit.value(layer.weight).numpy():
            present = np.stack(
                [np.abs(values[i]) > 1e-12 for i in np.nonzero(row)[0]] or [np.zeros(len(rows))]
            )
            if present.sum(axis=0).max() > 1:
                return False
    return True


@pytest.mark.parametrize("continuous", [False, True])
@given(data=st.data())
def test_unrolling_preserves_values_and_properties(continuous, data):
    circuit = data.draw(
        circuits(
            Shape(structured=False, widths=(1, 2), alternatives=(1, 2), continuous=continuous),
            max_variables=3,
        )
    )
    scalar = sq.unroll(circuit)
    rows = oracle.some_rows(circuit)
    assert scalar.is_scalar
    assert max_error(oracle.density(scalar, rows), oracle.density(circuit, rows)) < 1e-10
    assert max_error(oracle.amplitudes(scalar, rows), oracle.amplitudes(circuit, rows)) < 1e-10
    for check in (
        sq.is_smooth,
        sq.is_decomposable,
        sq.is_structured_decomposable,
        sq.is_deterministic,
        sq.is_basis_decomposable,
        sq.is_regular_orthogonal,
        sq.is_orthogonal,
    ):
        assert check(scalar).holds == check(circuit).holds, check


@given(
    circuit=circuits(
        Shape(
            widths=(1,), roots=(1,), structured=False, share_inputs=True, unitary=False, alternatives=(1, 2)
        )
    )
)
def test_u2_is_basis_decomposability_where_every_layer_has_one_unit(circuit):
    assert sq.satisfies_u2(circuit).holds == sq.is_basis_decomposable(circuit).holds
