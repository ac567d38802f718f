"""Simple models of discrete images, each with ``log_prob(x)``: (n, d) levels → (n,) nats."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.mixture import GaussianMixture

Array = NDArray[Any]


class Model(Protocol):
    def log_prob(self, x: Array) -> Array: ...


M = TypeVar("M", bound=Model)


@dataclass(frozen=True)
class IndependentPixels:
    """p(x) = ∏_v p_v(x_v), each p_v by counting, with one imagined image for each level (Laplace).

    Example:
        >>> model = IndependentPixels.fit(np.array([[0, 1], [0, 2]]), levels=3)
        >>> round(float(np.exp(model.log_prob(np.array([[0, 1]]))[0])), 12)  # 3/5 · 2/5
        0.24
    """

    table: Array  # (d, levels) log-probabilities

    @staticmethod
    def fit(x: Array, levels: int) -> IndependentPixels:
        counts = one_hot(x, levels).sum(axis=0) + 1
        return IndependentPixels(np.log(counts / counts.sum(axis=1, keepdims=True)))

    def log_prob(self, x: Array) -> Array:
        return self.table[np.arange(x.shape[1]), x].sum(axis=1)


@dataclass(frozen=True)
class MixtureOfPixels:
    """p(x) = Σ_k w_k ∏_v p_kv(x_v), by expectation-maximisation; counts begin at ``smoothing``."""

    weights: Array  # (K,) logarithms
    tables: Array  # (K, d, levels) log-probabilities

    @staticmethod
    def fit(
        x: Array, levels: int, components: int, smoothing: float, seed: int = 0, steps: int = 60
    ) -> MixtureOfPixels:
        hot, rng = one_hot(x, levels), np.random.default_rng(seed)
        shares = rng.dirichlet(np.full(components, 0.2), len(x))  # (n, K)
        for _ in range(steps):
            counts = np.tensordot(shares, hot, axes=(0, 0)) + smoothing
            weights = (shares.sum(axis=0) + smoothing) / (len(x) + smoothing * components)
            model = MixtureOfPixels(np.log(weights), np.log(counts / counts.sum(axis=2, keepdims=True)))
            joint = model.log_joint(x)
            shares = np.exp(joint - np.logaddexp.reduce(joint, axis=1, keepdims=True))
        return model

    def log_joint(self, x: Array) -> Array:
        """log p(k, x): (n, K)."""
        return self.weights + self.tables[:, np.arange(x.shape[1]), x].sum(axis=2).T

    def log_prob(self, x: Array) -> Array:
        return np.logaddexp.reduce(self.log_joint(x), axis=1)


@dataclass(frozen=True)
class DequantisedGaussians:
    """A mixture of Gaussians, a density q of x + u with u uniform in the unit cube.

    p(x) = ∫ q(x + u) du is a probability of levels. It has no closed form; the mean of q over some draws of u
    has the right expectation, so its logarithm is in expectation below log p(x), by Jensen's inequality: a
    lower bound, the tighter the more draws.
    """

    mixture: GaussianMixture
    draws: int
    seed: int

    @staticmethod
    def fit(
        x: Array, components: int, ridge: float, seed: int = 0, copies: int = 4, draws: int = 16
    ) -> DequantisedGaussians:
        rng = np.random.default_rng(seed)
        noisy = np.concatenate([x + rng.random(x.shape) for _ in range(copies)])
        mixture = GaussianMixture(components, reg_covar=ridge, max_iter=50, random_state=seed)
        return DequantisedGaussians(mixture.fit(noisy), draws, seed + 1)

    def log_prob(self, x: Array) -> Array:
        rng = np.random.default_rng(self.seed)
        log_q = [self.mixture.score_samples(x + rng.random(x.shape)) for _ in range(self.draws)]
        return np.logaddexp.reduce(np.stack(log_q), axis=0) - np.log(self.draws)


def best_on(valid: Array, models: Iterable[Callable[[], M]]) -> M:
    """The model that gives validation rows the greatest likelihood."""
    return max((make() for make in models), key=lambda model: float(model.log_prob(valid).mean()))


def one_hot(x: Array, levels: int) -> Array:
    """(n, d) → (n, d, levels)."""
    return np.eye(levels)[x]
