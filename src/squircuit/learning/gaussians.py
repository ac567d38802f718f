"""Gaussians as EM takes them: log N of what is seen of some rows, and what is expected of the rest.

Many rows that lack the same cells share θ: with the features T(x) = (1, x, x xᵀ), in which missing cells are
0, the joint log-density of rows and components is one matrix product, T θ, and everything that EM collects is
another, rᵀ T. Rows that lack different cells share Λ = Σ⁻¹: what the missing cells M of a row cost is algebra
of Λ_MM alone, which is small where little is missing. All is done in double precision: Λ may be large, and
what is added up cancels.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self, final

import torch
from torch import Tensor

MOST_SWEPT = 8
"""Rows of matrices that are inverted together."""
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


class Given(ABC):
    """What some Gaussians know of some rows.

    Attributes:
        log_probs: log N(x_O; μ_O, Σ_OO) of what is seen of each row, (B, K).
    """

    log_probs: Tensor

    @abstractmethod
    def moments(self, mass: Tensor) -> Moments:
        """What EM collects of the rows, each of which a component has so much of: (B, K)."""


class Gaussians(ABC):
    """K Gaussians over D columns. All numbers are double."""

    means: Tensor  # (K, D)

    @abstractmethod
    def given(self, x: Tensor, seen: Tensor) -> Given:
        """What is known of rows.

        Args:
            x: (B, D), 0 where cells are missing.
            seen: which cells are not: (D,), those of every row; or (B, D), as many in each row.
        """

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

    def widened(self, widths: Tensor) -> Self:
        """The same means, and standard deviations √w_v times as large, (D,): D Σ D with D = diag √w."""
        scale = widths.to(self.means).sqrt()
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
        >>> one.given(x, torch.tensor([True, True])).log_probs.item()  # −½ − log 2π
        -2.3378770664093453
    """

    means: Tensor
    matrices: Tensor

    def given(self, x: Tensor, seen: Tensor) -> Given:
        return _OfPattern.of(self, x, seen) if seen.ndim == 1 else _OfRows.of(self, x, seen)

    @cached_property
    def precisions(self) -> tuple[Tensor, Tensor]:
        """Σ⁻¹, (K, D, D), and log|Σ|, (K,)."""
        return self.precisions_of(torch.ones_like(self.means[0], dtype=torch.bool))

    def precisions_of(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Σ_OO⁻¹ with zeros at missing cells, and log|Σ_OO|, of the cells that are seen, (D,)."""
        both = seen[:, None] & seen
        factor = torch.linalg.cholesky(self.matrices * both + torch.diag((~seen).double()))
        return torch.cholesky_inverse(factor) * both, _log_determinants(factor)

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
        precisions, log_determinants = self.precisions
        return -0.5 * prior.rows * (log_determinants.sum() + (precisions * prior.covariance).sum())

    @property
    def covariances(self) -> Tensor:
        return self.matrices

    def scaled(self, scale: Tensor, shift: Tensor) -> Self:
        return type(self)(self.means * scale + shift, self.matrices * scale * scale[:, None])


@final
@dataclass(frozen=True)
class _OfPattern(Given):
    """Rows that all lack the same cells.

    Args:
        gaussians: that know them.
        seen: which cells are seen, (D,).
        precisions: Σ_OO⁻¹ with zeros at missing cells, (K, D, D).
        features: T(x), (B, F).
        log_probs: see `Given`.
    """

    gaussians: Full
    seen: Tensor
    precisions: Tensor
    features: Tensor
    log_probs: Tensor

    @classmethod
    def of(cls, gaussians: Full, x: Tensor, seen: Tensor) -> Self:
        """Look at rows (B, D)."""
        is_complete, means = bool(seen.all()), gaussians.means
        precisions, logs = gaussians.precisions if is_complete else gaussians.precisions_of(seen)
        linear = (precisions @ means[..., None])[..., 0]
        constant = (linear * means).sum(-1) + logs + int(seen.sum()) * LOG_2PI
        features = _features(x)
        natural = _natural(precisions, linear, constant)
        return cls(gaussians, seen, precisions, features, features @ natural)

    def moments(self, mass: Tensor) -> Moments:
        found = Moments(*_sums(mass.mT @ self.features, len(self.seen)))
        return found if bool(self.seen.all()) else self._completed(found)

    def _completed(self, shown: Moments) -> Moments:
        # x̂ = μ + G (x_O − μ_O) with G = Σ_:O Σ_OO⁻¹ is affine in what is seen, so the moments of completed
        # rows follow from those of the seen cells: no row is touched, however many share the pattern.
        means, matrices, counts = self.gaussians.means, self.gaussians.matrices, shown.counts
        gain = matrices @ self.precisions  # columns of missing cells are 0
        mean = means * self.seen
        deviations = shown.first - counts * mean
        cross = deviations[..., None] * mean[:, None]
        centred = shown.second - cross - cross.mT - counts[..., None] * mean[..., None] * mean[:, None]
        rest = matrices - gain @ (matrices * self.seen[:, None])
        moved = (gain @ deviations[..., None])[..., 0]
        across = moved[..., None] * means[:, None]
        spread = gain @ centred @ gain.mT + counts[..., None] * (rest + means[..., None] * means[:, None])
        return Moments(counts, counts * means + moved, spread + across + across.mT)


@final
@dataclass(frozen=True)
class _OfRows(Given):
    """Rows that each lack m cells, M, of their own. With any c in missing cells, z = x − μ and Λ = Σ⁻¹

        (x_O − μ_O)ᵀ Σ_OO⁻¹ (x_O − μ_O) = zᵀ Λ z − (Λz)_Mᵀ Λ_MM⁻¹ (Λz)_M,   log|Σ_OO| = log|Σ| + log|Λ_MM|,
        E[x_M | x_O] = c + δ,  δ = −Λ_MM⁻¹ (Λz)_M,                          Cov[x_M | x_O] = Λ_MM⁻¹.

    The same c for all Gaussians, the mean of their means, makes z = y − (μ − c) with one y = x − c for all of
    them. So zᵀ Λ z and Σ r y yᵀ are products with T(y), as for complete rows; what is of missing cells alone,
    (Λz)_M and Σ r δ yᵀ, is computed column by column for the rows that lack it.

    Args:
        y: (B, D), 0 at missing cells.
        centre: c, (D,).
        lacking: which rows lack which columns.
        features: T(y), (B, F).
        off: δ, (K, m, B).
        spread: Λ_MM⁻¹, (K, m, m, B).
        log_probs: see `Given`.
    """

    y: Tensor
    centre: Tensor
    lacking: _Lacking
    features: Tensor
    off: Tensor
    spread: Tensor
    log_probs: Tensor

    @classmethod
    def of(cls, gaussians: Full, x: Tensor, seen: Tensor) -> Self:
        """Look at rows (B, D)."""
        (precisions, logs), centre = gaussians.precisions, gaussians.means.mean(0)
        y, means, lacking = torch.where(seen, x - centre, 0.0), gaussians.means - centre, _Lacking.of(seen)
        linear = (precisions @ means[..., None])[..., 0]
        features = _features(y)
        whole = features @ _natural(precisions, linear, (linear * means).sum(-1) + logs)  # (B, K)
        pull = lacking.products(y, precisions) - _taken(linear, lacking.columns)  # (K, m, B)
        spread, logs_hidden = inverses(_taken(precisions, lacking.pairs(y.shape[1])))
        off = -(spread * pull[:, None]).sum(2)
        rest = (pull * off).sum(1) + logs_hidden + seen.sum(-1, dtype=torch.double) * LOG_2PI
        return cls(y, centre, lacking, features, off, spread, whole - 0.5 * rest.mT)

    def moments(self, mass: Tensor) -> Moments:
        mass, width = mass.mT.contiguous(), self.y.shape[1]
        counts, first, second = _sums(mass @ self.features, width)
        weighted = self.off * mass[:, None]  # r δ
        first.index_add_(1, self.lacking.columns.flatten(), weighted.flatten(1))
        cross = self.lacking.sums(weighted, self.y)
        second += cross + cross.mT
        own = self.off[:, :, None] * weighted[:, None] + self.spread * mass[:, None, None]
        second.flatten(1).index_add_(1, self.lacking.pairs(width).flatten(), own.flatten(1))  # in its place
        moved = first[..., None] * self.centre
        second += moved + moved.mT + counts[..., None] * self.centre[:, None] * self.centre
        return Moments(counts, first + counts * self.centre, second)


@final
@dataclass(frozen=True)
class _Lacking:
    """Which rows lack which columns, m each.

    Args:
        columns: the missing columns of each row, (m, B).
        order: the cells of `columns` sorted by column, (m·B,).
        counts: how many rows lack each column.
    """

    columns: Tensor
    order: Tensor
    counts: list[int]

    @classmethod
    def of(cls, seen: Tensor) -> Self:
        """Rows of what is seen, (B, D)."""
        columns = (~seen).nonzero()[:, 1].reshape(len(seen), -1).mT.contiguous()
        flat = columns.flatten()
        counts = torch.bincount(flat, minlength=seen.shape[1]).tolist()
        return cls(columns, flat.argsort(stable=True), counts)

    def pairs(self, width: int) -> Tensor:
        """The places in a (D, D) matrix of all pairs of columns that a row lacks: (m, m, B)."""
        return self.columns[:, None] * width + self.columns

    def products(self, y: Tensor, matrices: Tensor) -> Tensor:
        """(A y)_M of each row: (B, D), (K, D, D) → (K, m, B)."""
        parts = torch.split(self._rows(y), self.counts)
        sorted_ = torch.cat([matrices[:, column] @ part.mT for column, part in enumerate(parts)], 1)
        found = torch.empty_like(sorted_).index_copy_(1, self.order, sorted_)
        return found.reshape(len(matrices), *self.columns.shape)

    def sums(self, weights: Tensor, y: Tensor) -> Tensor:
        """Σ_b w_b y_bᵀ over the rows that lack each column: (K, m, B), (B, D) → (K, D, D)."""
        rows = torch.split(self._rows(y), self.counts)
        each = torch.split(weights.flatten(1).index_select(1, self.order), self.counts, 1)
        return torch.stack([own @ part for own, part in zip(each, rows, strict=True)], 1)

    def _rows(self, y: Tensor) -> Tensor:
        return y[self.order % self.columns.shape[1]]


def _features(x: Tensor) -> Tensor:
    """T(x) = (1, x, x xᵀ), the last without what is there twice: (B, D) → (B, F)."""
    i, j = torch.triu_indices(x.shape[1], x.shape[1], device=x.device)
    return torch.cat([x.new_ones(len(x), 1), x, x[:, i] * x[:, j]], -1)


def _natural(precisions: Tensor, linear: Tensor, constant: Tensor) -> Tensor:
    """θ with T(x) θ = −½ (xᵀ Λ x − 2 xᵀ Λμ + constant): (K, D, D), (K, D), (K,) → (F, K)."""
    i, j = torch.triu_indices(linear.shape[1], linear.shape[1], device=linear.device)
    pairs = precisions[:, i, j] * torch.where(i == j, -0.5, -1.0)
    return torch.cat([-0.5 * constant[:, None], linear, pairs], -1).mT


def _sums(sums: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Σ r T(x) as Σ r, Σ r x and Σ r x xᵀ: (K, F) → (K, 1), (K, D), (K, D, D)."""
    i, j = torch.triu_indices(width, width, device=sums.device)
    second = sums.new_zeros(len(sums), width, width)
    second[:, i, j] = second[:, j, i] = sums[:, 1 + width :]
    return sums[:, :1], sums[:, 1 : 1 + width].clone(), second


def _taken(numbers: Tensor, places: Tensor) -> Tensor:
    """Some numbers of each Gaussian, (K, …), by their places: (K, *places)."""
    found = numbers.flatten(1).index_select(1, places.flatten())
    return found.reshape(len(numbers), *places.shape)


def inverses(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """A⁻¹ and log|A| of many small positive definite matrices: (K, m, m, B) → the same, and (K, B).

    By sweeps, one for each row k: a_ij ← a_ij − a_ik a_kj / a_kk leave −A⁻¹, and log|A| = Σ_k log a_kk.
    Entry by entry of all matrices at once, which for few rows is several times faster than one by one.

    Example:
        >>> one = torch.tensor([[2.0, 1.0], [1.0, 3.0]], dtype=torch.double)
        >>> inverse, log = inverses(one[None, :, :, None])
        >>> (inverse[0, :, :, 0] @ one).round(decimals=9) + 0.0, log.exp().round(decimals=9).item()
        (tensor([[1., 0.],
                [0., 1.]], dtype=torch.float64), 5.0)
    """
    m, log = matrices.shape[1], torch.zeros_like(matrices[:, 0, 0])
    if m > MOST_SWEPT:
        factor = torch.linalg.cholesky(matrices.movedim(3, 1))
        return torch.cholesky_inverse(factor).movedim(1, 3), _log_determinants(factor)
    found = -matrices
    for k in range(m):
        pivot = -found[:, k, k]
        column = found[:, :, k].clone()  # (K, m, B)
        scaled = column / pivot.unsqueeze(1)
        found.addcmul_(scaled.unsqueeze(2), column.unsqueeze(1))
        found[:, :, k], found[:, k] = scaled, scaled
        found[:, k, k] = 1 / pivot
        log += pivot.log()
    return found, log


def _log_determinants(factor: Tensor) -> Tensor:
    """Of matrices whose Cholesky factors these are, (..., D, D) → (...,)."""
    return 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


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

    def given(self, x: Tensor, seen: Tensor) -> Given:
        return _OfColumns.of(self, x, seen)

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


@final
@dataclass(frozen=True)
class _OfColumns(Given):
    """Rows of independent columns.

    Args:
        x: (B, D), 0 where it is missing.
        seen: (B, D).
        log_probs: see `Given`.
    """

    x: Tensor
    seen: Tensor
    log_probs: Tensor

    @classmethod
    def of(cls, gaussians: Diagonal, x: Tensor, seen: Tensor) -> Self:
        """Look at rows (B, D)."""
        shown, linear = seen.double().expand_as(x), gaussians.means / gaussians.variances
        constant = linear * gaussians.means + gaussians.variances.log() + LOG_2PI
        log_probs = x @ linear.mT - 0.5 * (shown @ constant.mT + x.square() @ (1 / gaussians.variances).mT)
        return cls(x, shown, log_probs)

    def moments(self, mass: Tensor) -> Moments:
        return Moments(mass.mT @ self.seen, mass.mT @ self.x, mass.mT @ self.x.square())


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
