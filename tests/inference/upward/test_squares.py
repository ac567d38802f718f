"""Roots of many units: only squares of units are asked, and every answer is the enumerated one."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import oracle
import squircuit as sq
from query_laws import close, lacking, log_marginals, random_mask
from squircuit.inference.compile.schedule import Form
from squircuit.inference.evidence import nothing_observed

STATES = (2, 3, 2)


def free(*shape, is_complex=True):
    return sq.Parameter(shape, "free", is_complex)


def functions(v, units, is_complex):
    """An input layer W φ with any weights."""
    return sq.Input(v, sq.Categorical(STATES[v]), weight=free(units, STATES[v], is_complex=is_complex))


def mixed_sum(variables, units, is_complex):
    """A sum over a Kronecker product of input layers of two units each."""
    below = sq.Kronecker([functions(v, 2, is_complex) for v in variables])
    return sq.Sum(below, weight=free(units, 2 ** len(variables), is_complex=is_complex))


def inputs_alone(units, is_complex):
    return [sq.Hadamard([functions(v, units, is_complex) for v in range(3)])]


def sums_and_an_input(units, is_complex):
    return [sq.Hadamard([mixed_sum([0, 1], units, is_complex), functions(2, units, is_complex)])]


def kronecker_of_both(units, is_complex):
    inner = sq.Hadamard([functions(0, 2, is_complex), functions(1, 2, is_complex)])
    return [sq.Kronecker([inner, mixed_sum([2], units, is_complex)])]


def layers_shared_by_two_roots(units, is_complex):
    shared = functions(0, units, is_complex)
    pairs = [sq.Hadamard([functions(1, units, is_complex), functions(2, units, is_complex)]) for _ in "ab"]
    return [sq.Hadamard([shared, pair]) for pair in pairs]


def layers_shared_with_a_sum(units, is_complex):
    """The shared layers need inner products for the sum, and squares for the product."""
    first, second = (functions(v, units, is_complex) for v in (0, 1))
    both = sq.Hadamard([first, second])
    root = sq.Hadamard(
        [sq.Sum(both, weight=free(units, units, is_complex=is_complex)), functions(2, units, is_complex)]
    )
    return [sq.Hadamard([both, functions(2, units, is_complex)]), root]


def a_sum_of_vectors(units, is_complex):
    return [
        sq.Sum(
            sq.Hadamard([functions(v, 2, is_complex) for v in range(3)]),
            weight=free(units, 2, is_complex=is_complex),
        )
    ]


BUILDERS = [
    inputs_alone,
    sums_and_an_input,
    kronecker_of_both,
    layers_shared_by_two_roots,
    layers_shared_with_a_sum,
    a_sum_of_vectors,
]


@st.composite
def mixtures(draw, build):
    """A circuit whose roots have several units, with any weights, and its model."""
    roots = build(draw(st.integers(1, 5)), draw(st.booleans()))
    total = sum(root.units for root in roots)
    weights = sq.Parameter((total,), "simplex", False) if draw(st.booleans()) else None
    circuit = sq.Circuit(roots, root_weights=weights).initialise(seed=draw(st.integers(0, 999)))
    return circuit, sq.SquaredCircuit(circuit, dtype=torch.complex128).eval()


@pytest.mark.parametrize("build", BUILDERS)
@given(data=st.data())
@settings(max_examples=12)
def test_marginals_and_log_z_of_many_roots_are_the_enumerated_sums(build, data):
    circuit, model = data.draw(mixtures(build))
    rows, masks = oracle.some_rows(circuit, 6), random_mask(circuit, 6, data.draw(st.integers(0, 99)))
    with torch.no_grad():
        assert close(model.log_prob(rows, missing=masks), log_marginals(circuit, rows, masks))
        one = np.tile(masks[0], (6, 1))
        assert close(model.log_prob(rows, missing=masks[0]), log_marginals(circuit, rows, one))
        assert model.log_partition().item() == pytest.approx(math.log(oracle.partition(circuit)), abs=1e-9)


@pytest.mark.parametrize("build", BUILDERS)
@given(data=st.data())
@settings(max_examples=6)
def test_tables_and_expectations_given_what_is_observed_are_the_enumerated_ones(build, data):
    circuit, model = data.draw(mixtures(build))
    rows, masks = oracle.some_rows(circuit, 4), random_mask(circuit, 4, data.draw(st.integers(0, 99)))
    found = model.marginals(given=rows, missing=masks)
    moment = model.expectation({0: torch.sin, 2: torch.cos}, given=rows, missing=masks)
    for i, mask in enumerate(masks):
        hidden = sorted(lacking(circuit, mask))
        states, _ = oracle.assignments(circuit, hidden)
        filled = np.tile(rows[i], (len(states), 1)).astype(float)
        filled[:, hidden] = states[:, hidden]
        p = oracle.density(circuit, filled)
        p = p / p.sum()
        for v in hidden:
            table = np.bincount(filled[:, v].astype(int), weights=p, minlength=STATES[v])
            assert np.allclose(found.values[v][i], table, atol=1e-9)
        expected = (p * np.sin(filled[:, 0]) * np.cos(filled[:, 2])).sum()
        assert moment[i].item() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("build", BUILDERS)
def test_samples_of_many_roots_follow_the_enumerated_distribution(build):
    for seed, is_complex in ((0, True), (1, False)):
        circuit = sq.Circuit(build(3, is_complex)).initialise(seed=seed)
        model = sq.SquaredCircuit(circuit, dtype=torch.complex128).eval()
        rows = model.sample(5, seed=2).numpy()
        masks = random_mask(circuit, 5, seed)
        masks[0] = True
        samples = model.sample(3000, given=rows, missing=masks, seed=3).numpy()
        for i, mask in enumerate(masks):
            assert (samples[:, i, ~mask] == rows[i, ~mask]).all()
            hidden = sorted(lacking(circuit, mask))
            if hidden:
                assert chi_square(samples[:, i], circuit, rows[i], hidden) > 1e-5


def chi_square(samples, circuit, row, hidden):
    states, _ = oracle.assignments(circuit, hidden)
    filled = np.tile(row, (len(states), 1)).astype(float)
    filled[:, hidden] = states[:, hidden]
    p = oracle.density(circuit, filled)
    drawn = np.ravel_multi_index(samples[:, hidden].T, [STATES[v] for v in hidden])
    counts, expected = np.bincount(drawn, minlength=len(p)), p / p.sum() * len(samples)
    return stats.chi2.sf(((counts - expected) ** 2 / np.maximum(expected, 1)).sum(), max(1, len(p) - 1))


@pytest.mark.parametrize("build", BUILDERS)
def test_gradients_of_marginals_and_of_log_z_agree_with_finite_differences(build):
    circuit = sq.Circuit(build(2, True)).initialise(seed=5)
    model = sq.SquaredCircuit(circuit, dtype=torch.complex128).eval()
    names = [name for name, _ in model.named_parameters()]
    values = [value.detach().clone().requires_grad_() for value in model.parameters()]
    rows = torch.from_numpy(oracle.some_rows(circuit, 3))
    masks = torch.tensor([[True, False, False], [False, True, True], [False, False, False]])

    def answers(*held):
        return torch.func.functional_call(model, dict(zip(names, held, strict=True)), (rows, masks))

    assert torch.autograd.gradcheck(answers, values)
    assert torch.autograd.gradcheck(
        lambda *stacks: model._density.network.log_norms(list(stacks), model.family_values, model.device),
        [stack.detach().clone().requires_grad_() for stack in model.stacks()],
    )


def test_units_that_are_far_apart_count_each_with_its_own_scale():
    """Two Gaussians of each variable are e^−20000 of each other at a row; products of both count alike."""
    families = [sq.Gaussian(2, loc, 1.0, learnable=False) for loc in ((0.0, 200.0), (200.0, 0.0), (0.0, 1.0))]
    circuit = sq.Circuit(sq.Hadamard([sq.Input(v, family) for v, family in enumerate(families)]))
    model = sq.SquaredCircuit(circuit, dtype=torch.float64).eval()
    rows = torch.tensor([[0.0, 0.0, 0.5], [100.0, 100.0, 0.0], [1e6, 1e6, 3.0]], dtype=torch.float64)
    for mask in ([False, False, True], [False, False, False]):
        logs = sum(
            2 * torch.distributions.Normal(torch.tensor(f.loc), 1.0).log_prob(rows[:, v : v + 1].double())
            for v, f in enumerate(families)
            if not mask[v]
        )
        norm = -math.log(2 * math.sqrt(math.pi))  # ∫ N² of each variable
        expected = logs.double().logsumexp(dim=1) - math.log(2) - (3 - sum(mask)) * norm
        assert torch.allclose(model.log_prob(rows, missing=mask), expected, rtol=1e-12)
    assert model.log_conditional(rows, of=[2], given=[0, 1]).isfinite().all()


def test_no_layer_of_a_mixture_of_products_sends_a_matrix():
    circuit = sq.Circuit(inputs_alone(50, False)).initialise(seed=0)
    snapshot = sq.SquaredCircuit(circuit).snapshot()
    evidence = nothing_observed(circuit, snapshot.device)
    for weighted in (frozenset(), frozenset({0, 1, 2})):
        forms = snapshot.schedule(evidence.missing, weighted).forms
        assert set(forms.values()) == {Form.SQUARES}
