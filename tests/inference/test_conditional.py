"""Conditionals, distributions of torch, imputation: laws of probability, checked by enumeration."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import squircuit as sq
from query_laws import DISCRETE, close, lacking, log_marginals, models, random_mask


def chain_model(dtype=torch.complex128, **options):
    circuit = sq.build(sq.regions.quad_tree((2, 3)), sq.Categorical(3), 2, **options).initialise(seed=0)
    return circuit, sq.SquaredCircuit(circuit, dtype=dtype)


@pytest.mark.parametrize("name", DISCRETE)
@given(data=st.data())
@settings(max_examples=12)
def test_conditionals_sum_to_one_over_what_is_asked_for(name, data):
    circuit, model = data.draw(models(name, limit=300))
    of, known = data.draw(split(circuit))
    row = model.sample(1, seed=0).double().numpy()
    states, _ = oracle.assignments(circuit, of)
    filled = np.tile(row, (len(states), 1))
    filled[:, of] = states[:, of]
    assert model.log_conditional(filled, of, known).exp().sum().item() == pytest.approx(1)


@pytest.mark.parametrize("name", DISCRETE)
@given(data=st.data())
@settings(max_examples=12)
def test_the_chain_rule_holds_in_every_order(name, data):
    circuit, model = data.draw(models(name, limit=300))
    order = data.draw(st.permutations(sorted(circuit.scope)))
    x = model.sample(4, seed=0)
    total = sum(model.log_conditional(x, [v], order[:i]) for i, v in enumerate(order))
    assert close(
        total.detach(), np.log(oracle.density(circuit, x.double().numpy()) / oracle.partition(circuit))
    )


@st.composite
def split(draw, circuit):
    """Variables to ask for, and others to be given."""
    order = draw(st.permutations(sorted(circuit.scope)))
    first = draw(st.integers(1, len(order)))
    return order[:first], order[first : draw(st.integers(first, len(order)))]


@pytest.mark.parametrize("name", DISCRETE)
@given(data=st.data())
@settings(max_examples=12)
def test_a_model_given_evidence_has_the_enumerated_conditional_as_density(name, data):
    circuit, model = data.draw(models(name, limit=300))
    rows = model.sample(3, seed=0)
    masks = random_mask(circuit, 3, data.draw(st.integers(0, 99)))
    rest = model.given(rows, missing=masks)
    drawn = rest.sample((4,), seed=1)
    assert drawn.shape == (4, 3, circuit.num_variables)
    evidence = log_marginals(circuit, rows.double().numpy(), masks)
    for sample, found in zip(drawn, rest.log_prob(drawn), strict=True):
        joint = np.log(oracle.density(circuit, sample.double().numpy()) / oracle.partition(circuit))
        assert close(found.detach(), joint - evidence)


def test_the_distribution_of_a_model_is_one_of_torch():
    circuit, model = chain_model()
    whole = model.distribution()
    assert isinstance(whole, torch.distributions.Distribution)
    assert (whole.batch_shape, whole.event_shape) == ((), (6,))
    states = torch.from_numpy(oracle.assignments(circuit, circuit.scope)[0]).long()
    assert whole.log_prob(states).exp().sum().item() == pytest.approx(1)
    assert whole.sample((2, 3)).shape == (2, 3, 6)
    assert torch.allclose(whole.mean, model.mean()[0])
    assert bool(whole.support.check(states).all())
    with pytest.raises(ValueError, match=r"support|domain"):
        whole.log_prob(torch.full((6,), 7))


def test_expanded_distributions_answer_for_every_member_of_the_batch():
    _, model = chain_model()
    x = model.sample(2, seed=0)
    mask = torch.tensor([True, False, False, True, False, True])
    rest = model.given(x, missing=mask)
    wide = rest.expand((3, 2))
    assert (wide.batch_shape, wide.sample((5,)).shape) == ((3, 2), (5, 3, 2, 6))
    assert torch.allclose(wide.log_prob(x), rest.log_prob(x).expand(3, 2))
    assert torch.allclose(wide.mean, rest.mean.expand(3, 2, 6))
    assert model.distribution().expand((4,)).log_prob(x[:1].expand(4, -1)).shape == (4,)


def test_rows_are_imputed_by_the_most_probable_states_or_by_samples():
    circuit, model = chain_model()
    x, mask = model.sample(3, seed=0), torch.tensor(random_mask(chain_model()[0], 3, 1))
    filled = model.impute(x, mask)
    assert torch.equal(filled[~mask], x[~mask])
    for i in range(3):
        for v in lacking(circuit, mask[i]):
            states = x[i].repeat(3, 1).double().numpy()
            states[:, v] = range(3)
            p = oracle.marginal(circuit, states, lacking(circuit, mask[i]) - {v})
            assert filled[i, v] == p.argmax()
    drawn = model.impute(x, mask, how="sample", seed=0)
    assert torch.equal(drawn, model.sample(1, given=x, missing=mask, seed=0)[0])


def test_fidelity_and_overlap_are_the_enumerated_ones():
    structure = sq.build(sq.regions.balanced_tree(3), sq.Categorical(3), 2, roots=2, root_weights="learnable")
    a, b = (structure.initialise(seed=s) for s in (0, 1))
    rows, _ = oracle.assignments(a, a.scope)
    values = [oracle.amplitudes(c, rows) for c in (a, b)]
    expected = values[0].T @ values[1].conj()
    models = [sq.SquaredCircuit(c, dtype=torch.complex128) for c in (a, b)]
    assert np.allclose(sq.overlap(*models), expected)
    weighted = [v * np.sqrt(c.root_shares.numpy()) for v, c in zip(values, (a, b), strict=True)]
    states = [w @ w.conj().T for w in weighted]  # density matrices over all assignments
    roots = [root(s) for s in states]
    assert sq.fidelity(*models) == pytest.approx(np.linalg.svd(roots[0] @ roots[1])[1].sum() ** 2, abs=1e-6)
    assert sq.fidelity(a, a) == pytest.approx(1)


def root(matrix):
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.conj().T


def test_intervals_of_estimated_divergences_hold_the_enumerated_ones():
    structure = sq.build(sq.regions.balanced_tree(3), sq.Categorical(3), 2)
    p, q = (structure.initialise(seed=s) for s in (0, 1))
    rows, _ = oracle.assignments(p, p.scope)
    mass, other = oracle.density(p, rows), oracle.density(q, rows)
    models = [sq.SquaredCircuit(c, dtype=torch.complex128) for c in (p, q)]
    kl = sq.kl_divergence(*models, samples=4000, confidence=0.999, seed=0)
    assert kl.low < mass @ np.log(mass / other) < kl.high
    tv = sq.total_variation(*models, samples=4000, confidence=0.999, seed=0)
    assert tv.low < np.abs(mass - other).sum() / 2 < tv.high
    assert tv.high - tv.low < 0.1


@pytest.mark.slow
def test_gradients_of_marginals_and_conditionals_agree_with_finite_differences():
    for options in ({}, {"product": "hadamard"}, {"unitary": False}, {"tie": 1, "roots": 2}):
        _, model = chain_model(**options)
        x = model.sample(2, seed=0)
        mask = torch.tensor([True, True, False, False, True, False])
        names = list(dict(model.named_parameters()))

        def log_prob(*values, model=model, x=x, mask=mask, names=names):
            return torch.func.functional_call(model, dict(zip(names, values, strict=True)), (x, mask))

        with model.training_step(on_manifold=True):  # Z = 1 is taken for granted wherever weights are
            assert torch.autograd.gradcheck(log_prob, list(model.parameters()), atol=1e-6)


def test_a_value_that_cannot_be_is_minus_infinity_and_evidence_that_cannot_be_an_error():
    weight = torch.tensor([[1.0, 0.0]], dtype=torch.complex128)
    inputs = [sq.Sum(sq.Input(v, sq.Categorical(2)), weight=weight) for v in range(2)]
    model = sq.SquaredCircuit(sq.Circuit(sq.Sum(sq.Hadamard(inputs), weight=torch.ones(1, 1))))
    x, missing = [[0, 0], [1, 0]], [False, True]
    assert model.log_prob(x, missing=missing).tolist() == [pytest.approx(0, abs=1e-6), -math.inf]
    questions = [
        lambda: model.marginals(given=x, missing=missing),
        lambda: model.sample(2, given=x, missing=missing),
        lambda: model.given(x, missing=missing),
        lambda: model.log_conditional(x, of=[1], given=[0]),
        lambda: model.impute(x, missing),
        lambda: model.expectation({1: torch.square}, given=x, missing=missing),
    ]
    for question in questions:
        with pytest.raises(sq.DataError, match="row 1: the evidence has probability zero"):
            question()
