"""The one operation that costs: a weight times a product of layers, W (ℓ₁ ⊗ … ⊗ ℓ_N) or W (ℓ₁ ⊙ … ⊙ ℓ_N).

A Kronecker vector of K^N entries is never formed. With a = ℓ₁ ⊗ … ⊗ ℓ_h of I entries and b the product of the
others of J entries, T = W b is one batched matrix product (K·I)×J by J×B, and out_k = Σ_i T_ki a_i. Backward
there are two products of the same shape, ∂W = P E(b)ᵀ and ∂b = W† P with P_ki = g_k a_i*. Hadamard products
and single inputs are the case without a. Where kernels can (``kernels.pairs``), T and P stay in registers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from squircuit.execution import complex_planes
from squircuit.execution.kernels import cpu, pairs, products, row_sums

CHUNK = 1 << 20  # numbers of T and b that a CPU handles at a time
COPIES = 1 << 26  # numbers of the gradients of a tied weight that a GPU holds before they are summed


@final
@dataclass(frozen=True)
class Saved:
    """What the backward pass of one weighted product needs; products of factors are made again there."""

    factors: list[Tensor]
    product: Tensor | None = None  # T, (F, K, I, 2, B), where it is kept
    is_fused: bool = False  # T was never written, and will not be


def split_point(kind: str, count: int) -> int:
    """How many factors go into a: half of them, so that a and b are about equally long.

    >>> [split_point("kronecker", n) for n in (1, 2, 3, 4, 5)]
    [0, 1, 1, 2, 2]
    >>> split_point("hadamard", 4)
    0
    """
    return count // 2 if kind == "kronecker" else 0


def forward(kind: str, weight: Tensor, factors: list[Tensor], keep: bool) -> tuple[Tensor, Saved]:
    """W times the product of the factors.

    Args:
        kind: "kronecker", "hadamard" or "linear".
        weight: (F or 1, K, 2·∏K_i) pairs, or (F or 1, K, ∏K_i) real.
        factors: (F, K_i, 2 or 1, B) each.
        keep: there will be a backward pass.

    Returns:
        (F, K, 2 or 1, B), and what the backward pass needs.
    """
    if keep and split_point(kind, len(factors)) and pairs.usable(weight, factors):
        return pairs.product(weight, *_sides(kind, factors)), Saved(factors, is_fused=True)
    if cpu.weighs(weight, factors):
        return cpu.weigh(kind, weight, factors), Saved(factors)
    chunks = _chunks(kind, weight, factors)
    if len(chunks) == 1:
        out, product = _forward(kind, weight, factors)
        return out, Saved(factors, product if keep and weight.is_cuda else None)
    folds, _, count, batch = factors[0].shape
    out = weight.new_empty(folds, weight.shape[1], count, batch)
    for part in chunks:
        out[part] = _forward(kind, _some(weight, part), [factor[part] for factor in factors])[0]
    return out, Saved(factors)


def _forward(kind: str, weight: Tensor, factors: list[Tensor]) -> tuple[Tensor, Tensor | None]:
    """The output (F, K, 2 or 1, B) and T, (F, K, I, 2 or 1, B), if there is an a."""
    half = split_point(kind, len(factors))
    product = _large_product(kind, weight, factors)
    if not half:
        return product.squeeze(2), None
    return reduce_rows(product, _product(kind, factors[:half])), product


def _large_product(kind: str, weight: Tensor, factors: list[Tensor]) -> Tensor:
    """T = W b: (F, K, I, 2 or 1, B)."""
    right = _expanded(kind, factors[split_point(kind, len(factors)) :])
    folds, _, count, batch = factors[0].shape
    height = weight.shape[2] // right.shape[1]  # I
    product = _matmul(weight.reshape(len(weight), -1, right.shape[1]), right)
    return product.reshape(folds, weight.shape[1], height, count, batch)


def backward(
    kind: str,
    weight: Tensor,
    saved: Saved,
    gradient: Tensor,
    targets: list[Tensor],
    total: Tensor,
    fresh: bool,
) -> None:
    """The gradients of the factors and of the weight.

    Args:
        gradient: g of the output, (F, K, 2 or 1, B).
        targets: where the gradients of the factors are written.
        total: where that of the weight is written if ``fresh``, and otherwise added. The first contribution
            is written, so that what may be most of the memory need not be set to zero and read.
    """
    if saved.is_fused:
        _fused_backward(kind, weight, saved.factors, gradient, targets, total, fresh)
        return
    if cpu.weighs(weight, saved.factors, gradient, total, *targets):
        cpu.gradients(kind, weight, saved.factors, gradient, targets, total, fresh)
        return
    for part in _chunks(kind, weight, saved.factors):
        some = Saved([factor[part] for factor in saved.factors], saved.product)
        into = [target[part] for target in targets]
        _backward(kind, _some(weight, part), some, gradient[part], into, _some(total, part), fresh)
        fresh = fresh and len(weight) > 1  # a tied weight's gradient is summed over the chunks


def _backward(
    kind: str,
    weight: Tensor,
    saved: Saved,
    gradient: Tensor,
    targets: list[Tensor],
    total: Tensor,
    fresh: bool,
) -> None:
    half = split_point(kind, len(saved.factors))
    folds, _, count, batch = saved.factors[0].shape
    outer, height = gradient, weight.shape[1]  # P and K·I; without a, T is the output and P its gradient
    if half:
        left = _product(kind, saved.factors[:half])
        product = saved.product if saved.product is not None else _large_product(kind, weight, saved.factors)
        left_gradient, outer = spread_rows(product, left, gradient)
        product_gradients(kind, saved.factors[:half], left_gradient, targets[:half])
        height *= left.shape[1]
    outer = outer.reshape(folds, height, count * batch)  # T = W b has gradient P: ∂W = P E(b)ᵀ, ∂b = W† P
    shaped = weight.reshape(len(weight), height, -1)
    _accumulate(total.view_as(shaped), outer, _expanded(kind, saved.factors[half:]), fresh)
    right_gradient = _matmul(shaped.mT, outer)
    product_gradients(kind, saved.factors[half:], right_gradient, targets[half:])


def _fused_backward(
    kind: str,
    weight: Tensor,
    factors: list[Tensor],
    gradient: Tensor,
    targets: list[Tensor],
    total: Tensor,
    fresh: bool,
) -> None:
    half = split_point(kind, len(factors))
    left, right = _sides(kind, factors)
    of_left, of_right = pairs.factor_gradients(weight, left, right, gradient)
    product_gradients(kind, factors[:half], of_left, targets[:half])
    product_gradients(kind, factors[half:], of_right, targets[half:])
    pairs.weight_gradient(left, right, gradient, total, fresh)


def _sides(kind: str, factors: list[Tensor]) -> tuple[Tensor, Tensor]:
    """a and b: (F, I, 2, B), (F, J, 2, B)."""
    half = split_point(kind, len(factors))
    return _product(kind, factors[:half]), _product(kind, factors[half:])


def _chunks(kind: str, weight: Tensor, factors: list[Tensor]) -> list[slice]:
    """Stretches of folds: on a GPU all at once, on a CPU so many that T and E(b) fit the caches.

    On a CPU T is made again in the backward pass: memory that is touched for the first time costs more than
    the product.
    """
    folds, batch = len(factors[0]), factors[0].shape[3]
    if weight.is_cuda:
        return [slice(0, folds)]
    half = split_point(kind, len(factors))
    left, right = (math.prod(f.shape[1] for f in part) for part in (factors[:half], factors[half:]))
    right = right if kind == "kronecker" else factors[0].shape[1]
    step = max(1, CHUNK // max(1, (weight.shape[1] * left + right) * batch))
    return [slice(start, min(start + step, folds)) for start in range(0, folds, step)] or [slice(0, 0)]


def _some(weight: Tensor, part: slice) -> Tensor:
    """The weights of a stretch of folds; a tied one serves all."""
    return weight if len(weight) == 1 else weight[part]


def _product(kind: str, factors: list[Tensor]) -> Tensor:
    """The product of factors as planes: (F, K, 2 or 1, B)."""
    if len(factors) > 1 and products.usable(kind, factors):
        return products.product(kind, factors, expand=False)
    return complex_planes.hadamard(factors) if kind == "hadamard" else complex_planes.kronecker(factors)


def _expanded(kind: str, factors: list[Tensor]) -> Tensor:
    """E of the product of factors: (F, 2K, 2B), or (F, K, B) if real."""
    if products.usable(kind, factors):
        return products.product(kind, factors, expand=True)
    return complex_planes.expanded(_product(kind, factors))


def reduce_rows(product: Tensor, left: Tensor) -> Tensor:
    """Σ_i T_ki a_i: (F, K, I, 2, B), (F, I, 2, B) → (F, K, 2, B)."""
    if row_sums.usable(product, left):
        return row_sums.reduce_rows(product, left)
    a = left.unsqueeze(1)
    if product.shape[3] == 1:
        return (product * a).sum(dim=2)
    tr, ti, ar, ai = product[..., 0, :], product[..., 1, :], a[..., 0, :], a[..., 1, :]
    real = (tr * ar).addcmul_(ti, ai, value=-1).sum(dim=2)
    imaginary = (tr * ai).addcmul_(ti, ar).sum(dim=2)
    return torch.stack([real, imaginary], dim=2)


def spread_rows(product: Tensor, left: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """∂a_i = Σ_k T_ki* g_k, (F, I, 2, B), and P_ki = g_k a_i*, (F, K, I, 2, B)."""
    if row_sums.usable(product, left, gradient):
        return row_sums.spread_rows(product, left, gradient)
    g, a = gradient.unsqueeze(2), left.unsqueeze(1)
    if product.shape[3] == 1:
        return (g * product).sum(dim=1), g * a
    gr, gi, tr, ti = g[..., 0, :], g[..., 1, :], product[..., 0, :], product[..., 1, :]
    real = (tr * gr).addcmul_(ti, gi).sum(dim=1)
    imaginary = (tr * gi).addcmul_(ti, gr, value=-1).sum(dim=1)
    outer = torch.empty_like(product)
    torch.mul(gr, a[..., 0, :], out=outer[..., 0, :]).addcmul_(gi, a[..., 1, :])
    torch.mul(gi, a[..., 0, :], out=outer[..., 1, :]).addcmul_(gr, a[..., 1, :], value=-1)
    return torch.stack([real, imaginary], dim=2), outer


def _matmul(weight: Tensor, right: Tensor) -> Tensor:
    """Batched product in which one matrix may serve all folds."""
    return torch.bmm(weight.expand(len(right), -1, -1), right)


def _accumulate(total: Tensor, outer: Tensor, right: Tensor, fresh: bool) -> None:
    """total (+)= P E(b)ᵀ, summed over the folds if they share one matrix."""
    if len(total) < len(outer):
        _accumulate_tied(total, outer, right, fresh)
    elif fresh:
        torch.bmm(outer, right.mT, out=total)
    else:
        total.baddbmm_(outer, right.mT)


def _accumulate_tied(total: Tensor, outer: Tensor, right: Tensor, fresh: bool) -> None:
    """Σ_f P_f E(b_f)ᵀ, some folds at a time: one long product would copy P, and fill a GPU badly."""
    step = max(1, (COPIES if total.is_cuda else CHUNK) // max(1, total.numel()))
    for start in range(0, len(outer), step):
        part = slice(start, start + step)
        found = torch.bmm(outer[part], right[part].mT).sum(dim=0, keepdim=True)
        total.copy_(found) if fresh else total.add_(found)
        fresh = False


def product_gradients(kind: str, factors: list[Tensor], gradient: Tensor, targets: list[Tensor]) -> None:
    """Gradients of the factors of a product: g times the conjugates of the others, written to ``targets``.

    Args:
        gradient: planes (F, K, 2 or 1, B), or U (F, 2K, 2B) as ``complex_planes.contracted`` takes it.
    """
    if products.usable(kind, factors) and all(target.is_contiguous() for target in targets):
        products.gradients(kind, factors, gradient, targets)
        return
    if gradient.ndim == 3:
        gradient = complex_planes.contracted(gradient, factors[0].shape[2])
    for target, found in zip(targets, _gradients(kind, factors, gradient), strict=True):
        target.copy_(found)


def _gradients(kind: str, factors: list[Tensor], gradient: Tensor) -> list[Tensor]:
    if len(factors) == 1:
        return [gradient]
    half = len(factors) // 2
    parts = [factors[:half], factors[half:]]
    if kind == "hadamard":
        values = [complex_planes.hadamard(part) for part in parts]
        left, right = (complex_planes.multiply_conjugate(gradient, v) for v in reversed(values))
    else:
        values = [complex_planes.kronecker(part) for part in parts]
        g = gradient.reshape(len(gradient), values[0].shape[1], values[1].shape[1], *gradient.shape[2:])
        left = complex_planes.multiply_conjugate(g, values[1].unsqueeze(1)).sum(dim=2)
        right = complex_planes.multiply_conjugate(g, values[0].unsqueeze(2)).sum(dim=1)
    return _gradients(kind, parts[0], left) + _gradients(kind, parts[1], right)
