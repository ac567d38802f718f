"""Gaussians of several variables: triangular factors, overlaps of square roots, draws from signed sums.

Covariances are never formed. A *root* A of a covariance Σ = A Aᵀ is kept, (n, D, Q), and the triangular
factor of any rows O of it is that of a QR decomposition, A_Oᵀ = Q R, L = Rᵀ: as exact as the root is, where
a Cholesky decomposition of A_O A_Oᵀ would have half the digits. A *factor* is lower triangular, (n, M, M), or
the diagonal of one, (n, M), where covariances are diagonal. All in double precision.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from squircuit.families.base import largest_scale

FARTHEST = 1e140
"""Points are brought to this distance, and quadratic forms to its square: nothing overflows."""
CHUNK = 1 << 18
"""Numbers in the standardised points of a chunk of rows: these stay in the cache of a processor."""
STEPS = 200


def triangular(rows: Tensor) -> Tensor:
    """L with L Lᵀ = A Aᵀ and a positive diagonal: (..., M, Q) → (..., M, M), Q ≥ M.

    Example:
        >>> triangular(torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
        tensor([[5.0000, 0.0000],
                [0.8000, 0.6000]])
    """
    _, upper = torch.linalg.qr(rows.mT)
    sign = torch.where(upper.diagonal(dim1=-2, dim2=-1) < 0, -1.0, 1.0)
    lower: Tensor = (upper * sign[..., None].detach()).mT
    return lower


def inverse(lower: Tensor) -> Tensor:
    """L⁻¹ of lower triangular matrices."""
    identity = torch.eye(lower.shape[-1], dtype=lower.dtype, device=lower.device)
    found: Tensor = torch.linalg.solve_triangular(lower, identity.expand_as(lower), upper=False)
    return found


def log_determinant(factor: Tensor) -> Tensor:
    """log det L of a factor: (n, M, M) or (n, M) → (n,)."""
    diagonal = factor if factor.ndim == 2 else factor.diagonal(dim1=-2, dim2=-1)
    return diagonal.log().sum(dim=-1)


def squared_distances(t: Tensor, loc: Tensor, factor: Tensor) -> Tensor:
    """|L_k⁻¹ (t − μ_k)|² of every point and component: (B, M), (n, M), factors → (B, n).

    The location is subtracted first, so that no digit is lost however far both are from 0.
    """
    whitening = 1 / factor if factor.ndim == 2 else inverse(factor)
    rows = max(1, CHUNK // max(1, loc.numel()))
    parts = [_distances(part, loc, whitening) for part in torch.split(t.clamp(-FARTHEST, FARTHEST), rows)]
    return torch.cat(parts).clamp(max=FARTHEST**2) if parts else t.new_zeros(0, len(loc))


def _distances(t: Tensor, loc: Tensor, whitening: Tensor) -> Tensor:
    apart = t - loc[:, None]  # (n, B, M)
    z = apart * whitening[:, None] if whitening.ndim == 2 else apart @ whitening.mT
    return z.square().sum(dim=-1).mT


def log_overlaps(means: Tensor, factor: Tensor, others: Tensor, other_factor: Tensor) -> Tensor:
    r"""log of the overlaps of square roots of Gaussians, (..., n, M) and (..., m, M) → (..., n, m),

    .. math:: \int \mathcal N(t; \mu_j, C_j)^{1/2}\, \mathcal N(t; \mu_k, C_k)^{1/2}\, dt
              = 2^{M/2}\, \frac{|C_j|^{1/4} |C_k|^{1/4}}{|C_j + C_k|^{1/2}}\,
                \exp\bigl(-\tfrac14 (\mu_j - \mu_k)^\top (C_j + C_k)^{-1} (\mu_j - \mu_k)\bigr).

    Example:
        >>> means, ones = torch.tensor([[0.0], [2.0]]).double(), torch.ones(2, 1).double()
        >>> log_overlaps(means, ones, means, ones).exp()
        tensor([[1.0000, 0.6065],
                [0.6065, 1.0000]], dtype=torch.float64)
    """
    dimension = means.shape[-1]
    apart = means[..., :, None, :] - others[..., None, :, :]  # (..., n, m, M)
    joint = _sum_factor(factor, other_factor)
    if joint.ndim == 3:
        distances = (apart / joint).square().sum(dim=-1)
    else:
        distances = (inverse(joint) @ apart[..., None])[..., 0].square().sum(dim=-1)
    diagonal = joint if joint.ndim == 3 else joint.diagonal(dim1=-2, dim2=-1)
    halves = log_determinant(factor)[:, None] / 2 + log_determinant(other_factor) / 2
    constant = halves - diagonal.log().sum(dim=-1) + dimension / 2 * math.log(2)
    return constant - distances.clamp(max=FARTHEST**2) / 4


def _sum_factor(factor: Tensor, other: Tensor) -> Tensor:
    """The factor of C_j + C_k for all pairs: (n, m, M, M), or (n, m, M) of diagonals."""
    if factor.ndim == other.ndim == 2:
        return torch.hypot(factor[:, None], other)
    first, second = (torch.diag_embed(f) if f.ndim == 2 else f for f in (factor, other))
    if first.shape[-1] == 0:
        return first.new_zeros(len(first), len(second), 0, 0)
    pairs = (len(first), len(second), -1, -1)
    return triangular(torch.cat([first[:, None].expand(pairs), second.expand(pairs)], dim=-1))


def draw_square(weights: Tensor, means: Tensor, factor: Tensor, generator: torch.Generator | None) -> Tensor:
    r"""Draw t from the density ∝ Σ_jk w_jk N(t; μ_j, C_j)^½ N(t; μ_k, C_k)^½, exactly: (B, M).

    The product of two square roots is a Gaussian, times their overlap,

    .. math:: \Lambda_{jk} = \tfrac12 (C_j^{-1} + C_k^{-1}), \qquad
              \mu_{jk} = \Lambda_{jk}^{-1}\, \tfrac12 (C_j^{-1} \mu_j + C_k^{-1} \mu_k),

    so the density is a sum of n² Gaussians with weights of any sign. With Λ = RᵀR the coordinates come one by
    one, the last first: given those behind it, each Gaussian is one of one variable, and their sum has a
    distribution function, which is inverted.

    Args:
        weights: real and symmetric, (B, n, n), those of the pairs: overlaps are counted in.
        means: of every row, (B, n, M).
        factor: of the covariances, (n, M, M) or (n, M).
        generator: of the uniform numbers.
    """
    lower = torch.diag_embed(factor) if factor.ndim == 2 else factor
    precision = inverse(lower)  # (n, M, M): C⁻¹ = PᵀP
    upper = _joint_precision(precision)  # R: (n, n, M, M)
    centres = _joint_means(precision, upper, means)  # (B, n, n, M)
    points = torch.empty_like(means[:, 0])
    apart = torch.zeros_like(centres)  # t − μ_jk of what is drawn
    for i in reversed(range(points.shape[1])):
        width = 1 / upper[..., i, i]  # (n, n)
        middles = centres[..., i] - (upper[..., i, :] * apart).sum(dim=-1) * width
        points[:, i] = _draw_signed(weights, middles, width, generator)
        apart[..., i] = points[:, i, None, None] - centres[..., i]
        z = (points[:, i, None, None] - middles) / width
        weights = _rescaled(weights, -z.square() / 2 - width.log())
    return points


def _joint_precision(precision: Tensor) -> Tensor:
    """R, upper triangular with RᵀR = ½(PⱼᵀPⱼ + PₖᵀPₖ): (n, n, M, M)."""
    pairs = (len(precision), len(precision), -1, -1)
    stacked = torch.cat([precision[:, None].expand(pairs), precision.expand(pairs)], dim=-2)
    return triangular(stacked.mT / math.sqrt(2)).mT


def _joint_means(precision: Tensor, upper: Tensor, means: Tensor) -> Tensor:
    """μ_jk = μ_j + ½ Λ⁻¹ C_k⁻¹ (μ_k − μ_j): exact where both are equal, or far from 0. (B, n, n, M)."""
    apart = means[:, None] - means[:, :, None]  # μ_k − μ_j
    pulled = precision.mT @ (precision @ apart[..., None])
    halves = torch.linalg.solve_triangular(upper.mT, pulled / 2, upper=False)
    shift: Tensor = torch.linalg.solve_triangular(upper, halves, upper=True)[..., 0]
    return means[:, :, None] + shift


def _rescaled(weights: Tensor, logs: Tensor) -> Tensor:
    """w e^l of every row, divided by its largest."""
    sizes = torch.where(weights != 0, weights.abs().log() + logs, -torch.inf)
    return weights.sign() * (sizes - largest_scale(sizes, dim=(-2, -1))[:, None, None]).exp()


def _draw_signed(weights: Tensor, means: Tensor, width: Tensor, generator: torch.Generator | None) -> Tensor:
    """t with Σ w Φ((t − m)/s) = u Σ w, u uniform: (B, n, n) → (B,), by Newton's steps within a bracket."""
    u = torch.rand(len(weights), dtype=torch.float64, generator=generator).to(weights.device)
    total, reach = weights.sum(dim=(1, 2)), 40 * width
    low, high = (means - reach).amin(dim=(1, 2)), (means + reach).amax(dim=(1, 2))
    t = (low + high) / 2
    for _ in range(STEPS):
        z = (t[:, None, None] - means) / width
        # Φ relative to u: what is small is computed from its own side, so that tails keep their digits
        rise = (weights * torch.special.ndtr(z)).sum(dim=(1, 2)) - u * total
        low, high = torch.where(rise < 0, t, low), torch.where(rise < 0, high, t)
        density = (weights * (-z.square() / 2).exp() / width).sum(dim=(1, 2)) / math.sqrt(2 * math.pi)
        step = t - rise / density
        following = torch.where((step > low) & (step < high), step, (low + high) / 2)
        if bool(((following - t).abs() <= 1e-15 * t.abs().clamp(min=float(width.min()))).all()):
            return following
        t = following
    return t


def products_of_roots(means: Tensor, factor: Tensor) -> tuple[Tensor, Tensor]:
    """The Gaussians that products of two square roots of Gaussians are, up to their overlaps.

    Args:
        means: (B, n, M).
        factor: of the covariances, (n, M, M) or (n, M).

    Returns:
        Their means μ_jk, (B, n, n, M), and A_jk with covariances A Aᵀ, (n, n, M, M).
    """
    lower = torch.diag_embed(factor) if factor.ndim == 2 else factor
    precision = inverse(lower)
    upper = _joint_precision(precision)
    return _joint_means(precision, upper, means), inverse(upper.mT).mT
