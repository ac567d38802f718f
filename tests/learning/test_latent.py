"""Laws of continuous mixtures of products of categories."""

import itertools

import numpy as np
import pytest
import torch

import squircuit as sq
from squircuit.learning.candidates import candidates
from squircuit.learning.decoder import Decoder, latent_points
from squircuit.learning.latent import LatentMixture, States, em_step, mean_log_prob
from squircuit.learning.members import Tree
from squircuit.learning.mixture import Layout

SIZES = (2, 3, 2, 4)
CPU = torch.device("cpu")
SMALL = LatentMixture(2, points=16, components=32)


def rows(count=400, gaps=0.0, seed=0):
    """Columns that all follow one hidden number."""
    rng = np.random.default_rng(seed)
    hidden = rng.random(count)
    x = np.stack([(hidden * size + rng.normal(0, 0.4, count)).clip(0, size - 1e-9) // 1 for size in SIZES], 1)
    x[rng.random(x.shape) < gaps] = np.nan
    return x


def table(count=400, gaps=0.0):
    return sq.data.table(rows(count, gaps), {str(v): f"count:0:{size - 1}" for v, size in enumerate(SIZES)})


@pytest.fixture(scope="module")
def member():
    return SMALL.fit(table(200), None, 0, CPU)


def every_row():
    return torch.tensor(list(itertools.product(*map(range, SIZES))))


def test_the_probabilities_of_all_rows_sum_to_one(member):
    model = member.model()
    assert model.log_prob(every_row()).exp().sum().item() == pytest.approx(1, abs=1e-9)
    assert model.log_partition().item() == pytest.approx(0, abs=1e-9)


def test_it_is_the_finite_mixture_that_it_says(member):
    x = every_row()
    tables = member.found.tables
    terms = member.found.log_weights.exp() * torch.stack([tables[v][:, x[:, v]] for v in tables]).prod(0).T
    torch.testing.assert_close(member.model().log_prob(x).exp(), terms.sum(1), atol=1e-12, rtol=1e-9)
    torch.testing.assert_close(member.log_prob(sq.data.Rows(x.numpy())).exp(), terms.sum(1))


def test_missing_cells_are_summed_out(member):
    x, model = every_row(), member.model()
    missing = torch.tensor([False, True, False, True])
    part = model.log_prob(x, missing=missing).exp()
    p = model.log_prob(x).exp().reshape(SIZES)
    expected = p.sum((1, 3), keepdim=True).expand(SIZES).reshape(-1)
    torch.testing.assert_close(part, expected)


def test_arithmetic_in_features_is_that_of_tables_also_with_gaps():
    layout = Layout.of(4, dict(enumerate(SIZES)))
    states = States.of(layout, table(60, gaps=0.3).cells, CPU)
    decoder = Decoder.of(layout, 2, torch.full((sum(SIZES),), 0.3), 0)
    tables = decoder(latent_points(5, 2, 0)).detach()
    expected = torch.zeros(60, 5)
    posteriors = torch.rand(60, 5)
    counts = torch.zeros(5, sum(SIZES))
    for i, row in enumerate(states.states.tolist()):
        for state, first in zip(row, (0, 2, 5, 7), strict=True):
            if state >= 0:
                expected[i] += tables[:, first + state]
                counts[:, first + state] += posteriors[i]
    torch.testing.assert_close(states.log_joint(tables), expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(states.counts(posteriors), counts, atol=1e-4, rtol=1e-4)


def test_em_never_lowers_likelihood_and_prior():
    layout = Layout.of(4, dict(enumerate(SIZES)))
    states = States.of(layout, table(200, gaps=0.2).cells, CPU)
    decoded = Decoder.of(layout, 2, torch.full((sum(SIZES),), 0.3), 0)(latent_points(8, 2, 0)).detach()
    weights, tables, strength, scores = torch.full((8,), 1 / 8).log(), decoded, 4.0, []
    for _ in range(6):
        prior = strength * (decoded.exp() * tables).sum() + 0.1 * weights.sum()
        scores.append(200 * mean_log_prob(tables, weights, states) + prior.item())
        tables, weights = em_step(tables, weights, decoded, strength, states)
    assert all(after > before - 1e-3 for before, after in itertools.pairwise(scores))
    assert scores[-1] > scores[0] + 1


def test_a_row_of_weight_two_is_two_rows_in_em():
    layout = Layout.of(4, dict(enumerate(SIZES)))
    decoded = Decoder.of(layout, 2, torch.full((sum(SIZES),), 0.3), 0)(latent_points(8, 2, 0)).detach()
    once = table(30).cells
    weighted = sq.data.Rows(once.x, once.gaps, np.where(np.arange(30) < 10, 2.0, 1.0))
    twice = once.take(np.r_[np.arange(30), np.arange(10)])
    equal = torch.full((8,), 1 / 8).log()
    found = em_step(decoded, equal, decoded, 4.0, States.of(layout, weighted, CPU))
    expected = em_step(decoded, equal, decoded, 4.0, States.of(layout, twice, CPU))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_rows_of_weight_zero_teach_nothing():
    x = table(60, gaps=0.1).cells
    weights = np.where(np.arange(60) < 40, 1.0, 0.0)
    layout = Layout.of(4, dict(enumerate(SIZES)))
    assert torch.equal(
        States.of(layout, sq.data.Rows(x.x, x.gaps, weights), CPU).states,
        States.of(layout, x.take(slice(40)), CPU).states,
    )


def test_it_learns_what_columns_have_in_common(member):
    new = sq.data.Rows(rows(2000, seed=5).astype(int))
    counts = [np.bincount(rows()[:, v].astype(int), minlength=size) + 1 for v, size in enumerate(SIZES)]
    alone = sum(np.log(c / c.sum())[new.x[:, v]] for v, c in enumerate(counts)).mean()
    assert member.log_prob(new).mean().item() > alone + 0.5


def test_a_seed_gives_the_same_member_twice():
    first, second = (SMALL.fit(table(80, gaps=0.1), None, 3, CPU) for _ in range(2))
    assert torch.equal(first.found.log_tables, second.found.log_tables)
    assert torch.equal(first.found.log_weights, second.found.log_weights)


def test_points_are_shifted_by_the_generator_alone():
    generator = torch.Generator().manual_seed(0)
    fixed = latent_points(64, 3, seed=1)
    assert torch.equal(fixed, latent_points(64, 3, seed=1))
    assert not torch.equal(fixed, latent_points(64, 3, seed=1, generator=generator))


def test_tables_of_categories_get_latent_mixtures_and_trees_and_others_do_not():
    binary = sq.data.table(np.random.default_rng(0).integers(0, 2, (5000, 6)))
    assert {type(one) for one in candidates(binary, ["mixtures", "trees"], 1e12)} >= {LatentMixture, Tree}
    numbers = sq.data.table(np.random.default_rng(0).normal(size=(5000, 3)))
    assert not any(isinstance(one, LatentMixture) for one in candidates(numbers, ["mixtures", "trees"], 1e13))
