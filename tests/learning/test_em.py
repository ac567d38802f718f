"""EM: its laws, against closed forms, scikit-learn, and densities written down from their definitions."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from sklearn.mixture import GaussianMixture

from squircuit.data import Rows
from squircuit.errors import DataError, ParameterError
from squircuit.learning import fit_mixture
from squircuit.learning.mixture import Layout

KINDS = [("full", None), ("diagonal", None), ("tied", None), ("low-rank", 2)]
LOG_2PI = math.log(2 * math.pi)


def table(n=300, d=4, gaps=0.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    mixing = torch.randn(3, d, d, generator=generator, dtype=torch.double)
    which = torch.randint(3, (n,), generator=generator)
    noise = torch.randn(n, d, generator=generator, dtype=torch.double)
    x = (mixing[which] @ noise[..., None])[..., 0] + 3 * mixing[which, 0]
    x[torch.rand(x.shape, generator=generator) < gaps] = torch.nan
    return x


SIZES = [(3, 2), (40, 2)]
"""States of two columns, which are counted by products with 0 and 1, and looked up where they are many."""


def mixed(n=300, gaps=0.2, seed=0, sizes=(3, 2)):
    """Two numbers and two categorical columns, 1 and 3, of which few states are there."""
    generator = torch.Generator().manual_seed(seed)
    x = table(n, 4, 0.0, seed)
    x[:, 1] = (x[:, 0] > 0) + (x[:, 2] > 0).double()
    x[:, 3] = torch.randint(2, (n,), generator=generator)
    x[torch.rand(x.shape, generator=generator) < gaps] = torch.nan
    return x, dict(zip((1, 3), sizes, strict=True))


def matrices(fit):
    """Σ, (K, D, D), whatever the kind."""
    size, width = fit.means.shape
    if fit.loadings is not None:
        return torch.diag_embed(fit.covariances) + fit.loadings @ fit.loadings.mT
    if fit.covariances.shape == (size, width, width):
        return fit.covariances
    if fit.covariances.shape == (width, width):
        return fit.covariances.expand(size, -1, -1)
    return torch.diag_embed(fit.covariances)


def joint_by_definition(fit, x):
    """log π_k p_k of the seen cells of each row, (n, K), row by row and component by component."""
    found = torch.zeros(len(x), len(fit.log_weights), dtype=torch.double)
    sigmas = matrices(fit)
    for (row, cells), k in itertools.product(enumerate(x), range(len(fit.log_weights))):
        numbers = cells[list(fit.layout.numbers)]
        seen = ~numbers.isnan()
        sigma, off = sigmas[k][seen][:, seen], numbers[seen] - fit.means[k][seen]
        value = fit.log_weights[k] - 0.5 * (off @ torch.linalg.inv(sigma) @ off + int(seen.sum()) * LOG_2PI)
        value = value - 0.5 * torch.linalg.slogdet(sigma)[1]
        for column, states in fit.tables.items():
            if not cells[column].isnan():
                value = value + states[k, int(cells[column])].log()
        found[row, k] = value
    return found


@pytest.mark.parametrize(("kind", "rank"), KINDS)
@pytest.mark.parametrize("gaps", [0.0, 0.3])
def test_log_prob_is_the_density_of_what_is_seen(kind, rank, gaps):
    x = table(80, gaps=gaps)
    fit = fit_mixture(x, 3, covariance=kind, rank=rank, iterations=5)
    assert torch.allclose(fit.log_prob(x), joint_by_definition(fit, x).logsumexp(1), rtol=0, atol=1e-9)


@pytest.mark.parametrize("sizes", SIZES)
def test_log_prob_of_mixed_columns_is_the_density_of_what_is_seen(sizes):
    x, categories = mixed(60, sizes=sizes)
    fit = fit_mixture(x, 3, categories=categories, iterations=5)
    assert torch.allclose(fit.log_prob(x), joint_by_definition(fit, x).logsumexp(1), rtol=0, atol=1e-9)
    for states in fit.tables.values():
        assert torch.allclose(states.sum(1), torch.ones(3).double())


@pytest.mark.parametrize(("kind", "rank"), KINDS)
@pytest.mark.parametrize(("gaps", "prior"), [(0.0, 0.0), (0.0, 5.0), (0.3, 0.0), (0.3, 5.0)])
def test_no_iteration_decreases_the_bound(kind, rank, gaps, prior):
    x = table(gaps=gaps)
    options = {"prior": prior, "iterations": 60, "tolerance": -1.0, "warm_up": 0}
    bounds = [step.bound for step in fit_mixture(x, 4, covariance=kind, rank=rank, **options).history]
    assert len(bounds) == 60
    assert np.diff(bounds).min() > -1e-9
    assert bounds[-1] > bounds[0] + 0.1


@pytest.mark.parametrize("sizes", SIZES)
def test_no_iteration_decreases_the_bound_of_mixed_columns(sizes):
    x, categories = mixed(sizes=sizes)
    fit = fit_mixture(x, 4, categories=categories, iterations=60, tolerance=-1.0, warm_up=0)
    assert np.diff([step.bound for step in fit.history]).min() > -1e-9


@pytest.mark.parametrize("sizes", SIZES)
def test_looking_up_and_counting_states_are_products_with_indicators(sizes):
    x, categories = mixed(50, sizes=sizes)
    layout = Layout.of(4, categories)
    states = layout.split(x, x.device)[1]
    tables = torch.randn(3, sum(sizes), dtype=torch.double)
    mass = torch.rand(50, 3, dtype=torch.double)
    assert layout.is_wide == (max(sizes) > 8)
    seen = layout.indicators(states)
    assert torch.allclose(layout.looked_up(states, tables), seen @ tables.mT)
    assert torch.allclose(layout.counted(states, mass), mass.mT @ seen)


def test_a_floor_holds_and_the_bound_still_never_decreases():
    x = table(60)
    x[:, 1] = x[:, 0]  # singular
    fit = fit_mixture(x, 5, prior=0.0, floor=1e-3, iterations=40, tolerance=-1.0, warm_up=0)
    deviations = x.std(0, correction=0)
    least = torch.linalg.eigvalsh(fit.covariances / deviations / deviations[:, None]).min()
    assert least == pytest.approx(1e-3, rel=1e-6)
    assert np.diff([step.bound for step in fit.history]).min() > -1e-9


def test_one_component_has_the_moments_of_the_rows():
    x = table()
    fit = fit_mixture(x, 1, prior=0.0)
    assert torch.allclose(fit.means[0], x.mean(0))
    assert torch.allclose(fit.covariances[0], torch.cov(x.mT, correction=0))


def test_one_component_has_the_shrunken_covariance():
    x = table()
    fit = fit_mixture(x, 1, prior=100.0)
    covariance = torch.cov(x.mT, correction=0)
    expected = covariance + 100 / 400 * 1e-6 * torch.diag(covariance.diagonal())
    assert torch.allclose(fit.covariances[0], expected)  # (300 Σ + 100 Σ₀) / 400, Σ₀ = Σ + 1e-6 diag Σ


def test_one_component_has_the_smoothed_frequencies():
    x, categories = mixed(gaps=0.0)
    fit = fit_mixture(x, 1, categories=categories, smoothing=10.0)
    counts = torch.bincount(x[:, 1].long(), minlength=3).double()
    overall = (counts + 1 / 3) / 301
    assert torch.allclose(fit.tables[1][0], (counts + 10 * overall) / 310)


@pytest.mark.parametrize("kind", ["full", "diagonal", "tied"])
def test_iterations_are_those_of_scikit_learn(kind):
    x = table()
    begin = fit_mixture(x, 3, covariance=kind, prior=0.0, iterations=3, warm_up=0)
    precisions = torch.linalg.inv(begin.covariances) if kind != "diagonal" else 1 / begin.covariances
    peer = GaussianMixture(
        3,
        covariance_type={"diagonal": "diag"}.get(kind, kind),
        weights_init=begin.log_weights.exp().numpy(),
        means_init=begin.means.numpy(),
        precisions_init=precisions.numpy(),
        reg_covar=0.0,
        tol=0.0,
        max_iter=20,
    )
    with pytest.warns(UserWarning, match="converge"):
        peer.fit(x.numpy())
    ours = fit_mixture(x, 3, covariance=kind, prior=0.0, start=begin, iterations=20, tolerance=-1.0)
    assert np.allclose(ours.means, peer.means_, atol=1e-7)
    assert np.allclose(ours.covariances, peer.covariances_, atol=1e-7)
    assert np.allclose(ours.log_weights.exp(), peer.weights_, atol=1e-9)
    assert np.allclose(ours.log_prob(x), peer.score_samples(x.numpy()), atol=1e-6)


def test_an_iteration_with_gaps_is_that_of_rows_completed_one_by_one():
    x = table(60, 3, gaps=0.3)
    begin = fit_mixture(x, 2, prior=0.0, iterations=2, warm_up=0)
    after = fit_mixture(x, 2, prior=0.0, start=begin, iterations=1, tolerance=-1.0)
    posterior = joint_by_definition(begin, x).softmax(1)
    for k in range(2):
        mass, first, second = 0.0, torch.zeros(3).double(), torch.zeros(3, 3).double()
        for row, weight in zip(x, posterior[:, k], strict=True):
            seen, sigma, mean = ~row.isnan(), begin.covariances[k], begin.means[k]
            full, spread = row.clone(), torch.zeros(3, 3).double()
            back = sigma[~seen][:, seen] @ torch.linalg.inv(sigma[seen][:, seen])
            full[~seen] = mean[~seen] + back @ (row[seen] - mean[seen])
            rest = sigma[~seen][:, ~seen] - back @ sigma[seen][:, ~seen]
            spread[(~seen).nonzero(), (~seen).nonzero().T] = rest
            mass, first = mass + weight, first + weight * full
            second = second + weight * (full.outer(full) + spread)
        mean = first / mass
        assert torch.allclose(after.means[k], mean, atol=1e-9)
        assert torch.allclose(after.covariances[k], second / mass - mean.outer(mean), atol=1e-8)
        assert float(after.log_weights[k].exp()) == pytest.approx(float(mass / len(x)))


@pytest.mark.parametrize(("kind", "rank"), KINDS)
def test_weights_of_rows_are_repeated_rows(kind, rank):
    x = table(100, gaps=0.2)
    weights = torch.arange(100) % 4
    options = {"covariance": kind, "rank": rank, "iterations": 10, "tolerance": -1.0}
    begin = fit_mixture(x, 3, covariance=kind, rank=rank, iterations=2)
    weighted = fit_mixture(x, 3, weights=weights, start=begin, **options)
    repeated = fit_mixture(x.repeat_interleave(weights, 0), 3, start=begin, **options)
    assert torch.allclose(weighted.log_prob(x), repeated.log_prob(x), atol=1e-9)


def test_rows_of_weight_0_are_absent():
    x, categories = mixed(200)
    weights = (torch.arange(200) % 3 > 0).double()
    some = fit_mixture(x, 3, categories=categories, weights=weights)
    assert torch.equal(some.log_prob(x), fit_mixture(x[weights > 0], 3, categories=categories).log_prob(x))


@pytest.mark.parametrize("gaps", [0.0, 0.2])
def test_units_of_columns_do_not_matter(gaps):
    x = table(gaps=gaps)
    scale, shift = torch.tensor([1e3, 1.0, 1e-3, 1.0]).double(), torch.tensor([1e5, 0.0, 0.0, -7.0]).double()
    plain, moved = fit_mixture(x, 3), fit_mixture(x * scale + shift, 3)
    log_probs = moved.log_prob(x * scale + shift) + scale.log() @ (~x.isnan()).double().mT
    assert torch.allclose(plain.log_prob(x), log_probs, atol=1e-5)


def test_order_of_rows_and_blocks_of_patterns_do_not_matter():
    x = table(200, 3, gaps=0.4)
    begin = fit_mixture(x, 3, iterations=2)
    order = torch.randperm(200, generator=torch.Generator().manual_seed(1))
    a, b = (fit_mixture(rows, 3, start=begin, iterations=5, tolerance=-1.0) for rows in (x, x[order]))
    assert torch.allclose(a.log_prob(x), b.log_prob(x), atol=1e-9)


def test_masked_cells_are_missing_whatever_they_hold():
    x = table(100, gaps=0.2)
    rows = Rows(torch.where(x.isnan(), 1e30, x), x.isnan())
    assert torch.equal(fit_mixture(rows, 2).log_prob(rows), fit_mixture(x, 2).log_prob(x))


def test_a_row_without_any_cell_has_probability_1():
    fit = fit_mixture(table(50), 2)
    assert fit.log_prob(torch.full((1, 4), torch.nan)).item() == pytest.approx(0.0, abs=1e-12)


def test_columns_of_categories_alone_find_the_classes():
    generator = torch.Generator().manual_seed(0)
    which = torch.randint(2, (2000, 1), generator=generator)
    x = (which ^ (torch.rand(2000, 8, generator=generator) < 0.1)).double()
    fit = fit_mixture(x, 2, categories=dict.fromkeys(range(8), 2))
    ones = torch.stack([states[:, 1] for states in fit.tables.values()], 1)
    assert sorted(round(float(value), 1) for value in ones.mean(1)) == [0.1, 0.9]


def test_the_seed_decides():
    x = table()
    a, b, c = (fit_mixture(x, 5, seed=seed, iterations=3).means for seed in (1, 1, 2))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


def test_validation_keeps_the_best_mixture():
    x, valid = table(60, seed=0), table(500, seed=0)[200:]
    fit = fit_mixture(x, 12, prior=0.1, valid=valid, tolerance=-1.0, iterations=50, patience=5)
    scores = [step.valid for step in fit.history]
    assert float(fit.log_prob(valid).mean()) == pytest.approx(max(scores))
    assert scores[-1] < max(scores)


def test_more_starts_are_not_worse():
    x = table(500)
    one, many = (fit_mixture(x, 6, starts=starts, seed=3, tolerance=1e-5) for starts in (1, 6))
    assert many.history[-1].bound >= one.history[-1].bound - 1e-3


def test_warm_up_sees_some_rows_and_then_all():
    fit = fit_mixture(table(3000), 3, warm_up=200)
    assert (fit.history[0].rows, fit.history[-1].rows) == (200, 3000)


def test_a_callback_sees_all_and_stops():
    seen = []
    fit = fit_mixture(table(), 3, callback=lambda step: seen.append(step) or len(seen) == 4, tolerance=-1.0)
    assert len(seen) == 4
    assert list(fit.history) == seen


def test_more_components_than_different_rows_work():
    x = torch.zeros(20, 2).double()
    x[10:] = 1.0
    assert bool(fit_mixture(x, 8).log_prob(x).isfinite().all())


@pytest.mark.gpu
def test_a_gpu_finds_the_same():
    x = table(gaps=0.1)
    begin = fit_mixture(x, 3, iterations=2)
    here = fit_mixture(x, 3, start=begin, iterations=10, tolerance=-1.0)
    there = fit_mixture(x.cuda(), 3, iterations=10)
    assert there.means.is_cuda
    assert abs(float(there.log_prob(x.cuda()).mean()) - float(here.log_prob(x).mean())) < 0.5


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"components": 0}, "components=0"),
        ({"covariance": "ful"}, "did you mean 'full'"),
        ({"covariance": "low-rank"}, "rank=None"),
        ({"prior": -1.0}, "prior=-1.0"),
        ({"starts": 0}, "starts=0"),
    ],
)
def test_wrong_arguments_are_named(options, said):
    with pytest.raises(ParameterError, match=said):
        fit_mixture(table(50), **{"components": 2, **options})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"weights": torch.ones(3)}, "weights of shape"),
        ({"weights": -torch.ones(50)}, "negative"),
        ({"categories": {1: 3}}, "none of its 3 states"),
        ({"categories": {9: 3}}, "no such column"),
        ({"components": 51}, "51 components of 50 rows"),
    ],
)
def test_wrong_data_is_named(options, said):
    with pytest.raises(DataError, match=said):
        fit_mixture(table(50), **{"components": 2, **options})


def test_infinite_cells_are_named():
    x = table(50)
    x[7, 2] = math.inf
    with pytest.raises(DataError, match="row 7, column 2 is inf"):
        fit_mixture(x, 2)
