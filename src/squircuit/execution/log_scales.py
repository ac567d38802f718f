"""Scaled numbers: a vector of norm 1 and one real log-scale a sample, in place of logarithms."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from squircuit.execution.kernels import cpu
from squircuit.execution.kernels import normalise as kernel


def normalise(out: Tensor, scales: list[Tensor], values: Tensor, scale: Tensor) -> Tensor:
    """v ← v/‖v‖, s ← Σ s_i + log‖v‖; a vector of zeros stays so, as if its norm were 1.

    Args:
        out: outputs of layers, (F, K, 2 or 1, B).
        scales: log-scales of their factors, (F, B) each.
        values: where the normalised outputs go, like ``out``.
        scale: where the log-scales go, (F, B).

    Returns:
        1/‖v‖: (F, 1, 1, B).
    """
    if kernel.usable(out, values, scales):
        return kernel.normalise(out, scales, values, scale)
    if cpu.usable(out.shape[2], out, values, scale, *scales):
        return cpu.normalise(out, scales, values, scale)
    norm = _norm(out)
    norm = torch.where(norm < torch.finfo(norm.dtype).tiny, 1.0, norm)  # one over smaller ones is infinite
    inverse = 1 / norm
    torch.mul(out, inverse, out=values)
    torch.log(norm[:, 0, 0], out=scale)
    for each in scales:
        scale += each
    return inverse


TINY = 1e-30
"""Squares in single precision below which digits are lost."""


def _norm(out: Tensor) -> Tensor:
    """‖v‖ of outputs (F, K, 2 or 1, B): (F, 1, 1, B).

    Squares must not overflow or lose digits: where some may, and always in double precision, to which numbers
    go that are too large or too small for single, outputs are divided by their largest entry first.
    """
    if out.dtype != torch.float64:
        squares = out.square().sum(dim=(1, 2), keepdim=True)  # torch's norm over these is slow
        if out.is_cuda or not squares.numel() or bool(((squares > TINY) & (squares < 1 / TINY)).all()):
            return squares.sqrt_()
    largest = out.abs().amax(dim=(1, 2), keepdim=True)
    share = out * torch.where(largest == 0, 0.0, 1 / largest)
    return share.square().sum(dim=(1, 2), keepdim=True).sqrt_().mul_(largest)


def log_or_nothing(value: Tensor) -> Tensor:
    """log of numbers ≥ 0; −inf of 0, and then with gradient 0 in place of NaN.

    Example:
        >>> log_or_nothing(torch.tensor([1.0, 0.0]))
        tensor([0., -inf])
    """
    positive = value > 0
    return torch.where(positive, torch.where(positive, value, 1.0).log(), -torch.inf)


def log_sum(logs: Tensor, dim: int = 0) -> Tensor:
    """log Σ exp; −inf where all are, and then with gradient 0 in place of NaN.

    Example:
        >>> log_sum(torch.tensor([-torch.inf, -torch.inf]))
        tensor(-inf)
    """
    lost = (logs == -torch.inf).all(dim=dim, keepdim=True)
    return torch.where(lost.squeeze(dim), -torch.inf, torch.where(lost, 0.0, logs).logsumexp(dim=dim))


def common_scale(scales: list[list[Tensor]], lost: list[Tensor] | None = None) -> tuple[list[Tensor], Tensor]:
    """The factors exp(s_b − s) that bring branches of a sum to the scale s of the largest.

    Args:
        scales: log-scales of the factors of each branch, (F, ...) each; s_b is their sum.
        lost: where a branch is exactly zero, so that its scale does not count; its factor is that of its
            gradient, bounded, since nothing but the value is certain to be small.

    Returns:
        One factor a branch, 0 where its scale is −inf, and s.
    """
    sums = [torch.stack(each).sum(dim=0) for each in scales]
    whole = torch.stack(sums)
    if lost is not None:
        gone = torch.stack(lost)
        whole = torch.where(gone & ~gone.all(dim=0), -torch.inf, whole)
    largest = whole.amax(dim=0)
    most = math.log(torch.finfo(largest.dtype).max) / 2
    return [torch.where(s == -torch.inf, 0.0, (s - largest).clamp(max=most).exp()) for s in sums], largest
