"""Kernel of Adam in one pass: seven reads and writes of the parameter. Twin: plain half of ``base.adam``."""

from __future__ import annotations

import torch
from torch import Tensor

from squircuit.execution.kernels.compiler import can_serve, tl, triton

BLOCK = 1024


def usable(value: Tensor, gradient: Tensor) -> bool:
    """The kernel can serve this parameter: contiguous float32 on a CUDA device."""
    return can_serve(torch.float32, value, gradient)


def adam(
    value: Tensor,
    gradient: Tensor,
    average: Tensor,
    square: Tensor,
    rate: Tensor,
    correction: Tensor,
    betas: tuple[float, float],
    eps: float,
) -> None:
    """w ← w − rate·m/(√v/correction + ε), with m and v updated, all in place."""
    count, scalars = value.numel(), torch.stack([rate, correction]).float()
    _adam[(triton.cdiv(count, BLOCK),)](
        value, gradient, average, square, scalars, count, *betas, eps, BLOCK=BLOCK
    )


if triton is not None:

    @triton.jit
    def _adam(value, gradient, average, square, scalars, count, beta1, beta2, eps, BLOCK: tl.constexpr):
        place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        inside = place < count
        g = tl.load(gradient + place, inside, 0.0)
        m = beta1 * tl.load(average + place, inside, 0.0) + (1 - beta1) * g
        v = beta2 * tl.load(square + place, inside, 0.0) + (1 - beta2) * g * g
        change = tl.load(scalars) * m / (tl.sqrt(v) / tl.load(scalars + 1) + eps)
        tl.store(average + place, m, inside)
        tl.store(square + place, v, inside)
        tl.store(value + place, tl.load(value + place, inside, 0.0) - change, inside)
