"""The polar retraction of matrices with many rows, for which K1×K1 matrices are no smaller than the weights.

The Gram core pays where K1 ≪ K2. Where K1 is hundreds and K2 no more, each of its products costs as much as
one with the weights, and there are many. Here there are few, with X itself, in the weights' own precision.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from squircuit.execution.kernels import hermitian
from squircuit.execution.precision import tf32
from squircuit.optim.bundle import real_view
from squircuit.optim.kernels import tangent as kernel

NUMBERS = 1 << 25  #: of weights moved at once; more would only need more memory
STEPS = {torch.float32: 1, torch.float64: 2}  #: of Newton–Schulz after the polynomial


def polar_step(x: Tensor, m: Tensor, scale: Tensor, rate: float | Tensor, trust: float) -> None:
    """X ← (YYᴴ)^(-1/2) Y with Y = X − ηD, D the scaled tangent part of M, η ≤ rate and η‖D‖_F ≤ trust.

    D is tangent, so YYᴴ = I + E with E = η²DDᴴ, whose eigenvalues lie in [0, trust²]: a quadratic polynomial
    of E comes within 10⁻⁴ of the inverse square root, and Newton–Schulz does the rest. Its Gram, which alone
    decides the distance to the manifold, is in full precision; what comes before it may use TF32.

    Args:
        x: semi-unitary, (S, K1, K2).
        m: momentum, like x.
        scale: factors of the rows or matrices, (S, K1 or 1, 1).
    """
    with tf32(True):
        direction = tangent(x, m, scale)
        norm = torch.linalg.vector_norm(real_view(direction), dim=(1, 2))
        step = (trust / (norm + 1e-30)).clamp_max(rate)[:, None, None]
        direction *= -step
        error = direction @ direction.mH
        y = direction.add_(x)
        constant, linear, quadratic = inverse_root_polynomial(trust**2)
        inner = torch.baddbmm(y, error, y, beta=linear, alpha=quadratic)
        y.baddbmm_(error, inner, beta=constant)
    for _ in range(STEPS[x.dtype.to_real()] * (1 if trust <= 0.5 else 2) - 1):
        y = _newton_schulz(y, torch.empty_like(y))
    _newton_schulz(y, x)


def tangent(x: Tensor, m: Tensor, scale: Tensor) -> Tensor:
    """The tangent part of M at a semi-unitary X, its rows scaled, made tangent again: D with DXᴴ + XDᴴ = 0.

    R = M − HX with H, N the Hermitian and the skew part of C = XMᴴ, and RXᴴ = −N; so sR is made tangent by
    adding ½(sN + (sN)ᴴ) X, and all together D = sM − AX with A = ¼(s_i + s_j) C + ¼(3s_i − s_j) Cᴴ.
    """
    return (scale * m).baddbmm_(factor(x @ m.mH, scale.expand(-1, x.shape[1], 1)), x, alpha=-1)


def factor(cross: Tensor, scale: Tensor) -> Tensor:
    """A = ¼(s_i + s_j) C + ¼(3s_i − s_j) Cᴴ, with C (S, K1, K1) and s (S, K1, 1)."""
    if kernel.usable(cross):
        return kernel.factor(cross, scale)
    other = scale.mT
    return 0.25 * ((scale + other) * cross + (3 * scale - other) * cross.mH)


def inverse_root_polynomial(largest: float) -> tuple[float, float, float]:
    """(p₀, p₁, p₂) with p₀ + p₁e + p₂e² ≈ (1 + e)^(-1/2) on [0, largest], interpolated at Chebyshev's points.

    >>> p = inverse_root_polynomial(0.25)
    >>> max(abs(p[0] + p[1] * e + p[2] * e * e - (1 + e) ** -0.5) for e in (0, 0.05, 0.1, 0.2, 0.25)) < 2e-4
    True
    """
    u, v, w = (largest / 2 * (1 + math.cos(math.pi * (2 * k + 1) / 6)) for k in range(3))
    at_u, at_v, at_w = ((1 + e) ** -0.5 for e in (u, v, w))
    slope = (at_v - at_u) / (v - u)
    bend = ((at_w - at_v) / (w - v) - slope) / (w - u)
    return at_u - slope * u + bend * u * v, slope - bend * (u + v), bend


def _newton_schulz(y: Tensor, out: Tensor) -> Tensor:
    """½(3I − YYᴴ)Y, as Y plus a small correction, so that rounding in its product is small too."""
    with tf32(False):
        gram = hermitian.product(y, y)
    gram.diagonal(dim1=1, dim2=2).sub_(1)
    with tf32(True):
        return torch.baddbmm(y, gram, y, alpha=-0.5, out=out)
