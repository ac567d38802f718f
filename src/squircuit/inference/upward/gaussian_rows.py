"""Blocks of Gaussians in rows that show different coordinates: those that show as many are taken together.

Of a root A of a covariance, the rows of those coordinates that a row shows, then the others, have a
triangular factor L = [[L₁, 0], [L₂, L₃]]: z = L₁⁻¹ (t − μ) tells the density of what is shown, and the others
given it are Gaussian with means μ + L₂ z and the factor L₃. See :mod:`squircuit.families.gaussian_algebra`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from squircuit.families import MultivariateGaussian
from squircuit.families.gaussian_algebra import FARTHEST, triangular

FEW = 4  #: rows a mask; where there are more, one decomposition a mask is less work than one a row
CHUNK = 2**20  #: numbers in the factors of rows computed together


class GaussianRows(NamedTuple):
    """Some rows that lack M coordinates each."""

    rows: Tensor  #: their numbers, (b,)
    log_squares: Tensor  #: log N(t(x_O)) ∏ t′ of what is shown under each of the Gaussians, (b, n)
    left: Tensor  #: the coordinates that are not shown, (b, M)
    means: Tensor  #: of these given what is shown, in t(x): (b, n, M)
    widths: Tensor  #: their standard deviations, (b, n, M)


def are_many(missing: Tensor) -> bool:
    """There are so many masks (B, D) that rows are best computed by themselves."""
    return len(missing) > FEW and FEW * len(torch.unique(missing, dim=0)) > len(missing)


def gaussian_rows(
    family: MultivariateGaussian, x: Tensor, missing: Tensor, values: Mapping[str, Tensor]
) -> Iterator[GaussianRows]:
    """All rows, those that lack as many coordinates together.

    Args:
        family: of the block.
        x: (B, D) float64, with any valid number where a coordinate is missing.
        missing: (B, D).
        values: of the learnable parameters.
    """
    loc, roots = family.means_and_roots(values)  # (n, D), (n or 1, D, Q)
    t, log_slopes = family.transform(x)
    order = missing.int().argsort(dim=1, stable=True)  # what is shown first
    counts = missing.sum(dim=1)
    size = max(1, CHUNK // (len(loc) * roots.shape[1] * roots.shape[2]))
    for count in torch.unique(counts).tolist():
        for rows in torch.split(torch.nonzero(counts == count).flatten(), size):
            shown, left = order[rows, : x.shape[1] - count], order[rows, x.shape[1] - count :]
            slopes = log_slopes[rows].gather(1, shown).sum(dim=1)
            yield _of_pattern(rows, t[rows].gather(1, shown), slopes, shown, left, loc, roots)


def _of_pattern(
    rows: Tensor, t: Tensor, slopes: Tensor, shown: Tensor, left: Tensor, loc: Tensor, roots: Tensor
) -> GaussianRows:
    """Rows that show as many coordinates, by their t(x), (b, O), and the sum of their log t′, (b,)."""
    known = shown.shape[1]
    factor = triangular(roots[:, torch.cat([shown, left], dim=1)])  # (n or 1, b, D, D)
    factor = factor.expand(len(loc), -1, -1, -1)
    apart = t.clamp(-FARTHEST, FARTHEST) - loc[:, shown]  # (n, b, O)
    z = torch.linalg.solve_triangular(factor[..., :known, :known], apart.unsqueeze(3), upper=False)
    distances = z.square().sum(dim=(2, 3)).clamp(max=FARTHEST**2)
    logs = factor.diagonal(dim1=2, dim2=3)[..., :known].log().sum(dim=2)
    log_squares = slopes - logs - known / 2 * math.log(2 * math.pi) - distances / 2  # (n, b)
    means = loc[:, left] + (factor[..., known:, :known] @ z).squeeze(3)
    widths = torch.linalg.vector_norm(factor[..., known:, known:], dim=3)
    return GaussianRows(rows, log_squares.T, left, means.transpose(0, 1), widths.transpose(0, 1))
