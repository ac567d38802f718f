"""Monotone maps: smooth, invertible, and fitted to samples of all kinds."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from squircuit.errors import DataError, FormatError, ParameterError
from squircuit.families import Bins, Hermite, Monotone, Transformed, family_from_dict, family_to_dict
from squircuit.families.domain import Interval, Line
from squircuit.families.knots import parts

RANDOM = np.random.default_rng(0)
SAMPLES = {
    "normal": RANDOM.normal(size=1000),
    "heavy": RANDOM.standard_t(1.2, size=2000),
    "lognormal": RANDOM.lognormal(0.0, 2.0, size=1000),
    "uniform": RANDOM.uniform(size=500),
    "bimodal": np.concatenate([RANDOM.normal(-5, 0.01, 500), RANDOM.normal(5, 1, 500)]),
    "whole numbers": RANDOM.poisson(3, 1000).astype(float),
    "zeros in plenty": np.where(
        RANDOM.uniform(size=2000) < 0.92, 0.0, np.round(RANDOM.lognormal(7, 1, 2000))
    ),
    "an outlier": np.concatenate([RANDOM.normal(size=300), [1e6]]),
    "far from zero": 1e8 + RANDOM.normal(size=300),
    "tiny": 1e-9 * RANDOM.normal(size=300),
    "gaps": np.where(RANDOM.uniform(size=400) < 0.5, np.nan, RANDOM.normal(size=400)),
    "two rows": np.array([1.0, 2.0]),
    "one row": np.array([0.3]),
    "constant": np.full(50, 4.0),
    "neighbouring doubles": np.nextafter(1.0, 2.0) * np.array([1.0, 1.0]) + np.array([0.0, 2.3e-16]),
}


def random_map(seed: int, count: int) -> Monotone:
    generator = np.random.default_rng(seed)
    knots, values = (
        np.cumsum(generator.exponential(size=count) * 10 ** generator.uniform(-3, 2)) for _ in "xy"
    )
    slopes = np.exp(generator.normal(0, 2, count))
    return Monotone(tuple(knots), tuple(values), tuple(slopes), tuple(generator.choice([0.0, 0.2, 1.0], 2)))


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 12))
def test_the_inverse_undoes_the_map_and_the_slope_is_the_derivative(seed, count):
    t = random_map(seed, count)
    width = t.knots[-1] - t.knots[0]
    x = torch.linspace(t.knots[0] - width, t.knots[-1] + width, 501, dtype=torch.float64, requires_grad=True)
    y, log_slope = t.forward(x)
    assert y.diff().gt(0).all()
    (derivative,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
    torch.testing.assert_close(log_slope.exp(), derivative, rtol=1e-9, atol=1e-15)
    # what rounding of y alone does to x
    again = t.inverse(y.detach())
    allowed = 1e-14 * (y.abs() + abs(t.values[0]) + abs(t.values[-1])) / derivative + 1e-14 * (
        x.abs() + width
    )
    assert ((again - x).abs() <= 50 * allowed).all()


@given(st.integers(0, 10**6), st.integers(2, 12))
@settings(max_examples=30, deadline=None)
def test_value_and_slope_have_no_jump_at_the_knots(seed, count):
    t = random_map(seed, count)
    knots = torch.tensor(t.knots, dtype=torch.float64)
    y, log_slope = t.forward(knots)
    torch.testing.assert_close(y, torch.tensor(t.values, dtype=torch.float64), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        log_slope.exp(), torch.tensor(t.slopes, dtype=torch.float64), rtol=1e-8, atol=0
    )
    below, _ = t.forward(torch.nextafter(knots, torch.tensor(-torch.inf, dtype=torch.float64)))
    torch.testing.assert_close(below, y, rtol=1e-9, atol=1e-9 * (t.values[-1] - t.values[0]))


def test_the_second_derivative_is_right_too():
    t = random_map(3, 5)
    x = (
        torch.tensor(t.knots, dtype=torch.float64)[:-1]
        + torch.tensor(t.knots, dtype=torch.float64).diff() * 0.3
    )
    assert torch.autograd.gradcheck(lambda x: t.forward(x), [x.requires_grad_()], atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("name", SAMPLES)
def test_fitted_maps_have_slopes_that_are_neither_zero_nor_infinite_and_invert(name):
    sample = SAMPLES[name]
    t = Monotone.fit(sample)
    assert t.domain == t.image == Line()
    x = torch.from_numpy(sample[np.isfinite(sample)])
    y, log_slope = t.forward(x)
    assert y.isfinite().all()
    assert y.abs().max() < 5
    assert log_slope.isfinite().all()
    width = max(t.knots[-1] - t.knots[0], 1e-12)
    assert (t.inverse(y) - x).abs().max() <= 1e-9 * width + 1e-14 * x.abs().max()
    far, _ = t.forward(torch.tensor([-1e30, 1e30], dtype=torch.float64))
    assert far[0] < -5 < 5 < far[1]
    assert far.isfinite().all()


@pytest.mark.parametrize("name", ["normal", "heavy", "lognormal", "uniform", "bimodal"])
def test_fitted_maps_make_other_rows_of_a_column_normal(name):
    sample = np.random.default_rng(1).permutation(SAMPLES[name])
    half = len(sample) // 2
    y, _ = Monotone.fit(sample[:half]).forward(torch.from_numpy(sample[half:]))
    distance = np.abs(norm.cdf(np.sort(y.numpy())) - (np.arange(half) + 0.5) / half).max()
    assert distance < 1.95 * math.sqrt(2 / half)  # Kolmogorov and Smirnov: by chance once in a thousand


def test_a_fitted_map_tells_a_density_of_other_rows_better_than_the_normal_one_of_the_column():
    for name in ("heavy", "lognormal", "bimodal"):
        sample = np.random.default_rng(1).permutation(SAMPLES[name])
        train, other = sample[: len(sample) // 2], sample[len(sample) // 2 :]
        y, log_slope = Monotone.fit(train).forward(torch.from_numpy(other))
        fitted = (norm.logpdf(y.numpy()) + log_slope.numpy()).mean()
        assert fitted > norm.logpdf(other, train.mean(), train.std()).mean() + 0.5


def test_weights_count_like_rows():
    sample = SAMPLES["lognormal"][:200]
    doubled = parts(np.concatenate([sample, sample[:100]]), 16)
    weighted = parts(sample, 16, weights=np.where(np.arange(200) < 100, 2.0, 1.0))
    assert (
        abs(np.interp(1.0, doubled.edges, doubled.below) - np.interp(1.0, weighted.edges, weighted.below))
        < 0.05
    )
    without = parts(sample, 16, weights=np.where(np.arange(200) < 100, 1.0, 0.0))
    assert np.array_equal(without.edges, parts(sample[:100], 16).edges)


def test_whole_numbers_with_many_zeros_get_a_bin_from_minus_a_half_to_a_half():
    found = parts(SAMPLES["zeros in plenty"], 32)
    assert {-0.5, 0.5} <= set(found.edges.tolist())
    assert {-0.5, 0.5} <= set(Bins.fit(SAMPLES["zeros in plenty"], 32).edges)
    share = found.counts[found.edges[:-1] == -0.5].item() / found.counts.sum()
    assert share == pytest.approx((SAMPLES["zeros in plenty"] == 0).mean())


def test_bins_are_at_most_as_many_as_wanted_and_hold_the_sample():
    for count in (3, 10, 64):
        for name, sample in SAMPLES.items():
            bins = Bins.fit(sample, count)
            assert 3 <= bins.size <= count, name
            known = sample[np.isfinite(sample)]
            assert bins.edges[0] <= known.min()
            assert known.max() <= bins.edges[-1]


def test_maps_of_an_interval_are_defined_there_alone():
    t = Monotone((0.0, 1.0, 4.0), (-1.0, 0.5, 1.0), (0.7, 0.9, 0.1), tails=None)
    assert (t.domain, t.image) == (Interval(0.0, 4.0), Interval(-1.0, 1.0))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"knots": (0.0,)}, "knots=.* is not 2 finite numbers"),
        ({"knots": (1.0, 0.0)}, "knots=.* does not increase"),
        ({"values": (0.0, 0.0)}, "values=.* does not increase"),
        ({"values": (0.0, math.nan)}, "values=.* finite"),
        ({"slopes": (1.0, 0.0)}, "slopes=.* is not positive"),
        ({"slopes": (1.0, 1.0, 1.0)}, "slopes=.* is not 2 finite numbers"),
        ({"tails": (0.0, -1.0)}, "tails=.* is negative"),
        ({"tails": (0.0,)}, "tails=.* is not 2 finite numbers"),
        ({"knots": 3}, "knots=3 is not 2 finite numbers"),
    ],
)
def test_what_is_no_monotone_map_is_refused(fields, message):
    with pytest.raises(ParameterError, match=rf"^Monotone: {message}.*Fix"):
        Monotone(**{"knots": (0.0, 1.0), "values": (0.0, 1.0), "slopes": (1.0, 1.0)} | fields)


def test_samples_that_teach_nothing_are_refused():
    for sample in ([], [math.nan], [1.0, math.inf]):
        with pytest.raises(DataError, match="Fix"):
            Monotone.fit(sample)
    for weights in ([1.0], [-1.0, 1.0], [0.0, 0.0], [math.nan, 1.0]):
        with pytest.raises(DataError, match="Fix"):
            Monotone.fit([1.0, 2.0], weights=weights)
    with pytest.raises(ParameterError, match="Fix"):
        Monotone.fit([1.0, 2.0], knots=0)
    with pytest.raises(ParameterError, match=r"count=2.*Fix"):
        Bins.fit([1.0, 2.0], 2)


def test_documents_of_transformed_families_that_are_none_are_refused():
    data = json.loads(json.dumps(family_to_dict(Transformed(Hermite(2), Monotone.fit(SAMPLES["normal"])))))
    assert family_from_dict(data).transform == Monotone.fit(SAMPLES["normal"])
    for change in (
        {"map": "Linear"},
        {"slopes": [1.0]},
        {"knots": "abc"},
        {"knots": None},
        {"colour": 1},
        {"tails": [[1.0], 2.0]},
    ):
        with pytest.raises(FormatError, match="Fix"):
            family_from_dict(data | {"transform": data["transform"] | change})
    with pytest.raises(FormatError, match=r"transform=3 is not a monotone map.*Fix"):
        family_from_dict(data | {"transform": 3})
