"""The one operation that costs: a weight times a product of layers, W (ℓ₁ ⊗ … ⊗ ℓ_N) or W (ℓ₁ ⊙ … ⊙ ℓ_N).

A Kronecker vector of K^N entries is never formed. With a = ℓ₁ ⊗ … ⊗ ℓ_h of I entries and b the product of the
others of J entries, T = W b is one batched matrix product (K·I)×J by J×B, and out_k = Σ_i T_ki a_i. Backward
there are two products of the same shape, ∂W = P E(b)ᵀ and ∂b = W† P with P_ki = g_k a_i*. Hadamard products
and single inputs are the case without a.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from squircuit.execution import planar
from squircuit.execution.kernels import rows


@final
@dataclass(frozen=True)
class Saved:
    """What the backward pass of one weighted product needs."""

    factors: list[Tensor]
    left: Tensor | None  # a, (F, I, 2, B)
    right: Tensor  # b, (F, J, 2, B)
    product: Tensor | None  # T, (F, K, I, 2, B)


def split_point(widths: tuple[int, ...]) -> int:
    """How many factors go into a: half of them, so that a and b are about equally long.

    >>> [split_point((8,) * n) for n in (1, 2, 3, 4, 5)]
    [0, 1, 1, 2, 2]
    """
    return len(widths) // 2


def forward(kind: str, weight: Tensor, factors: list[Tensor]) -> tuple[Tensor, Saved]:
    """W times the product of the factors.

    Args:
        kind: "kronecker", "hadamard" or "linear".
        weight: (F or 1, K, 2·∏K_i) pairs, or (F or 1, K, ∏K_i) real.
        factors: (F, K_i, 2 or 1, B) each.

    Returns:
        (F, K, 2 or 1, B), and what the backward pass needs.
    """
    half = split_point(tuple(f.shape[1] for f in factors)) if kind == "kronecker" else 0
    left = planar.kronecker(factors[:half]) if half else None
    right = planar.hadamard(factors) if kind == "hadamard" else planar.kronecker(factors[half:])
    folds, _, count, batch = right.shape
    height = weight.shape[1] * (1 if left is None else left.shape[1])  # K·I
    product = _matmul(weight.reshape(len(weight), height, -1), planar.expanded(right))
    product = product.reshape(folds, height, count, batch)
    if left is None:
        return product, Saved(factors, None, right, None)
    product = product.reshape(folds, weight.shape[1], left.shape[1], count, batch)
    return reduce_rows(product, left), Saved(factors, left, right, product)


def backward(
    kind: str, weight: Tensor, saved: Saved, gradient: Tensor, weight_gradient: Tensor
) -> list[Tensor]:
    """Gradients of the factors; that of the weight is added into ``weight_gradient``.

    Args:
        gradient: g of the output, (F, K, 2 or 1, B).
        weight_gradient: like the weight, zero or the sum so far.
    """
    folds, _, count, batch = saved.right.shape
    left_gradient, outer = None, gradient
    if saved.left is not None and saved.product is not None:
        left_gradient, outer = spread_rows(saved.product, saved.left, gradient)
    outer = outer.reshape(folds, -1, count * batch)  # P, (F, K·I, 2B)
    shaped = weight.reshape(len(weight), outer.shape[1], -1)
    _accumulate(weight_gradient.view_as(shaped), outer, planar.expanded(saved.right))
    right_gradient = planar.contracted(_matmul(shaped.mT, outer), count)
    if kind == "hadamard":
        return product_gradients(saved.factors, right_gradient, hadamard=True)
    half = 0 if left_gradient is None else split_point(tuple(f.shape[1] for f in saved.factors))
    left = [] if left_gradient is None else product_gradients(saved.factors[:half], left_gradient)
    return left + product_gradients(saved.factors[half:], right_gradient)


def reduce_rows(product: Tensor, left: Tensor) -> Tensor:
    """Σ_i T_ki a_i: (F, K, I, 2, B), (F, I, 2, B) → (F, K, 2, B)."""
    if rows.usable(product, left):
        return rows.reduce_rows(product, left)
    a = left.unsqueeze(1)
    if product.shape[3] == 1:
        return (product * a).sum(dim=2)
    tr, ti, ar, ai = product[..., 0, :], product[..., 1, :], a[..., 0, :], a[..., 1, :]
    real = torch.addcmul(tr * ar, ti, ai, value=-1).sum(dim=2)
    imaginary = torch.addcmul(tr * ai, ti, ar).sum(dim=2)
    return torch.stack([real, imaginary], dim=2)


def spread_rows(product: Tensor, left: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """∂a_i = Σ_k T_ki* g_k, (F, I, 2, B), and P_ki = g_k a_i*, (F, K, I, 2, B)."""
    if rows.usable(product, left, gradient):
        return rows.spread_rows(product, left, gradient)
    g, a = gradient.unsqueeze(2), left.unsqueeze(1)
    return planar.multiply_conjugate(g, product).sum(dim=1), planar.multiply_conjugate(g, a)


def _matmul(weight: Tensor, right: Tensor) -> Tensor:
    """Batched product in which one matrix may serve all folds."""
    return torch.bmm(weight.expand(len(right), -1, -1), right)


def _accumulate(total: Tensor, outer: Tensor, right: Tensor) -> None:
    """total += P E(b)ᵀ, summed over the folds if they share one matrix (without making F copies)."""
    if len(total) == len(outer):
        total.baddbmm_(outer, right.mT)
        return
    joined, columns = outer.transpose(0, 1).flatten(1), right.transpose(0, 1).flatten(1)
    total[0].addmm_(joined, columns.T)


def product_gradients(factors: list[Tensor], gradient: Tensor, hadamard: bool = False) -> list[Tensor]:
    """Gradients of the factors of a product: g times the conjugates of the others."""
    if len(factors) == 1:
        return [gradient]
    half = len(factors) // 2
    parts = [factors[:half], factors[half:]]
    if hadamard:
        values = [planar.hadamard(part) for part in parts]
        left, right = (planar.multiply_conjugate(gradient, v) for v in reversed(values))
    else:
        values = [planar.kronecker(part) for part in parts]
        g = gradient.reshape(len(gradient), values[0].shape[1], values[1].shape[1], *gradient.shape[2:])
        left = planar.multiply_conjugate(g, values[1].unsqueeze(1)).sum(dim=2)
        right = planar.multiply_conjugate(g, values[0].unsqueeze(2)).sum(dim=1)
    return product_gradients(parts[0], left, hadamard) + product_gradients(parts[1], right, hadamard)
