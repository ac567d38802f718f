"""W (R₁ ⊗ R₂) Wᴴ of many rows with a backward pass by hand: few large products, and nothing kept but these.

R is a matrix of each row, Hermitian, or r rᴴ of a vector; so ∂A of A R Aᴴ is (G + Gᴴ) A R. A gradient that is
to be differentiated itself (``create_graph=True``) is written down for torch, since what is kept are numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import torch
from torch import Tensor


def weigh_pair(weight: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """W (R₁ ⊗ R₂) Wᴴ: (K, K₁·K₂), and for each factor vectors (n, K_i) or matrices (n, K_i, K_i).

    Returns:
        (n, K, K). One of the factors is a matrix.
    """
    units = len(weight)
    shaped = weight.reshape(units, first.shape[1], second.shape[1])
    if first.ndim == 3 and second.ndim == 3:
        found: Tensor = _Both.apply(shaped, first, second)  # type: ignore[no-untyped-call]
        return found
    vector, matrix = (first, second) if first.ndim == 2 else (second, first)
    order = (1, 0, 2) if first.ndim == 2 else (2, 0, 1)  # the vector's index first
    return _beside(shaped.permute(order), vector, matrix)


def weigh_beside_identity(weight: Tensor, vector: Tensor, place: int) -> Tensor:
    """The same where one factor is the identity of all rows, and the one at this place, 0 or 1, a vector."""
    units, width = len(weight), vector.shape[1]
    other = weight.shape[1] // width
    shaped = weight.reshape(units, *((width, other) if place == 0 else (other, width)))
    order = (1, 0, 2) if place == 0 else (2, 0, 1)
    return _beside(shaped.permute(order), vector, None)


def _beside(weight: Tensor, vector: Tensor, matrix: Tensor | None) -> Tensor:
    found: Tensor = _Beside.apply(weight, vector, matrix)  # type: ignore[no-untyped-call]
    return found


@final
class _Beside(torch.autograd.Function):
    """A R Aᴴ with A = Σ_c W_c r_c: (C, K, L), (n, C), (n, L, L) or None, the identity → (n, K, K)."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, vector: Tensor, matrix: Tensor | None) -> Tensor:
        flat = weight.reshape(len(weight), -1)
        half = (vector @ flat).reshape(-1, *weight.shape[1:])  # A, (n, K, L)
        whole = half if matrix is None else half @ matrix
        ctx.save_for_backward(weight, vector, matrix, half, whole)
        return whole @ half.mH

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        weight, vector, matrix, half, whole = ctx.saved_tensors
        to_weight, to_vector, to_matrix = ctx.needs_input_grad
        if torch.is_grad_enabled():
            return _again(_beside_plainly, (weight, vector, matrix), gradient)
        flat = weight.reshape(len(weight), -1)
        found: list[Tensor | None] = [None, None, None]
        if to_weight or to_vector:
            down = ((gradient + gradient.mH) @ whole).flatten(1)  # (n, K·L)
            if to_weight:
                found[0] = (vector.mH @ down).reshape(-1, *half.shape[1:])
            if to_vector:
                found[1] = down @ flat.mH
        if to_matrix:
            found[2] = half.mH @ (gradient @ half)
        return tuple(found)


@final
class _Both(torch.autograd.Function):
    """Σ W_kab R₁_aα R₂_bβ W*_lαβ: (K, A, B), (n, A, A), (n, B, B) → (n, K, K)."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, first: Tensor, second: Tensor) -> Tensor:
        units, a, b = weight.shape
        n = len(first)
        lead = weight.transpose(0, 1).reshape(a, units * b)
        whole = first.conj().reshape(n * a, a) @ lead  # R is Hermitian: (n·A, K·B)
        whole = whole.reshape(n, a * units, b) @ second
        whole = whole.reshape(n, a, units, b).transpose(1, 2).reshape(n * units, a * b)
        ctx.save_for_backward(weight, first, second, whole)
        return (whole @ weight.reshape(units, a * b).mH).reshape(n, units, units)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        weight, first, second, whole = ctx.saved_tensors
        if torch.is_grad_enabled():
            return _again(_both_plainly, (weight, first, second), gradient)
        (units, a, b), n = weight.shape, len(first)
        found: list[Tensor | None] = [None, None, None]
        if ctx.needs_input_grad[0]:
            flat = (gradient + gradient.mH).transpose(0, 1).reshape(units, n * units)
            found[0] = (flat @ whole).reshape(units, a, b)
        down = gradient.reshape(n * units, units) @ weight.reshape(units, a * b)  # G W, (n·K, A·B)
        if ctx.needs_input_grad[1]:
            beside = (down.reshape(n, units * a, b) @ second).reshape(n, units, a, b)
            turned = beside.transpose(1, 2).reshape(n * a, units * b)
            lead = weight.permute(0, 2, 1).reshape(units * b, a).conj()
            found[1] = (turned @ lead).reshape(n, a, a).mT
        if ctx.needs_input_grad[2]:
            beside = down.reshape(n, units, a, b).transpose(1, 2).reshape(n, a, units * b)
            beside = (first.conj() @ beside).reshape(n, a * units, b)
            turned = beside.mT.reshape(n * b, a * units)
            lead = weight.transpose(0, 1).reshape(a * units, b).conj()
            found[2] = (turned @ lead).reshape(n, b, b).mT
        return tuple(found)


def _beside_plainly(weight: Tensor, vector: Tensor, matrix: Tensor | None) -> Tensor:
    half = torch.einsum("nc,ckl->nkl", vector, weight)
    return (half if matrix is None else half @ matrix) @ half.mH


def _both_plainly(weight: Tensor, first: Tensor, second: Tensor) -> Tensor:
    return torch.einsum("kab,nac,nbd,lcd->nkl", weight, first, second, weight.conj())


def _again(
    formula: Callable[..., Tensor], inputs: tuple[Tensor | None, ...], gradient: Tensor
) -> tuple[Tensor | None, ...]:
    """The gradients of a formula as functions of its inputs, which torch can differentiate again."""
    wanted = [tensor for tensor in inputs if tensor is not None and tensor.requires_grad]
    found = iter(torch.autograd.grad(formula(*inputs), wanted, gradient, create_graph=True))
    return tuple(next(found) if tensor is not None and tensor.requires_grad else None for tensor in inputs)
