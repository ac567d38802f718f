"""The laws of the 2-D generators: moments and shapes worked out by hand from their formulas."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from squircuit.data import fresh, ring, spinner, spiral
from squircuit.errors import ParameterError

N = 200_000
CLOSE = 0.02  # several standard errors of a mean of N points


@pytest.mark.parametrize("generator", [ring, spinner, spiral])
def test_the_same_seed_gives_the_same_points_and_another_others(generator):
    np.testing.assert_array_equal(generator(50, seed=3), generator(50, seed=3))
    assert not np.array_equal(generator(50, seed=3), generator(50, seed=4))
    assert generator(50).shape == (50, 2)


def test_ring_has_radius_one_and_spread_026():
    points = ring(N)
    radius = np.hypot(*points.T)
    # E r² = 1 + 0.26², and E r⁴ = 1 + 6·0.26² + 3·0.26⁴, whatever the sign of r.
    assert abs((radius**2).mean() - (1 + 0.26**2)) < CLOSE
    assert abs((radius**4).mean() - (1 + 6 * 0.26**2 + 3 * 0.26**4)) < CLOSE
    assert np.abs(points.mean(axis=0)).max() < CLOSE
    assert abs(np.cov(points.T)[0, 1]) < CLOSE


def test_spinner_is_three_rings_at_its_centres():
    points = spinner(N)
    centres = 1.04 * np.array([[-1, -1], [1, -1], [0, 1]])
    assert np.abs(points.mean(axis=0) - centres.mean(axis=0)).max() < CLOSE
    within = (1 + 0.26**2) / 2  # the variance of one coordinate of a ring
    assert np.abs(points.var(axis=0) - (within + centres.var(axis=0))).max() < CLOSE


def test_spiral_has_its_second_moment_and_threefold_symmetry():
    points = spiral(N)
    # E|x|² = E (1.5πu)² + 2 E (0.5u + 0.1)², u uniform on (0, 1).
    expected = (1.5 * np.pi) ** 2 / 3 + 2 * (0.25 / 3 + 0.1 / 2 + 0.01)
    assert abs((points**2).sum(axis=1).mean() - expected) < 4 * CLOSE
    z = points @ np.array([1, 1j])
    assert abs(z.mean()) < CLOSE
    # E z³ = E (1.5πu)³ exp(3πiu), the same for each arm: a law that mirrored or two-armed spirals break.
    u = (np.arange(100_000) + 0.5) / 100_000
    cubed = ((1.5 * np.pi * u) ** 3 * np.exp(3j * np.pi * u)).mean()
    assert abs((z**3).mean() - cubed) < 0.05 * abs(cubed)


def test_noise_adds_its_variance_and_fresh_batches_differ():
    assert abs(ring(N, noise=0.5).var() - ring(N).var() - 0.25) < CLOSE
    points = ring(100)
    first, second = islice(fresh(points, batch=64, seed=1), 2)
    assert first.shape == second.shape == (64, 2)
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(first, next(fresh(points, batch=64, seed=1)))
    nearest = np.linalg.norm(first[:, None] - points, axis=2).min(axis=1)
    assert 0 < nearest.max() < 0.5


def test_nonsense_is_refused():
    with pytest.raises(ParameterError, match="n=0"):
        ring(0)
    with pytest.raises(ParameterError, match=r"noise=-0\.1"):
        spiral(3, noise=-0.1)
