"""A mixture of models is the mixture of their densities, by enumeration of the parts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

import oracle
import squircuit as sq
from squircuit.models.mixture import unmixed

D = 4
SHARES = np.array([0.5, 0.3, 0.2])


def parts():
    """Three models of other trees, units, roots and numbers."""
    trees = sq.regions.balanced_tree(D), sq.regions.linear(D), sq.regions.random_tree(D, seed=3)
    options = ({"roots": 2}, {"components": 2, "root_weights": "learnable"}, {"is_complex": False})
    made = [
        sq.build(tree, sq.Categorical(2), units=2, **option).initialise(seed=seed)
        for seed, (tree, option) in enumerate(zip(trees, options, strict=True))
    ]
    pi = torch.tensor([0.9, 0.1], dtype=torch.float64)
    made[1] = made[1].with_weights({"roots": pi})
    return [sq.SquaredCircuit(circuit, dtype=torch.complex128) for circuit in made]


def states():
    return np.array(list(np.ndindex(*(2,) * D)))


def expected(models, shares=SHARES):
    """Σ_m w_m p_m of every state, each p_m by the oracle."""
    densities = [oracle.density(m.circuit(), states()) / oracle.partition(m.circuit()) for m in models]
    return np.asarray(shares) @ np.stack(densities)


@pytest.fixture(scope="module")
def models():
    return parts()


@pytest.fixture(scope="module")
def mixed(models):
    return sq.mixture(models, SHARES.tolist())


def test_its_likelihood_is_the_weighted_sum_of_theirs(models, mixed):
    np.testing.assert_allclose(mixed.log_prob(states()).exp().detach(), expected(models), atol=1e-12)


@pytest.mark.parametrize("missing", [[], [0], [1, 3], [0, 1, 2, 3]])
def test_its_terms_are_the_densities_of_its_root_layers_times_their_weights(models, mixed, missing):
    absent = np.isin(np.arange(D), missing)
    found = mixed.component_log_prob(states(), absent).exp().detach().numpy()
    np.testing.assert_allclose(found, terms_of(mixed.circuit(), absent), atol=1e-12)
    parts = np.stack([found[:, 0], found[:, 1] + found[:, 2], found[:, 3]])  # the second has two root layers
    for part, model, share in zip(parts, models, SHARES, strict=True):
        np.testing.assert_allclose(part, share * terms_of(model.circuit(), absent).sum(axis=1), atol=1e-12)


def terms_of(circuit, absent=None):
    """p(m, y) of every root layer m at every state, by enumeration of what is missing: (2^D, M)."""
    values, units = oracle.amplitudes(circuit, states()), [root.units for root in circuit.roots]
    squares = np.abs(values) ** 2 * circuit.root_shares.numpy()
    parts = np.split(squares, np.cumsum(units)[:-1], axis=1)
    table = np.stack([part.sum(axis=1) for part in parts], axis=1).reshape(*(2,) * D, -1)
    axes = tuple(np.flatnonzero(np.zeros(D) if absent is None else absent))
    marginal = np.broadcast_to(table.sum(axis=axes, keepdims=True), table.shape)
    return (marginal / table.sum()).reshape(2**D, -1)


def test_a_mixture_taken_apart_has_the_densities_and_shares_of_its_members(models, mixed):
    found = unmixed(mixed)
    assert [share for share, _ in found] == pytest.approx(SHARES.tolist())
    for (_, part), model in zip(found, models, strict=True):
        p = oracle.density(model.circuit(), states()) / oracle.partition(model.circuit())
        np.testing.assert_allclose(part.log_prob(states()).exp().detach(), p, atol=1e-12)


def test_terms_of_rows_that_lack_different_variables(mixed):
    masks = np.random.default_rng(0).random((2**D, D)) < 0.5
    found = mixed.component_log_prob(states(), masks).exp().detach().numpy()
    for row, mask in enumerate(masks):
        expected_row = terms_of(mixed.circuit(), mask)[row]
        np.testing.assert_allclose(found[row], expected_row, atol=1e-12)


@pytest.mark.parametrize("unitary", [True, False])
@pytest.mark.parametrize("missing", [[], [1], [0, 1, 2, 3]])
def test_terms_of_components_with_and_without_constraint(unitary, missing):
    circuit = sq.build(
        sq.regions.balanced_tree(D), sq.Categorical(2), 2, components=3, roots=2, unitary=unitary
    )
    model, absent = sq.SquaredCircuit(circuit, dtype=torch.complex128), np.isin(np.arange(D), missing)
    found = model.component_log_prob(states(), absent).exp().detach()
    np.testing.assert_allclose(found, terms_of(model.circuit(), absent), atol=1e-12)
    shares = terms_of(model.circuit(), np.ones(D, bool))[0]
    np.testing.assert_allclose(model.component_log_weights().exp().detach(), shares, atol=1e-12)


@pytest.mark.parametrize("missing", [[], [0], [1]])
def test_terms_of_sums_whose_cross_terms_count(missing):
    def part(seed):
        x, y = ([sq.Input(v, sq.Categorical(2), units=2) for v in (0, 1)] for _ in range(2))
        circuit = sq.Circuit(sq.Sum([sq.Kronecker(x), sq.Kronecker(y)], units=1))
        return sq.SquaredCircuit(circuit.initialise(seed), dtype=torch.complex128)

    model = sq.mixture([part(0), part(1)], [0.2, 0.8])
    rows = np.array(list(np.ndindex(2, 2)))
    squares = np.abs(oracle.amplitudes(model.circuit(), rows)) ** 2 * model.root_shares().detach().numpy()
    table = (squares / squares.sum()).reshape(2, 2, 2)
    wanted = np.broadcast_to(table.sum(axis=tuple(missing), keepdims=True), table.shape).reshape(4, 2)
    found = model.component_log_prob(rows, np.isin([0, 1], missing)).exp().detach()
    np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_terms_that_are_hundreds_of_nats_apart_are_all_there():
    d, models = 400, []
    for seed, angle in enumerate((0.01, 1.5)):
        circuit = sq.build(sq.regions.balanced_tree(d), sq.Categorical(2), 1)
        models.append(sq.SquaredCircuit(circuit, seed=seed).double())
        for stack in models[-1].stacks():
            amplitudes = [np.cos(angle), np.sin(angle)] if stack.shape[-1] == 2 else [1.0]
            stack.data[:] = torch.tensor(amplitudes)
    both, x = sq.mixture(models).float(), torch.zeros(1, d, dtype=torch.long)
    wanted = [2 * d * np.log(np.cos(angle)) - np.log(2) for angle in (0.01, 1.5)]
    np.testing.assert_allclose(both.component_log_prob(x)[0].detach(), wanted, rtol=1e-4)
    assert both.log_prob(x).item() == pytest.approx(wanted[0], rel=1e-4)


def test_a_term_that_is_zero_is_minus_infinity_and_leaves_the_others():
    models = [sq.SquaredCircuit(sq.build(sq.regions.linear(D), sq.Categorical(2), 1), seed=s) for s in (0, 1)]
    for stack in models[0].stacks():
        stack.data[:] = torch.tensor([0.0, 1.0]) if stack.shape[-1] == 2 else 1.0
    both = sq.mixture(models).train()
    terms = both.component_log_prob(torch.zeros(2, D, dtype=torch.long))
    assert terms[:, 0].eq(-torch.inf).all()
    torch.testing.assert_close(terms[:, 1].exp() * 2, models[1].log_prob([[0] * D] * 2).exp())
    terms.logsumexp(dim=1).sum().backward()
    assert all(p.grad.isfinite().all() for p in both.parameters())


def test_squared_circuits_of_very_different_z_keep_their_shares():
    free = sq.build(sq.regions.linear(40), sq.Categorical(2), units=2, unitary=False)
    circuits = [free.initialise(seed=0), free.initialise(seed=1)]
    names = {circuits[1].parameter_name(layer.weight) for layer in circuits[1].inputs}
    circuits[1] = circuits[1].with_weights({name: circuits[1].weights[name] * 1e-15 for name in names})
    models = [sq.SquaredCircuit(circuit, dtype=torch.complex128) for circuit in circuits]
    assert models[0].log_partition() - models[1].log_partition() > 1000
    both = sq.mixture(models, [0.3, 0.7])
    np.testing.assert_allclose(both.component_log_weights().exp().detach(), [0.3, 0.7], atol=1e-9)
    x = torch.randint(2, (5, 40), generator=torch.Generator().manual_seed(0))
    mean = 0.3 * models[0].log_prob(x).exp() + 0.7 * models[1].log_prob(x).exp()
    torch.testing.assert_close(both.log_prob(x).exp(), mean, rtol=1e-8, atol=0)


def test_equal_weights_are_the_default(models):
    found = sq.mixture(models).log_prob(states()).exp().detach()
    np.testing.assert_allclose(found, expected(models, [1 / 3] * 3), atol=1e-12)


def test_it_is_unitary_and_normalised_although_its_parts_share_no_orthogonality(mixed):
    assert not sq.satisfies_u1(mixed.circuit())  # it is about all inputs of one circuit
    assert sq.is_unitary(mixed.circuit())
    assert sq.partition(mixed.circuit()) == pytest.approx(1)
    assert mixed.is_unitary
    assert mixed.is_normalised()
    assert abs(mixed.log_partition().item()) < 1e-12
    assert oracle.partition(mixed.circuit()) == pytest.approx(1)


@pytest.mark.parametrize("missing", [[0], [1, 3], [0, 1, 2], [0, 1, 2, 3]])
def test_its_marginals_are_sums_over_what_is_missing(models, mixed, missing):
    p = expected(models).reshape((2,) * D).sum(axis=tuple(missing), keepdims=True)
    mask = torch.tensor([v in missing for v in range(D)])
    found = mixed.log_prob(states(), missing=mask).exp().detach()
    np.testing.assert_allclose(found, np.broadcast_to(p, (2,) * D).ravel(), atol=1e-12)


def test_its_conditionals_are_ratios_of_marginals(models, mixed):
    p = expected(models).reshape((2,) * D)
    found = mixed.log_conditional(states(), of=[0, 2], given=[1, 3]).exp().detach()
    np.testing.assert_allclose(found, (p / p.sum(axis=(0, 2), keepdims=True)).ravel(), atol=1e-12)


def test_its_samples_follow_it(models, mixed):
    drawn = mixed.sample(4000, seed=0).long().numpy()
    counts = np.bincount(np.ravel_multi_index(drawn.T, (2,) * D), minlength=2**D)
    assert stats.chisquare(counts, expected(models) * len(drawn)).pvalue > 1e-3


def test_it_goes_through_a_file(mixed, tmp_path):
    mixed.save(tmp_path / "mixed.safetensors")
    again = sq.load(tmp_path / "mixed.safetensors")
    assert torch.equal(again.log_prob(states()), mixed.log_prob(states()))
    assert again.is_unitary
    assert again.is_normalised()


def test_models_that_are_not_normalised_count_with_their_own_z():
    circuit = sq.build(sq.regions.linear(D), sq.Categorical(2), units=2, unitary=False)
    free = sq.SquaredCircuit(circuit.initialise(seed=5), dtype=torch.complex128)
    models = [parts()[0], free]
    assert abs(free.log_partition().item()) > 0.1
    found = sq.mixture(models, [0.25, 0.75]).log_prob(states()).exp().detach()
    np.testing.assert_allclose(found, expected(models, [0.25, 0.75]), atol=1e-12)


def test_parts_with_several_splits_keep_their_marginals():
    graph = sq.regions.random_tree(3, seed=0, repetitions=2)
    models = [
        sq.SquaredCircuit(sq.build(graph, sq.Categorical(4), units=2), seed=s, dtype=torch.complex128)
        for s in (0, 1)
    ]
    rows, mask = torch.tensor([[0, 1, 2], [3, 3, 0]]), torch.tensor([True, False, False])
    found = sq.mixture(models).log_prob(rows, missing=mask).exp().detach()
    over = [oracle.marginal(m.circuit(), rows.numpy().astype(float), {0}) for m in models]
    np.testing.assert_allclose(found, sum(over) / 2, atol=1e-12)


def test_a_mixture_with_a_part_off_the_manifold_is_not_unitary():
    circuit = sq.mixture(parts()).circuit()
    name = next(name for name in circuit.weights if name.startswith("2.region"))
    twice = circuit.with_weights({name: 2 * circuit.weights[name]})
    assert sq.is_unitary(twice).holds is False
    assert sq.partition(twice) == pytest.approx(oracle.partition(twice))
    assert oracle.partition(twice) > 1.1


def test_it_can_be_trained_on_with_its_weights_and_stays_normalised():
    x = torch.zeros(64, D, dtype=torch.long)
    models = parts()[:2]
    mixed = sq.mixture(models)
    before, shares = mixed.log_prob(x[:1]).item(), mixed.root_shares().detach().clone()
    sq.fit(mixed, x, x, apart=False, epochs=3, lr_free=0.1, progress=False)
    assert mixed.log_prob(x[:1]).item() > before
    assert not torch.equal(mixed.root_shares(), shares)
    assert abs(mixed.log_partition().item()) < 1e-9


def test_columns_are_kept_and_other_data_is_refused():
    table = {"a": [0, 1, 1, 0], "b": [1, 1, 0, 0]}
    first, second = (sq.table_model(table, seed=seed) for seed in (0, 1))
    assert sq.mixture([first, second]).schema == first.schema
    other = sq.table_model({"a": [0, 1, 1, 0], "c": [1, 1, 0, 0]})
    with pytest.raises(sq.ParameterError, match=r"columns of model 1 are not those of model 0.*Fix"):
        sq.mixture([first, other])
    with pytest.raises(sq.ParameterError, match=r"model 1 is over other variables"):
        sq.mixture([first, parts()[0]])


@pytest.mark.parametrize("weights", [[1.0], [1.0, 0.0, 1.0], [1.0, -1.0, 2.0], [1.0, float("nan"), 1.0]])
def test_weights_that_are_none_are_refused(models, weights):
    with pytest.raises(sq.ParameterError, match=r"for 3 models. Fix: pass a number above 0 for each"):
        sq.mixture(models, weights)


@pytest.mark.parametrize("models", [[], [1], sq.build(sq.regions.linear(2), sq.Categorical(2), 2)])
def test_what_is_no_list_of_models_is_refused(models):
    with pytest.raises(sq.ParameterError, match=r"pass a list of one SquaredCircuit or more"):
        sq.mixture(models)


@pytest.mark.parametrize("numbers", [(0,), (2,), (1, 2)])
def test_a_component_has_the_density_that_it_has_in_the_mixture(numbers):
    circuit = sq.build(sq.regions.balanced_tree(4), sq.Categorical(2), units=2, components=3)
    model = sq.SquaredCircuit(circuit, seed=3, dtype=torch.complex128)
    for parameter in model.parameters():  # values that no seed gives
        phase = torch.polar(torch.ones(()), torch.tensor(0.3)) if parameter.is_complex() else 1.0
        parameter.data.mul_(phase).add_(0.1)
    every = torch.cartesian_prod(*[torch.arange(2)] * 4)
    terms, shares = model.component_log_prob(every), model.component_log_weights()
    kept = list(numbers)
    wanted = terms[:, kept].logsumexp(dim=1) - shares[kept].logsumexp(dim=0)
    torch.testing.assert_close(model.component(*numbers).log_prob(every), wanted.detach(), rtol=0, atol=1e-9)


def test_components_that_are_not_there_are_refused_by_number():
    model = sq.SquaredCircuit(sq.build(sq.regions.balanced_tree(4), sq.Categorical(2), units=2, components=3))
    for numbers in [(), (3,), (0, -1), (1.0,)]:
        with pytest.raises(sq.ParameterError, match=r"component .*of 3.*Fix: pass a number from 0 to 2"):
            model.component(*numbers)
