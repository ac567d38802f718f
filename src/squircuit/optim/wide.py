"""The polar retraction of matrices with many rows, for which K1×K1 matrices are no smaller than the weights.

The Gram core pays where K1 ≪ K2. Where K1 is hundreds and K2 no more, each of its products costs as much as
one with the weights, and there are many. Here there are few, with X itself, in the weights' own precision.
"""

from __future__ import annotations

import torch
from torch import Tensor

from squircuit.execution.precision import tf32
from squircuit.optim.bundle import real_view

STEPS = {torch.float32: 3, torch.float64: 5}  #: of Newton–Schulz, from a distance of 0.25 to rounding


def polar_step(x: Tensor, m: Tensor, scale: Tensor, rate: float | Tensor, trust: float) -> Tensor:
    """(YYᴴ)^(-1/2) Y with Y = X − ηD, D the scaled tangent part of M, η ≤ rate and η‖D‖_F ≤ trust.

    Args:
        x: semi-unitary, (S, K1, K2).
        m: momentum, like x.
        scale: factors of the rows or matrices, (S, K1 or 1, 1).

    The last Newton–Schulz step, which alone decides the distance to the manifold, has its Gram in full
    precision; what comes before is corrected by it and may use TF32.
    """
    with tf32(True):
        direction = tangent(x, m, scale)
        norm = torch.linalg.vector_norm(real_view(direction), dim=(1, 2))
        step = (trust / (norm + 1e-30)).clamp_max(rate)[:, None, None]
        y = x - step * direction
        for _ in range(STEPS[x.dtype.to_real()] - 1):
            y = _newton_schulz(y, y @ y.mH)
        with tf32(False):
            gram = y @ y.mH
        return _newton_schulz(y, gram)


def tangent(x: Tensor, m: Tensor, scale: Tensor) -> Tensor:
    """The tangent part of M at a semi-unitary X, its rows scaled, made tangent again: D with DXᴴ + XDᴴ = 0.

    R = M − HX with H, N the Hermitian and the skew part of XMᴴ; RXᴴ = −N, so the scaled direction sR is made
    tangent by − ½(sRXᴴ + XRᴴs) X, and all together D = sM − (sH − ½(sN + (sN)ᴴ)) X.
    """
    cross = x @ m.mH
    hermitian, skew = 0.5 * (cross + cross.mH), 0.5 * (cross - cross.mH)
    scaled = scale * skew
    return torch.baddbmm(scale * m, scale * hermitian - 0.5 * (scaled + scaled.mH), x, alpha=-1)


def _newton_schulz(y: Tensor, gram: Tensor) -> Tensor:
    """½(3I − YYᴴ)Y, as Y plus a small correction, so that rounding in the product is small too."""
    gram.diagonal(dim1=1, dim2=2).sub_(1)
    return torch.baddbmm(y, gram, y, alpha=-0.5)
