"""The most probable row, quantiles, entropies and divergences, against enumeration and quadrature."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import squircuit as sq
from query_laws import DISCRETE, models, random_mask
from squircuit.errors import DataError, ParameterError, SquircuitWarning


def enumerated(model, x, mask):
    """All completions of a row, and log p of each."""
    domains = model.structure.domains
    choices = [
        range(int(domains[v].bounds[1]) + 1) if v in domains and mask[v] else [int(x[v])]
        for v in range(model.structure.num_variables)
    ]
    rows = torch.tensor(list(itertools.product(*choices)))
    return rows, model.log_prob(rows).double().detach()


@pytest.mark.parametrize("name", DISCRETE)
@given(data=st.data())
@settings(max_examples=8)
def test_the_most_probable_completion_of_discrete_variables_is_that_of_enumeration(name, data):
    circuit, model = data.draw(models(name))
    x = model.sample(2, seed=data.draw(st.integers(0, 99)))
    masks = torch.from_numpy(random_mask(circuit, 2, seed=2))
    found = model.most_probable(x, missing=masks)
    assert found.is_exact.all()
    assert str(found) == "the most probable completions of all 2 rows"
    for i in range(2):
        _, log_p = enumerated(model, x[i], masks[i])
        assert found.log_prob[i].item() == pytest.approx(log_p.max().item(), abs=1e-8)
        assert found.log_bound[i].item() == found.log_prob[i].item()
        assert (found.x[i] == x[i])[~masks[i]].all()
    assert model.log_prob(found.x).tolist() == pytest.approx(found.log_prob.tolist(), abs=1e-8)


def test_a_search_that_ends_early_gives_a_bound_that_holds():
    model = sq.SquaredCircuit(sq.build(sq.regions.linear(7), sq.Categorical(3), units=4, roots=3), seed=3)
    _, log_p = enumerated(model, torch.zeros(7), torch.ones(7, dtype=torch.bool))
    short = model.most_probable(budget=1)
    whole = model.most_probable(budget=4000)
    assert whole.is_exact.all()
    assert whole.log_prob.item() == pytest.approx(log_p.max().item(), abs=1e-4)
    assert short.log_prob.item() <= log_p.max().item() + 1e-4 <= short.log_bound.item() + 2e-4
    assert not short.is_exact.any()
    assert "by at most" in str(short)


def test_of_continuous_columns_no_change_of_one_variable_is_better_and_no_bound_is_claimed():
    gaussian = sq.MultivariateGaussian.of([[0.0, 3.0]], [[[1.0, 0.6], [0.6, 1.0]]])
    model = sq.SquaredCircuit(sq.Circuit(sq.Input((0, 1), gaussian)), dtype=torch.float64)
    found = model.most_probable()
    assert found.x[0].tolist() == pytest.approx([0.0, 3.0], abs=1e-4)
    assert math.isinf(found.log_bound.item())
    assert not found.is_exact.any()
    assert "no bound is known" in str(found)
    observed = model.most_probable([[1.0, 0.0]], missing=[False, True])
    assert observed.x[0].tolist() == pytest.approx([1.0, 3.6], abs=1e-4)


@pytest.mark.parametrize("name", DISCRETE)
@given(data=st.data())
@settings(max_examples=8)
def test_entropies_and_mutual_informations_are_those_of_enumeration(name, data):
    circuit, model = data.draw(models(name))
    variables = sorted(circuit.scope)
    d = model.structure.num_variables
    rows, log_p = enumerated(model, torch.zeros(d), torch.ones(d, dtype=torch.bool))
    p = log_p.exp()

    def h(some):
        _, number = torch.unique(rows[:, some], dim=0, return_inverse=True)
        q = torch.zeros(int(number.max()) + 1, dtype=torch.float64).index_add_(0, number, p)
        return float(-torch.special.xlogy(q, q).sum())

    assert model.entropy(variables).value == pytest.approx(h(variables), abs=1e-7)
    found = model.entropy(variables[0])
    assert found.value == pytest.approx(h(variables[:1]), abs=1e-7)
    assert found.low == found.value == found.high
    if len(variables) > 1:
        told = model.mutual_information(variables[0], variables[1:])
        expected = h(variables[:1]) + h(variables[1:]) - h(variables)
        assert told.value == pytest.approx(expected, abs=1e-7)


def test_entropies_of_gaussians_lie_in_their_intervals_and_conditions_count():
    covariance = torch.tensor([[1.0, 0.8], [0.8, 2.0]], dtype=torch.float64)
    gaussian = sq.MultivariateGaussian.of([[0.0, 0.0]], covariance[None])
    model = sq.SquaredCircuit(sq.Circuit(sq.Input((0, 1), gaussian)), dtype=torch.float64)
    exact = 0.5 * math.log(2 * math.pi * math.e * 2.0)
    found = model.entropy(1, samples=4000, confidence=0.999, seed=0)
    assert found.low <= exact <= found.high
    assert found.high - found.low < 0.2
    given = model.entropy(
        1, given=[[0.7, 0.0]], missing=[False, True], samples=4000, confidence=0.999, seed=0
    )
    assert given.low <= 0.5 * math.log(2 * math.pi * math.e * (2 - 0.64)) <= given.high
    told = model.mutual_information(0, 1, samples=4000, confidence=0.999, seed=0)
    assert told.low <= -0.5 * math.log(1 - 0.64 / 2) <= told.high


def test_quantiles_of_a_column_given_others_are_those_of_its_distribution():
    frame = {"a": torch.randn(300).numpy(), "b": ["x", "y", "z"] * 100}
    model = sq.table_model(frame, units=2, seed=0)
    found = model.quantiles("a", [0.1, 0.5, 0.9], given={"b": ["x", "z"], "a": [0.0, 1.0]})
    grid = torch.linspace(-12, 12, 20001, dtype=torch.float64)
    table = model.marginals({"b": ["x", "z"]}, grid={"a": grid}).values["a"].double()
    below = torch.cumulative_trapezoid(table, grid, dim=1)
    for row in range(2):
        places = torch.searchsorted(below[row], torch.tensor([0.1, 0.5, 0.9]))
        assert found[row].tolist() == pytest.approx(grid[places].tolist(), abs=0.02)


def test_the_gradient_of_an_expectation_is_that_of_the_sum_over_all_states():
    model = sq.SquaredCircuit(
        sq.build(sq.regions.linear(3), sq.Categorical(3), units=2, unitary=False),
        seed=0,
        dtype=torch.complex128,
    )
    functions = {0: torch.square, 2: lambda x: x + 1}
    rows = torch.tensor(list(itertools.product(range(3), repeat=3)))
    value = (rows[:, 0].double() ** 2) * (rows[:, 2] + 1)
    parameters = [p for p in model.parameters() if p.requires_grad]
    exact = torch.autograd.grad((model.log_prob(rows).exp() * value).sum(), parameters)
    found = torch.autograd.grad(model.expectation(functions).sum(), parameters)
    for one, other in zip(found, exact, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)


def test_torch_knows_the_divergence_of_discrete_models_exactly():
    first, second = (
        sq.SquaredCircuit(sq.build(sq.regions.linear(3), sq.Categorical(3), units=2), seed=seed)
        for seed in (0, 1)
    )
    rows, log_p = enumerated(first, torch.zeros(3), torch.ones(3, dtype=torch.bool))
    exact = (log_p.exp() * (log_p - second.log_prob(rows).double())).sum()
    found = torch.distributions.kl_divergence(first.distribution(), second.distribution())
    assert found.item() == pytest.approx(exact.item(), abs=1e-4)
    assert found.shape == ()
    gaps, x = [False, True, True], [[0, 0, 0], [1, 0, 0]]
    each = torch.distributions.kl_divergence(first.given(x, gaps), second.given(x, gaps))
    p = torch.stack([log_p[rows[:, 0] == s].log_softmax(0) for s in (0, 1)])
    q = torch.stack([second.log_prob(rows[rows[:, 0] == s]).double().log_softmax(0) for s in (0, 1)])
    torch.testing.assert_close(each.double(), (p.exp() * (p - q)).sum(1), atol=1e-4, rtol=1e-4)
    with pytest.raises(ParameterError, match="over different variables"):
        torch.distributions.kl_divergence(first.given(x, gaps), second.given(x, [True, True, True]))


def test_torch_is_told_that_a_divergence_of_densities_is_estimated():
    model = sq.SquaredCircuit(sq.build(sq.regions.linear(2), sq.Hermite(3), units=2), seed=0)
    with pytest.warns(SquircuitWarning, match="estimated from 1000 samples"):
        assert torch.distributions.kl_divergence(model.distribution(), model.distribution()).item() == 0.0


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda m: m.most_probable(budget=0), "budget=0. Fix"),
        (lambda m: m.entropy("colr"), "no column 'colr'. Fix: did you mean 'colour'"),
        (lambda m: m.entropy([]), "of names no variable"),
        (lambda m: m.entropy("colour", given={"size": [1, 2]}), "2 rows are given"),
        (lambda m: m.mutual_information("colour", ["colour", "size"]), "'colour' is on both sides"),
        (lambda m: m.quantiles("size", [1.5]), "numbers between 0 and 1"),
    ],
)
def test_a_mistake_is_one_clear_line(ask, words):
    model = sq.table_model({"colour": ["red", "blue"] * 10, "size": [1, 2, 3, 4] * 5}, units=2)
    with pytest.raises((ParameterError, DataError), match=words):
        ask(model)
