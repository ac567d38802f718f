"""Gaussians as exponential families: log N(x; μ, Σ) is linear in features of x, whatever cells are missing.

With the features T(x) = (1, x, x xᵀ), in which missing cells are 0, the joint log-density of rows and
components is one matrix product, T θ, and everything that EM collects is another, rᵀ T. Both are done in
double precision: Σ⁻¹ may be large, and what is added up cancels.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Self, final

import torch
from torch import Tensor

LOG_2PI = math.log(2 * math.pi)


@final
@dataclass(frozen=True)
class Prior:
    """An inverse-Wishart prior on covariances: as if `rows` rows with this covariance had been seen.

    Args:
        rows: how many; 0: maximum likelihood.
        covariance: (D, D), that is expected of a component.
        floor: no variance in any direction is below it.
    """

    rows: float
    covariance: Tensor
    floor: float


@final
@dataclass
class Moments:
    """What EM collects: Σ r, Σ r x and Σ r x xᵀ of each component, missing cells completed.

    Args:
        counts: (K, 1), or (K, D) where each column counts the rows that show it.
        first: (K, D).
        second: (K, D, D), or its diagonal (K, D).
    """

    counts: Tensor
    first: Tensor
    second: Tensor

    def add(self, other: Moments) -> None:
        """Those of more rows."""
        self.counts += other.counts
        self.first += other.first
        self.second += other.second


class Gaussians(ABC):
    """K Gaussians over D columns. All numbers are double."""

    means: Tensor  # (K, D)

    @staticmethod
    @abstractmethod
    def features(x: Tensor) -> Tensor:
        """T(x): (..., D) → (..., F), the first of them 1; missing cells of x hold 0."""

    @abstractmethod
    def natural(self, seen: Tensor) -> Tensor:
        """θ with log N(x_O; μ_O, Σ_OO) = T(x) θ, (P, F, K), for patterns (P, D) of cells that are seen."""

    @abstractmethod
    def completed(self, sums: Tensor, seen: Tensor) -> Moments:
        """Σ rᵀ T(x) of each pattern (P, K, F), with what is expected of missing cells, over all patterns."""

    @abstractmethod
    def updated(self, moments: Moments, prior: Prior) -> Self:
        """The maximum (or an improvement) of Σ r log N + log prior over means and covariances."""

    @abstractmethod
    def log_prior(self, prior: Prior) -> Tensor:
        """Σ_k −½ rows (log|Σ_k| + tr Σ_k⁻¹ Σ_0): the prior up to a constant."""

    @property
    @abstractmethod
    def covariances(self) -> Tensor:
        """Covariances as `MixtureFit` has them."""

    @property
    def loadings(self) -> Tensor | None:
        """(K, D, rank) of a low rank, else None."""
        return None

    @abstractmethod
    def scaled(self, scale: Tensor, shift: Tensor) -> Self:
        """Those of x · scale + shift, (D,) each."""

    def widened(self, width: float) -> Self:
        """The same means, and covariances so many times as large."""
        scale = torch.full_like(self.means[0], width**0.5)
        wide = self.scaled(scale, torch.zeros_like(scale))
        return replace(wide, means=self.means)  # type: ignore[type-var]  # all kinds are dataclasses


@dataclass(frozen=True)
class Full(Gaussians):
    """Gaussians with a covariance each.

    Args:
        means: (K, D).
        matrices: Σ, (K, D, D).

    Example:
        >>> one = Full(torch.zeros(1, 2, dtype=torch.double), torch.eye(2, dtype=torch.double)[None])
        >>> x = torch.tensor([[0.0, 1.0]], dtype=torch.double)
        >>> (one.features(x) @ one.natural(torch.tensor([[True, True]]))[0]).item()  # −½ − log 2π
        -2.3378770664093453
    """

    means: Tensor
    matrices: Tensor

    @staticmethod
    def features(x: Tensor) -> Tensor:
        i, j = torch.triu_indices(x.shape[-1], x.shape[-1], device=x.device)
        return torch.cat([x.new_ones(*x.shape[:-1], 1), x, x[..., i] * x[..., j]], -1)

    def natural(self, seen: Tensor) -> Tensor:
        precisions, log_determinants = self._precisions(seen)  # (P, K, D, D), (P, K)
        linear = (precisions @ self.means[..., None])[..., 0]
        constant = -0.5 * (
            (linear * self.means).sum(-1)
            + log_determinants
            + seen.sum(-1, dtype=torch.double)[:, None] * LOG_2PI
        )
        i, j = torch.triu_indices(self.means.shape[1], self.means.shape[1], device=seen.device)
        pairs = precisions[..., i, j] * torch.where(i == j, -0.5, -1.0)
        return torch.cat([constant[..., None], linear, pairs], -1).mT

    def _precisions(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Σ_OO⁻¹ with zeros at missing cells, and log|Σ_OO|."""
        both = seen[:, None, :, None] & seen[:, None, None, :]
        padded = self.matrices * both + torch.diag_embed((~seen).double())[:, None]
        factor = torch.linalg.cholesky(padded)
        log_determinants = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return torch.cholesky_inverse(factor) * both, log_determinants

    def completed(self, sums: Tensor, seen: Tensor) -> Moments:
        counts, first, second = self._unpacked(sums)
        if not bool(seen.all()):
            first, second = self._with_expected(counts, first, second, seen)
        return Moments(counts.sum(0), first.sum(0), second.sum(0))

    def _unpacked(self, sums: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        width = self.means.shape[1]
        i, j = torch.triu_indices(width, width, device=sums.device)
        second = sums.new_zeros(*sums.shape[:-1], width, width)
        second[..., i, j] = second[..., j, i] = sums[..., 1 + width :]
        return sums[..., :1], sums[..., 1 : 1 + width], second

    def _with_expected(
        self, counts: Tensor, first: Tensor, second: Tensor, seen: Tensor
    ) -> tuple[Tensor, Tensor]:
        # x̂ = μ + G (x_O − μ_O) with G = Σ_:O Σ_OO⁻¹ is affine in what is seen, so the moments of completed
        # rows follow from those of the seen cells: no row is touched, however many share the pattern.
        gain = self.matrices @ self._precisions(seen)[0]  # (P, K, D, D), columns of missing cells are 0
        mean = self.means * seen[:, None]
        deviations = first - counts * mean
        cross = deviations[..., None] * mean[..., None, :]
        centred = second - cross - cross.mT - counts[..., None] * mean[..., None] * mean[..., None, :]
        rest = self.matrices - gain @ (self.matrices * seen[:, None, :, None])
        moved = (gain @ deviations[..., None])[..., 0]
        across = moved[..., None] * self.means[:, None, :]
        outer = self.means[:, :, None] * self.means[:, None, :]
        spread = gain @ centred @ gain.mT + counts[..., None] * (rest + outer)
        return counts * self.means + moved, spread + across + across.mT

    def _fitted(self, moments: Moments, prior: Prior) -> tuple[Tensor, Tensor]:
        """Means, and Σ r (x − μ)(x − μ)ᵀ + rows Σ_0, before the division by Σ r + rows."""
        means = torch.where(moments.counts > 0, moments.first / moments.counts, self.means)
        outer = means[:, :, None] * means[:, None, :]
        scatter = moments.second - moments.counts[..., None] * outer + prior.rows * prior.covariance
        return means, (scatter + scatter.mT) / 2

    def updated(self, moments: Moments, prior: Prior) -> Self:
        means, scatter = self._fitted(moments, prior)
        mass = moments.counts[..., None] + prior.rows
        matrices = torch.where(mass > 0, scatter / mass, self.matrices)
        return type(self)(means, raised(matrices, prior.floor))

    def log_prior(self, prior: Prior) -> Tensor:
        seen = torch.ones(1, self.means.shape[1], dtype=torch.bool, device=self.means.device)
        precisions, log_determinants = self._precisions(seen)
        return -0.5 * prior.rows * (log_determinants.sum() + (precisions * prior.covariance).sum())

    @property
    def covariances(self) -> Tensor:
        return self.matrices

    def scaled(self, scale: Tensor, shift: Tensor) -> Self:
        return type(self)(self.means * scale + shift, self.matrices * scale * scale[:, None])


@final
@dataclass(frozen=True)
class Tied(Full):
    """Gaussians with one covariance, which `matrices` repeats."""

    def updated(self, moments: Moments, prior: Prior) -> Self:
        means, scatter = self._fitted(moments, Prior(0.0, prior.covariance, prior.floor))
        pooled = scatter.sum(0) + prior.rows * prior.covariance
        return type(self)(
            means, raised(pooled / (moments.counts.sum() + prior.rows), prior.floor).expand_as(scatter)
        )

    def log_prior(self, prior: Prior) -> Tensor:
        return super().log_prior(prior) / len(self.means)

    @property
    def covariances(self) -> Tensor:
        return self.matrices[0]


@final
@dataclass(frozen=True)
class LowRank(Full):
    """Gaussians with Σ = diag(variances) + U Uᵀ, mixtures of factor analysers.

    Args:
        variances: (K, D).
        factors: U, (K, D, rank).
    """

    variances: Tensor
    factors: Tensor

    @classmethod
    def of(cls, means: Tensor, variances: Tensor, factors: Tensor) -> Self:
        """Make the Gaussians from what defines them."""
        return cls(means, torch.diag_embed(variances) + factors @ factors.mT, variances, factors)

    def updated(self, moments: Moments, prior: Prior) -> Self:
        # One step of the EM of factor analysis, which never decreases the expected log-likelihood.
        means, scatter = self._fitted(moments, prior)
        mass = moments.counts[..., None] + prior.rows
        target = torch.where(mass > 0, scatter / mass, self.matrices)
        back = torch.linalg.solve(self.matrices, self.factors).mT  # E[z | x] = back (x − μ), (K, rank, D)
        towards = target @ back.mT
        eye = torch.eye(back.shape[1], dtype=back.dtype, device=back.device)
        factors = torch.linalg.solve(eye - back @ self.factors + back @ towards, towards.mT).mT
        variances = (target - factors @ towards.mT).diagonal(dim1=-2, dim2=-1).clamp(min=prior.floor)
        return type(self).of(means, variances, factors)

    @property
    def covariances(self) -> Tensor:
        return self.variances

    @property
    def loadings(self) -> Tensor:
        return self.factors

    def scaled(self, scale: Tensor, shift: Tensor) -> Self:
        return type(self).of(
            self.means * scale + shift, self.variances * scale**2, self.factors * scale[:, None]
        )


@final
@dataclass(frozen=True)
class Diagonal(Gaussians):
    """Gaussians with independent columns: a cell that is missing says nothing, so each column counts its own.

    Args:
        means: (K, D).
        variances: (K, D).
    """

    means: Tensor
    variances: Tensor

    @staticmethod
    def features(x: Tensor) -> Tensor:
        return torch.cat([x.new_ones(*x.shape[:-1], 1), x, x * x], -1)

    def natural(self, seen: Tensor) -> Tensor:
        shown = seen[:, None].double()
        linear = self.means / self.variances
        constant = -0.5 * (linear * self.means + self.variances.log() + LOG_2PI) * shown
        pieces = [constant.sum(-1, keepdim=True), linear * shown, -0.5 / self.variances * shown]
        return torch.cat(pieces, -1).mT

    def completed(self, sums: Tensor, seen: Tensor) -> Moments:
        counts, first, second = torch.split(sums, [1, *[self.means.shape[1]] * 2], -1)
        return Moments((counts * seen[:, None]).sum(0), first.sum(0), second.sum(0))

    def updated(self, moments: Moments, prior: Prior) -> Self:
        means = torch.where(moments.counts > 0, moments.first / moments.counts, self.means)
        scatter = moments.second - moments.counts * means**2 + prior.rows * prior.covariance.diagonal()
        mass = moments.counts + prior.rows
        return type(self)(means, torch.where(mass > 0, scatter / mass, self.variances).clamp(min=prior.floor))

    def log_prior(self, prior: Prior) -> Tensor:
        spread = prior.covariance.diagonal() / self.variances
        return -0.5 * prior.rows * (self.variances.log() + spread).sum()

    @property
    def covariances(self) -> Tensor:
        return self.variances

    def scaled(self, scale: Tensor, shift: Tensor) -> Self:
        return type(self)(self.means * scale + shift, self.variances * scale**2)


def raised(matrices: Tensor, floor: float) -> Tensor:
    """The eigenvalues below a floor raised to it: the maximum of the likelihood over all Σ ⪰ floor · 1.

    Example:
        >>> raised(torch.tensor([[1.0, 1.0], [1.0, 1.0]]), 0.5)
        tensor([[1.2500, 0.7500],
                [0.7500, 1.2500]])
    """
    eye = torch.eye(matrices.shape[-1], dtype=matrices.dtype, device=matrices.device)
    low = torch.linalg.cholesky_ex(matrices - floor * eye).info > 0
    if not bool(low.any()):
        return matrices
    values, vectors = torch.linalg.eigh(matrices)
    lifted = (vectors * values.clamp(min=floor)[..., None, :]) @ vectors.mT
    return torch.where(low[..., None, None], (lifted + lifted.mT) / 2, matrices)
