"""The chain rule: conditionals one by one, against enumeration, and how many layers each of them takes."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import squircuit as sq
from query_laws import DISCRETE, close, models
from squircuit.inference.chain import algebra
from squircuit.inference.chain.chain import Chain


def logs_of_conditionals(model, rows, missing=None, order=None):
    """Σ_i log p(x_i | x_<i) over the cells that are not missing, with each table normalised: (n,)."""
    x = torch.as_tensor(rows).long()
    chain = Chain(model.snapshot())
    parts = list(range(chain.parts))
    conditionals, total = chain.start(parts, len(x)), torch.zeros(len(x), dtype=torch.float64)
    for v in order or chain.order(parts):
        shown = None if missing is None else ~missing[:, v]
        table = conditionals.probabilities(v).expand(len(x), -1)
        assert bool((table >= 0).all())
        logs = (table / table.sum(dim=1, keepdim=True)).gather(1, x[:, v : v + 1])[:, 0].log()
        total += logs if shown is None else torch.where(shown, logs, 0.0)
        conditionals.fix(v, x[:, v], shown)
    return total


def possible(circuit, count=24):
    """Rows of positive probability, and the logarithm of that by enumeration."""
    rows = oracle.some_rows(circuit, count)
    p = oracle.density(circuit, rows) / oracle.partition(circuit)
    return rows[p > 1e-12], np.log(p[p > 1e-12])


@pytest.mark.parametrize("name", DISCRETE)
@given(data=st.data())
@settings(max_examples=12)
def test_the_conditionals_multiply_to_the_density_of_enumeration(name, data):
    circuit, model = data.draw(models(name, limit=300))
    rows, expected = possible(circuit)
    for most in (0, 2**16):  # few units have a map for all rows, many have not
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(algebra, "SMALL", most)
            assert not len(rows) or close(logs_of_conditionals(model, rows), expected)


@pytest.mark.parametrize("name", DISCRETE)
@given(data=st.data())
@settings(max_examples=12)
def test_conditionals_of_rows_with_gaps_multiply_to_the_enumerated_marginal(name, data):
    circuit, model = data.draw(models(name, limit=300))
    rows, _ = possible(circuit, 6)
    if not len(rows):
        return
    missing = np.random.default_rng(data.draw(st.integers(0, 99))).random(rows.shape) < 0.4
    marginals = [
        oracle.marginal(circuit, row[None], np.nonzero(gap)[0].tolist())[0]
        for row, gap in zip(rows, missing, strict=True)
    ]
    expected = np.log(np.array(marginals) / oracle.partition(circuit))
    assert close(logs_of_conditionals(model, rows, torch.from_numpy(missing)), expected)


@pytest.mark.parametrize("most", [0, 2**16])  # few units have a map for all rows, many have not
@pytest.mark.parametrize("product", ["kronecker", "hadamard"])
def test_any_order_of_a_tree_and_any_mixture_of_trees_gives_the_density(product, most, monkeypatch):
    monkeypatch.setattr(algebra, "SMALL", most)
    members = []
    for seed, order in enumerate(("hv", "vh", "vvhh")):
        graph = sq.regions.quad_tree((3, 4), 2, order)
        circuit = sq.build(graph, sq.Categorical(4), 3, product, roots=2)
        members.append(sq.SquaredCircuit(circuit, seed, torch.complex128))
    mixture = sq.mixture(members, [1, 2, 3])
    x = mixture.sample(20, seed=1)
    for order in (None, *(np.random.default_rng(seed).permutation(12).tolist() for seed in range(3))):
        assert close(logs_of_conditionals(mixture, x, order=order), mixture.log_prob(x).detach().numpy())


def computed(sides, order_of=None):
    """Layers that were computed for each variable of a model on a balanced tree of so many."""
    circuit = sq.build(sq.regions.quad_tree(sides, 2), sq.Categorical(2), 2, tie=4)
    chain = Chain(sq.SquaredCircuit(circuit).snapshot())
    walk, d = chain.walk(0), math.prod(sides)
    for v in chain.order([0]) if order_of is None else order_of(d):
        walk.masses(v)
        walk.fix(v, torch.zeros(1, dtype=torch.int64), None)
    return walk.computed / d


def test_a_variable_takes_three_layers_in_the_order_of_the_tree_however_many_there_are():
    assert all(2 < computed(sides) < 3 for sides in ((4, 4), (8, 8), (16, 16)))


def test_in_a_foreign_order_the_layers_of_a_variable_grow_with_the_logarithm():
    def foreign(d):
        return np.random.default_rng(0).permutation(d).tolist()

    for sides in ((4, 4), (8, 8), (16, 16)):
        assert computed(sides, foreign) < 2 * (1 + math.log2(math.prod(sides)))
    assert computed((16, 16), foreign) - computed((8, 8), foreign) < 2 * 2 + 0.5  # twice two levels more


def test_a_row_that_cannot_be_has_equal_probabilities_from_there_on():
    circuit = sq.build(sq.regions.linear(3), sq.Categorical(2), 1, mixing=False)
    weights = {n: torch.zeros_like(v) for n, v in circuit.initialise(0).weights.items()}
    for value in weights.values():
        value[:, 0] = 1
    chain = Chain(sq.SquaredCircuit(circuit.with_weights(weights), dtype=torch.complex128).snapshot())
    conditionals = chain.start([0], 1)
    for v in chain.order([0]):
        found = conditionals.probabilities(v)
        conditionals.fix(v, torch.tensor([found[0].argmin()]))
        assert bool(found.isfinite().all())
        assert bool((found.sum(dim=1) > 0).all())
