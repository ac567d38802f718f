"""Composite Gauss–Legendre quadrature: the one rule by which families without a closed form integrate."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from squircuit.families.cache import kept

POINTS = 20  # per panel; the families choose their panels so that 16 would do


@kept(64)
def unit_rule(points: int = POINTS) -> tuple[Tensor, Tensor]:
    """Nodes and weights between −1 and 1, (points,) float64 each.

    Example:
        >>> unit_rule(1)
        (tensor([0.], dtype=torch.float64), tensor([2.], dtype=torch.float64))
    """
    nodes, weights = np.polynomial.legendre.leggauss(points)
    return torch.from_numpy(nodes), torch.from_numpy(weights)


def gauss_legendre(breakpoints: Tensor, points: int = POINTS) -> tuple[Tensor, Tensor]:
    """Nodes and weights of the rule between each pair of adjacent breakpoints.

    Exact for polynomials of degree ≤ 2·points − 1 on each panel.

    Args:
        breakpoints: sorted, (..., panels + 1).
        points: in each panel.

    Returns:
        Both (..., panels · points).

    Example:
        >>> x, w = gauss_legendre(torch.tensor([0.0, 1.0, 3.0], dtype=torch.float64))
        >>> round((w * x**2).sum().item(), 12)
        9.0
    """
    unit_nodes, unit_weights = unit_rule(points)
    half = breakpoints.diff()[..., None] / 2  # (..., panels, 1)
    middle = breakpoints[..., :-1, None] + half
    nodes = middle + half * unit_nodes.to(breakpoints)
    weights = half * unit_weights.to(breakpoints)
    return nodes.flatten(-2), weights.flatten(-2)


def merge(first: Tensor, second: Tensor) -> Tensor:
    """All breakpoints of two sorted lists that lie in the intersection of their extents.

    Two lists that do not overlap give one panel of width 0, over which every integral vanishes.

    Example:
        >>> merge(torch.tensor([0.0, 1.0, 2.0]), torch.tensor([0.5, 1.5, 3.0]))
        tensor([0.5000, 1.0000, 1.5000, 2.0000])
    """
    second = second.to(first)
    low, high = torch.maximum(first[0], second[0]), torch.minimum(first[-1], second[-1])
    if low >= high:
        return torch.stack([low, low])
    both = torch.cat([first, second]).sort().values
    return both[(both >= low) & (both <= high)]


def halve(breakpoints: Tensor) -> Tensor:
    """The breakpoints with the middle of every panel added."""
    middles = breakpoints[:-1] + breakpoints.diff() / 2
    return torch.cat([breakpoints, middles]).sort().values


def spread(unit: Tensor, low: float, high: float) -> Tensor:
    """Map [0, 1] to [low, high] such that both ends are met exactly."""
    ends = torch.tensor([low, high], dtype=unit.dtype, device=unit.device)
    return torch.lerp(ends[0], ends[1], unit)
