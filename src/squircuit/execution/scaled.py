"""Scaled numbers: a vector of norm 1 and one real log-scale a sample, in place of logarithms."""

from __future__ import annotations

import torch
from torch import Tensor

from squircuit.execution.kernels import normalise as kernel


def normalise(out: Tensor, scales: list[Tensor], values: Tensor, scale: Tensor) -> Tensor:
    """v ← v/‖v‖, s ← Σ s_i + log‖v‖; a vector that is exactly zero keeps scale −inf.

    Args:
        out: outputs of layers, (F, K, 2 or 1, B).
        scales: log-scales of their factors, (F, B) each.
        values: where the normalised outputs go, like ``out``.
        scale: where the log-scales go, (F, B).

    Returns:
        1/‖v‖, or 0 where the norm is zero: (F, 1, 1, B).
    """
    if kernel.usable(out, values, scales):
        return kernel.normalise(out, scales, values, scale)
    norm = out.square().sum(dim=(1, 2), keepdim=True).sqrt_()  # torch's norm over these is slow
    inverse = torch.where(norm == 0, 0.0, 1 / norm)
    torch.mul(out, inverse, out=values)
    torch.log(norm[:, 0, 0], out=scale)
    for each in scales:
        scale += each
    return inverse


def common_scale(scales: list[list[Tensor]]) -> tuple[list[Tensor], Tensor]:
    """The factors exp(s_b − s) that bring branches of a sum to the scale s of the largest.

    Args:
        scales: log-scales of the factors of each branch, (F, ...) each; s_b is their sum.

    Returns:
        One factor a branch, 0 where it is exactly zero, and s.
    """
    sums = [torch.stack(each).sum(dim=0) for each in scales]
    largest = torch.stack(sums).amax(dim=0)
    return [torch.where(s == -torch.inf, 0.0, (s - largest).exp()) for s in sums], largest
