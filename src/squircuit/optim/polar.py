"""Polar: back to the manifold by the polar decomposition at every step, in one of two ways.

Mostly K1 ≪ K2, and the Gram core serves (:func:`polar_factors`): all but two passes over the weights happens
in K1×K1 matrices. Where matrices are nearly square with many rows, those are no smaller than the weights, and
each of their products costs as much as one with the weights. There :func:`polar_step` takes few products,
with X itself, in the weights' own precision.
"""

from __future__ import annotations

import math
from typing import Any, final

import torch
from torch import Tensor

from squircuit.errors import ParameterError
from squircuit.execution.kernels import cpu, hermitian
from squircuit.execution.precision import tf32
from squircuit.optim.base import Params, StiefelOptimizer, vector_adam, vector_scale
from squircuit.optim.gram import STEPS, Grams, inverse_square_root, root_of_trace
from squircuit.optim.kernels import polar as kernel
from squircuit.optim.kernels import wide
from squircuit.optim.stacks import Stacks, real_view

LARGEST = 100.0
"""Rates above count as this. Far above, X − ηR would lose all digits where R, the tangent part of the
momentum, is a small difference of large numbers; more than ``trust`` is not moved in any case."""
NUMBERS = 1 << 25
"""Numbers in nearly square weights that are moved at once; more would only need more memory."""
LAST_STEPS = {torch.float32: 1, torch.float64: 2}
"""Steps of Newton–Schulz after the polynomial: each squares its error of 10⁻⁴."""


