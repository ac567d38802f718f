"""Samples are exact: χ² and Kolmogorov–Smirnov tests at fixed seeds against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import oracle
import squircuit as sq
from query_laws import DISCRETE, lacking, models, random_mask
from squircuit.inference.sampling.draws import draw_index

COUNT = 3000


def follows(samples, circuit, row, mask):
    """p-value of a χ² test that samples of what a row lacks follow the enumerated conditional."""
    hidden = sorted(lacking(circuit, mask))
    states, _ = oracle.assignments(circuit, hidden)
    filled = np.tile(row, (len(states), 1))
    filled[:, hidden] = states[:, hidden]
    p = oracle.density(circuit, filled)
    p = p / p.sum()
    sizes = [circuit.domains[v].size for v in hidden]
    drawn = np.ravel_multi_index(samples[:, hidden].T, sizes)
    counts = np.bincount(drawn, minlength=len(states))
    rare = p * len(samples) < 5
    observed = np.append(counts[~rare], counts[rare].sum())
    expected = np.append(p[~rare], p[rare].sum()) * len(samples)
    assert counts[p < 1e-12].sum() == 0
    kept = expected > 0
    statistic = ((observed[kept] - expected[kept]) ** 2 / np.maximum(expected[kept], 1)).sum()
    return stats.chi2.sf(statistic, max(1, kept.sum() - 1))


@pytest.mark.parametrize("name", DISCRETE)
@given(data=st.data())
@settings(max_examples=12)
def test_samples_follow_the_enumerated_distribution(name, data):
    circuit, model = data.draw(models(name, limit=300))
    samples = model.sample(COUNT, seed=1).numpy()
    assert samples.shape == (COUNT, circuit.num_variables)
    everything = np.ones(circuit.num_variables, dtype=bool)
    assert follows(samples, circuit, np.zeros(circuit.num_variables), everything) > 1e-5


@pytest.mark.parametrize("name", DISCRETE)
@given(data=st.data())
@settings(max_examples=12)
def test_conditional_samples_follow_the_enumerated_conditional_and_keep_what_is_observed(name, data):
    circuit, model = data.draw(models(name, limit=300))
    rows = model.sample(5, seed=2).numpy()  # rows of positive probability
    masks = random_mask(circuit, 5, data.draw(st.integers(0, 99)))
    samples = model.sample(COUNT, given=rows, missing=masks, seed=3).numpy()
    for i in range(5):
        assert (samples[:, i, ~masks[i]] == rows[i, ~masks[i]]).all()
        if lacking(circuit, masks[i]):
            assert follows(samples[:, i], circuit, rows[i].astype(float), masks[i]) > 1e-5


def distance(samples, cdf):
    """√n times the Kolmogorov–Smirnov statistic: above 2.2 once in ten thousand times."""
    return stats.kstest(samples, cdf).statistic * np.sqrt(len(samples))


def conditional_cdf(circuit, row, variable, states, low, high):
    """The distribution function of one variable given a row, variable 3 summed over states."""
    x = np.linspace(low, high, 2001)
    p = 0.0
    for state in states:
        filled = np.tile(row, (len(x), 1))
        filled[:, variable], filled[:, 3] = x, state
        p = p + oracle.density(circuit, filled)
    mass = np.concatenate([[0], np.cumsum((p[1:] + p[:-1]) / 2)])
    return lambda t: np.interp(t, x, mass / mass[-1])


FAMILIES = [sq.Hermite(4, loc=0.3, scale=0.7), sq.Fourier(5, 2.0), sq.Legendre(4, 0.0, 2.0)]


def mixed_circuit(kind):
    """Continuous variables of three families and a discrete one, in a tree or with interference."""
    families = [*FAMILIES, sq.Categorical(3)]
    if kind == "tree":
        return sq.build(sq.regions.balanced_tree(4), families, 2).initialise(seed=4)
    if kind == "baseline":
        families[0] = sq.Gaussian(3)
        return sq.build(sq.regions.linear(4), families, 3, unitary=False, roots=2).initialise(seed=4)
    weights = [sq.Parameter((2, f.size)) for f in families]
    a, b = (
        [sq.Input(v, f, 1, w, r) for v, (f, w) in enumerate(zip(families, weights, strict=True))]
        for r in (0, 1)
    )
    first = sq.Hadamard([a[0], sq.Sum(sq.Hadamard([a[1], sq.Sum(sq.Hadamard(a[2:]))]))])
    second = sq.Hadamard([sq.Sum(sq.Hadamard([b[0], b[3]])), sq.Sum(sq.Hadamard(b[1:3]))])
    return sq.Circuit(sq.Sum([first, second], units=1)).initialise(seed=4)


@pytest.mark.parametrize("kind", ["tree", "baseline", "interference"])
def test_continuous_samples_follow_their_distribution_functions(kind):
    circuit, count = mixed_circuit(kind), 800 if kind == "interference" else COUNT
    model = sq.SquaredCircuit(circuit, dtype=torch.complex128)
    row = np.array([0.2, 0.1, 0.9, 1.0])
    reach = {0: (-6, 6), 1: (-1, 1), 2: (0, 2)}
    for variable, (low, high) in reach.items():
        mask = np.zeros(4, dtype=bool)
        mask[variable] = True
        samples = model.sample(count, given=row[None], missing=mask, seed=5)[:, 0, variable].numpy()
        assert distance(samples, conditional_cdf(circuit, row, variable, [row[3]], low, high)) < 2.2
        mask[3] = True
        samples = model.sample(count, given=row[None], missing=mask, seed=6)[:, 0, variable].numpy()
        assert distance(samples, conditional_cdf(circuit, row, variable, range(3), low, high)) < 2.2


def test_columns_are_drawn_by_their_mass_under_a_complex_message():
    """Columns (1, i) and (1, −i) have masses 0.4 and 3.6 under R = [[1, −0.8i], [0.8i, 1]]."""
    first = torch.tensor([[1, 0], [0.8j, 0.6]], dtype=torch.complex128)
    second, above = torch.eye(2, dtype=torch.complex128), torch.tensor([[1, 1, 1j, -1j]])
    inputs = [sq.Input(v, sq.Categorical(2), weight=w) for v, w in enumerate((first, second))]
    circuit = sq.Circuit(sq.Sum(sq.Kronecker(inputs), weight=above.to(torch.complex128)))
    model = sq.SquaredCircuit(circuit, dtype=torch.complex128).eval()
    samples = model.sample(COUNT, seed=0).numpy()
    assert follows(samples, circuit, np.zeros(2), np.ones(2, dtype=bool)) > 1e-5


@pytest.mark.parametrize("masses", [[1, 1], [0, 3, 1], [3, 0, 0, 1], [0, 0, 1, 0], [1e-3, 0, 2, 0]])
def test_an_index_is_drawn_for_the_share_of_uniform_numbers_that_its_mass_is(masses):
    """Both ends of [0, 1) belong to indices of positive mass, and none of mass zero is ever drawn."""
    mass = torch.tensor(masses, dtype=torch.float64)
    inside = (torch.arange(20000, dtype=torch.float64) + 0.5) / 20000
    ends = torch.tensor([0.0, 1 - 2.0**-53], dtype=torch.float64)
    drawn = draw_index(mass.expand(20002, -1), torch.cat([ends, inside]))
    assert (mass[drawn] > 0).all()
    shares = torch.bincount(drawn[2:], minlength=len(masses)) / 20000
    assert torch.allclose(shares.double(), mass / mass.sum(), atol=1e-4)


def test_several_root_layers_are_a_mixture_of_which_each_sample_has_one():
    x, y = (sq.Input(v, sq.Categorical(3), 2) for v in range(2))
    roots = [sq.Sum(sq.Kronecker([x, y]), units=2), sq.Sum(sq.Hadamard([x, y]), units=1)]
    pi = sq.Parameter((3,), "simplex", False, value=torch.tensor([0.5, 0.2, 0.3], dtype=torch.float64))
    circuit = sq.Circuit(roots, root_weights=pi).initialise(seed=1)
    samples = sq.SquaredCircuit(circuit, dtype=torch.complex128).sample(COUNT, seed=0).numpy()
    assert follows(samples, circuit, np.zeros(2), np.ones(2, dtype=bool)) > 1e-4


@pytest.mark.slow
def test_chains_deeper_than_pythons_recursion_limit_are_sampled():
    circuit = sq.build(sq.regions.linear(1200), sq.Categorical(2), 2)
    assert sq.SquaredCircuit(circuit).sample(2, seed=0).shape == (2, 1200)


def test_the_same_seed_gives_the_same_samples_and_another_one_others():
    model = sq.SquaredCircuit(sq.build(sq.regions.quad_tree((4, 4)), sq.Categorical(8), 3))
    again = model.sample(3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(model.sample(3, seed=0), again)
    assert not torch.equal(model.sample(3, seed=1), again)


def test_samples_of_a_model_in_single_precision_have_the_likelihood_of_its_entropy():
    """−E log p of samples is the entropy: by samples of one model and by samples of a finer one."""
    circuit = sq.build(sq.regions.quad_tree((5, 5)), sq.Categorical(16), 4).initialise(seed=0)
    single, double = (sq.SquaredCircuit(circuit, dtype=t) for t in (torch.complex64, torch.complex128))
    values = [double.log_prob(model.sample(2000, seed=i)) for i, model in enumerate((single, double))]
    gap = (values[0].mean() - values[1].mean()) / (values[0].var() / 2000 + values[1].var() / 2000).sqrt()
    assert abs(gap.item()) < 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_samples_given_values_far_out_do_not_depend_on_the_masks_of_other_rows(dtype):
    circuit = sq.build(sq.regions.linear(2), sq.Gaussian(2, (0.9, 1.2), 0.3), units=1, unitary=False)
    model = sq.SquaredCircuit(circuit, seed=92, dtype=dtype).eval()
    rows = torch.tensor([[20.0, 0.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0]], dtype=torch.float64)
    masks = torch.tensor([[False, True], [True, True], [False, False], [True, False]])
    drawn = model.sample(COUNT, rows, masks, seed=1).double()
    expected, spread = model.mean(rows, masks), model.variance(rows, masks).sqrt()
    assert ((drawn.mean(dim=0) - expected).abs() <= 5 * spread / COUNT**0.5 + 1e-6).all()
    assert ((drawn.std(dim=0) - spread).abs() <= 0.1 * spread + 1e-6).all()
