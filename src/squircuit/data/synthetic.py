"""Points in the plane: the generators of the paper's experiment with Fourier input functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from squircuit.errors import ParameterError

Points = NDArray[np.float64]
"""(n, 2)"""

SHIFT = 1.04
"""δ of the spinner."""


def ring(n: int, seed: int = 0, noise: float = 0.0) -> Points:
    """n points around the unit circle: (r sin θ, r cos θ), θ ~ U(0, 2π), r = 1 + 0.26 N(0, 1).

    Args:
        n: number of points.
        seed: the same seed gives the same points.
        noise: standard deviation of normal noise added to both coordinates.

    Reference: "How to square tensor networks and circuits without squaring them", appendix "Continuous Input
    Features".

    Example:
        >>> ring(1000, seed=1).shape
        (1000, 2)
    """
    rng = _rng(n, seed, noise)
    return _noisy(_circle(n, rng), noise, rng)


def spinner(n: int, seed: int = 0, noise: float = 0.0) -> Points:
    """Three crossing rings: `ring` moved by (−δ, −δ), (δ, −δ) and (0, δ), δ = 1.04, a third of n each.

    Arguments and reference as for `ring`. The paper models it with period 6.

    Example:
        >>> bool(abs(spinner(3000).mean(axis=0) - [0.0, -SHIFT / 3]).max() < 0.1)
        True
    """
    rng = _rng(n, seed, noise)
    centres = SHIFT * np.array([[-1.0, -1.0], [1.0, -1.0], [0.0, 1.0]])
    return _noisy(_circle(n, rng) + centres[_thirds(n, rng)], noise, rng)


def spiral(n: int, seed: int = 0, noise: float = 0.0) -> Points:
    """Three arms, a third of n points each, that widen outwards.

    Arm s ∈ {0, 2π/3, 4π/3}: u ~ U(0, 1), angle a = πu + s, radius r = 1.5 πu; normal with mean
    (r cos a, r sin a) and standard deviation 0.5 u + 0.1. Arguments and reference as for `ring`. The paper
    models it with period 12.

    Example:
        >>> bool(abs(spiral(3000).mean(axis=0)).max() < 0.2)
        True
    """
    rng = _rng(n, seed, noise)
    arm, u = _thirds(n, rng), rng.random(n)
    angle, radius = np.pi * u + 2 * np.pi / 3 * arm, 1.5 * np.pi * u
    mean = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    points: Points = mean + (0.5 * u + 0.1)[:, None] * rng.standard_normal((n, 2))
    return _noisy(points, noise, rng)


Generator = Callable[[int, int, float], Points]

GENERATORS: dict[str, tuple[Generator, float]] = {
    "ring": (ring, 6.0),
    "spinner": (spinner, 6.0),
    "spiral": (spiral, 12.0),
}
"""Name → the generator, and the period P of Fourier functions that hold its points."""


def fresh(points: Points, batch: int = 1024, seed: int = 0, noise: float = 0.1) -> Iterator[Points]:
    """Batches of points drawn at random with new noise N(0, noise²) in each, without end: the paper's way.

    Example:
        >>> next(fresh(ring(500), batch=32)).shape
        (32, 2)
    """
    rng = _rng(batch, seed, noise)
    while True:
        yield _noisy(points[rng.integers(len(points), size=batch)], noise, rng)


def _circle(n: int, rng: np.random.Generator) -> Points:
    angle, radius = rng.uniform(0, 2 * np.pi, n), 1 + 0.26 * rng.standard_normal(n)
    return np.stack([radius * np.sin(angle), radius * np.cos(angle)], axis=1)


def _thirds(n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """0, 1 and 2, a third of n each (up to one), in random order."""
    return rng.permutation(np.arange(n, dtype=np.int64) % 3)


def _noisy(points: Points, noise: float, rng: np.random.Generator) -> Points:
    return points + noise * rng.standard_normal(points.shape) if noise > 0 else points


def _rng(n: int, seed: int, noise: float) -> np.random.Generator:
    if n < 1 or noise < 0:
        raise ParameterError(f"n={n!r}, noise={noise!r}. Fix: ask for n ≥ 1 points with noise ≥ 0.")
    return np.random.default_rng(seed)