@final
class Polar(StiefelOptimizer):
    """VectorAdam along the tangent space, back to the manifold by the polar decomposition at every step.

    X⁺ = (Y Yᴴ)^(-1/2) Y with Y = X − ηR, R the tangent part of the momentum (Euclidean metric), scaled, with
    η‖R‖_F ≤ ``trust`` and η ≤ 100. Weights are semi-unitary after each step up to rounding, whatever the
    learning rate, so the loss that is printed is the true one. The default.

    Example:
        >>> import torch
        >>> weight = torch.nn.Parameter(torch.eye(2, 4))
        >>> optimiser = Polar([{"params": [weight], "constrained": True}], lr=0.1)
        >>> (weight * torch.arange(8.0).reshape(2, 4)).sum().backward()
        >>> _ = optimiser.step()
        >>> bool(torch.allclose(weight @ weight.T, torch.eye(2), atol=1e-6))
        True
    """

    name, rate = "polar", 0.2
    stays_on_manifold = True
    is_capturable = True

    def __init__(
        self,
        params: Params,
        lr: float = rate,
        *,
        free_lr: float = 0.01,
        betas: tuple[float, float] = (0.9, 0.99),
        eps: float = 1e-12,
        second_moment: str = "row",
        trust: float = 0.5,
        weight_decay: float = 0.0,
    ) -> None:
        if not 0 < trust <= 1:
            raise ParameterError(
                f"trust={trust}: the retraction converges only in (0, 1]. Fix: pass a number there, like 0.5."
            )
        super().__init__(
            params, lr=lr, free_lr=free_lr, betas=betas, eps=eps, second_moment=second_moment, trust=trust,
            weight_decay=weight_decay,
        )  # fmt: skip

    def update(self, stacks: Stacks, group: dict[str, Any]) -> None:
        if stacks.are_nearly_square:
            self._update_nearly_square(stacks, group)
            return
        if wide.usable(stacks.weights, stacks.gradients):
            self._update_wide(stacks, group)
            return
        if stacks.rows <= cpu.MOST_ROWS and cpu.serves(*stacks.weights, *stacks.gradients):
            self._update_on_cpu(stacks, group)
            return
        averages, g, scale = vector_adam(stacks, group)
        stacks.apply(averages, *polar_factors(g, scale, _bounded(group["lr"]), group["trust"]))

    def _update_nearly_square(self, stacks: Stacks, group: dict[str, Any]) -> None:
        averages, beta = stacks.state("exp_avg"), group["betas"][0]
        stacks.accumulate(averages, beta, 1 - beta)
        scale, rate = vector_scale(stacks, stacks.norms, group), _bounded(group["lr"])
        parts = zip(stacks.weights, averages, torch.split(scale, stacks.sizes), strict=True)
        for weight, average, factor in parts:
            at_once = max(1, NUMBERS // weight[0].numel())
            for start in range(0, len(weight), at_once):
                part = slice(start, start + at_once)
                polar_step(weight[part], average[part], factor[part], rate, group["trust"])

    def _update_wide(self, stacks: Stacks, group: dict[str, Any]) -> None:
        averages, beta = stacks.state("exp_avg"), group["betas"][0]
        found = [
            wide.advance(x, g, m, beta, 1 - beta)
            for x, g, m in zip(stacks.weights, stacks.gradients, averages, strict=True)
        ]
        cross, of_g, of_m = (torch.cat(part) for part in zip(*found, strict=True))
        scale = vector_scale(stacks, of_g, group).expand_as(of_m)
        step, factor = polar_direction(cross, of_m, scale, _bounded(group["lr"]), group["trust"])
        speeds, factors = torch.split(step * scale, stacks.sizes), torch.split(step * factor, stacks.sizes)
        moved = zip(stacks.weights, averages, speeds, factors, strict=True)
        root = polar_root(torch.cat([wide.move(*parts) for parts in moved]), group["trust"])
        for weight, part in zip(stacks.weights, torch.split(root, stacks.sizes), strict=True):
            wide.retract(weight, part)
        torch.autograd.graph.increment_version(stacks.weights)  # torch does not see what kernels change

    def _update_on_cpu(self, stacks: Stacks, group: dict[str, Any]) -> None:
        averages, rate = stacks.state("exp_avg"), float(_bounded(group["lr"]))
        factor, trust = 1 - group["betas"][0], group["trust"]
        scale = torch.split(vector_scale(stacks, stacks.norms, group).double(), stacks.sizes)
        for parts in zip(stacks.weights, stacks.gradients, averages, scale, strict=True):
            cpu.polar_step(*parts[:3], factor, parts[3], rate, trust, _steps(trust))
        torch.autograd.graph.increment_version(stacks.weights)  # torch does not see what kernels change


def _steps(trust: float) -> int:
    """Steps of Newton–Schulz, until the farthest that ``trust`` lets weights move is back."""
    return STEPS if trust <= 0.5 else 2 * STEPS


def _bounded(lr: float | Tensor) -> float | Tensor:
    return lr.clamp(max=LARGEST) if isinstance(lr, Tensor) else min(lr, LARGEST)


def polar_factors(g: Grams, scale: Tensor, lr: float | Tensor, trust: float) -> tuple[Tensor, Tensor]:
    """α, β of X⁺ = αX + βM = (YYᴴ)^(-1/2) Y with Y = X − ηD, D the scaled tangent part of M, η‖D‖ ≤ trust."""
    steps = _steps(trust)
    if kernel.usable(g.xx):
        return kernel.polar_factors(g.xx, g.xm, g.mm, scale, lr, trust, steps)
    a, b = g.scaled(*g.euclidean(), scale)
    slope, square = g.line(a, b)
    # ‖ηD‖ ≤ trust ≤ 1 keeps the eigenvalues of YYᴴ in [1, 2], inside (0, 3), where Newton–Schulz converges
    rate = (trust / (root_of_trace(square) + 1e-30)).clamp_max(lr)
    root = inverse_square_root(g.xx - rate * slope + rate.square() * square, steps)
    return root - rate * (root @ a), root * (-rate * b).mT


def polar_direction(
    cross: Tensor, squares: Tensor, scale: Tensor, rate: float | Tensor, trust: float
) -> tuple[Tensor, Tensor]:
    """η and A of Y = X − ηD with D = sM − AX, η ≤ rate and η‖D‖_F ≤ trust.

    ‖D‖² = ‖sM‖² − 2 Re tr(A C s) + ‖A‖² is a small difference where M is hardly tangent, and counts as at
    least 10⁻³ of ‖sM‖², above the errors of C.

    Args:
        cross: C = XMᴴ, (S, K1, K1).
        squares: ‖m‖² of the rows of M, (S, K1, 1).
        scale: s, (S, K1, 1).

    Returns:
        (S, 1, 1) and (S, K1, K1).
    """
    factor = tangent_factor(cross, scale)
    whole = (scale.square() * squares).sum(dim=1, keepdim=True)
    # Re tr(A C s) = Re Σ_ij A_ij C_ji s_i, since column i of C is that of row i of M
    mixed = ((factor.mT * cross).real.sum(dim=1)[:, :, None] * scale).sum(dim=1, keepdim=True)
    own = real_view(factor).square().sum(dim=(1, 2), keepdim=True)
    norm = (whole - 2 * mixed + own).maximum(1e-3 * whole).sqrt()
    return (trust / (norm + 1e-30)).clamp_max(rate), factor


def polar_root(gram: Tensor, trust: float) -> Tensor:
    """R = G^(-1/2) − I of Grams G = I + E of Y = X − ηD, complex64: a polynomial, then Newton–Schulz.

    L ← L − ½FL with L = I + R and F = LGL − I. All is written with E, R and F alone, which are small, and so
    is their rounding: W = G L − I = E + R + ER, F = W + R + RW, R ← R − ½(F + FR).
    """
    with tf32(False):
        identity = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
        constant, linear, quadratic = inverse_root_polynomial(trust**2)
        error = gram - identity
        root = torch.baddbmm(error, error, error, beta=linear, alpha=quadratic) + (constant - 1) * identity
        for _ in range(LAST_STEPS[torch.float32] * (1 if trust <= 0.5 else 2)):
            off = torch.baddbmm(error + root, error, root)
            rest = torch.baddbmm(off + root, root, off)
            root = torch.baddbmm(root - 0.5 * rest, rest, root, alpha=-0.5)
        return root


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
    with tf32(True):  # errors of 10⁻³ in a direction are noise, and leave the result on the manifold
        direction = tangent(x, m, scale)
        norm = torch.linalg.vector_norm(real_view(direction), dim=(1, 2))
        step = (trust / (norm + 1e-30)).clamp_max(rate)[:, None, None]
        direction *= -step
        error = direction @ direction.mH  # the E above, before Y takes the memory of D
        y = direction.add_(x)
        # (p₀ + p₁E + p₂E²) Y by Horner: p₀Y + E (p₁Y + p₂EY), so that E² is never formed
        constant, linear, quadratic = inverse_root_polynomial(trust**2)
        inner = torch.baddbmm(y, error, y, beta=linear, alpha=quadratic)
        y.baddbmm_(error, inner, beta=constant)
    for _ in range(LAST_STEPS[x.dtype.to_real()] * (1 if trust <= 0.5 else 2) - 1):
        y = _newton_schulz(y, torch.empty_like(y))
    _newton_schulz(y, x)


def tangent(x: Tensor, m: Tensor, scale: Tensor) -> Tensor:
    """The tangent part of M at a semi-unitary X, its rows scaled, made tangent again: D with DXᴴ + XDᴴ = 0.

    R = M − HX with H, N the Hermitian and the skew part of C = XMᴴ, and RXᴴ = −N; so sR is made tangent by
    adding ½(sN + (sN)ᴴ) X, and all together D = sM − AX with A = ¼(s_i + s_j) C + ¼(3s_i − s_j) Cᴴ.
    """
    return (scale * m).baddbmm_(tangent_factor(x @ m.mH, scale.expand(-1, x.shape[1], 1)), x, alpha=-1)


def tangent_factor(cross: Tensor, scale: Tensor) -> Tensor:
    """A = ¼(s_i + s_j) C + ¼(3s_i − s_j) Cᴴ, with C (S, K1, K1) and s (S, K1, 1)."""
    if kernel.tangent_usable(cross):
        return kernel.tangent_factor(cross, scale)
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
