"""Complex numbers as two planes of reals: (…, 2, B), real parts first, the batch innermost.

A complex matrix product is then one real product with twice the rows and columns, which libraries run at
full speed on any device (and, on GPUs, in TF32): with W stored as (re, im) pairs along its columns,

    [Re Wb | Im Wb] = W_pairs · E(b),   E(b) = [[ re b, im b], [−im b, re b]] row by row,

and gradients use the same E(b): ∂W = P · E(b)ᵀ for P the gradient of W b. Real numbers have one plane.
"""

from __future__ import annotations

from functools import reduce

import torch
from torch import Tensor


def planes(value: Tensor) -> Tensor:
    """(…, B) real or complex → (…, 1 or 2, B)."""
    return torch.stack([value.real, value.imag], dim=-2) if value.is_complex() else value.unsqueeze(-2)


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """Product of complex (or real) numbers, broadcasting: (…, 2, B). Not differentiable by torch."""
    if a.shape[-2] == 1:
        return a * b
    ar, ai, br, bi = a[..., 0, :], a[..., 1, :], b[..., 0, :], b[..., 1, :]
    out = a.new_empty(torch.broadcast_shapes(a.shape, b.shape))  # type: ignore[no-untyped-call]
    torch.mul(ar, br, out=out[..., 0, :]).addcmul_(ai, bi, value=-1)
    torch.mul(ar, bi, out=out[..., 1, :]).addcmul_(ai, br)
    return out


def multiply_conjugate(a: Tensor, b: Tensor) -> Tensor:
    """a · b*, broadcasting: (…, 2, B). Not differentiable by torch."""
    if a.shape[-2] == 1:
        return a * b
    ar, ai, br, bi = a[..., 0, :], a[..., 1, :], b[..., 0, :], b[..., 1, :]
    out = a.new_empty(torch.broadcast_shapes(a.shape, b.shape))  # type: ignore[no-untyped-call]
    torch.mul(ar, br, out=out[..., 0, :]).addcmul_(ai, bi)
    torch.mul(ai, br, out=out[..., 1, :]).addcmul_(ar, bi, value=-1)
    return out


def kronecker(factors: list[Tensor]) -> Tensor:
    """(F, K_i, 2, B) each → (F, ∏K_i, 2, B), the first factor's index slowest."""
    return reduce(lambda a, b: multiply(a.unsqueeze(2), b.unsqueeze(1)).flatten(1, 2), factors)


def hadamard(factors: list[Tensor]) -> Tensor:
    """(F, K, 2, B) each → (F, K, 2, B)."""
    return reduce(multiply, factors)


def expanded(b: Tensor) -> Tensor:
    """E(b): (F, J, 2, B) → (F, 2J, 2B); (F, J, 1, B) → (F, J, B)."""
    if b.shape[2] == 1:
        return b.squeeze(2)
    folds, units, _, batch = b.shape
    out = b.new_empty(folds, units, 2, 2, batch)
    out[:, :, 0] = b
    torch.neg(b[:, :, 1], out=out[:, :, 1, 0])  # i·b
    out[:, :, 1, 1] = b[:, :, 0]
    return out.reshape(folds, 2 * units, 2 * batch)


def contracted(u: Tensor, planes: int) -> Tensor:
    """conj(W)·P from U = W_pairsᵀ·[Re P | Im P]: (F, 2J, 2B) → (F, J, 2, B)."""
    if planes == 1:
        return u.unsqueeze(2)
    folds, rows, columns = u.shape
    u = u.reshape(folds, rows // 2, 2, 2, columns // 2)  # (F, J, re|im of W, Re|Im of P, B)
    out = u.new_empty(folds, rows // 2, 2, columns // 2)
    torch.add(u[:, :, 0, 0], u[:, :, 1, 1], out=out[:, :, 0])
    torch.sub(u[:, :, 0, 1], u[:, :, 1, 0], out=out[:, :, 1])
    return out


def pairs(weight: Tensor) -> Tensor:
    """W (S, K1, K2) → (S, K1, 2·K2), real and imaginary parts side by side; no copy. Real W as it is."""
    return torch.view_as_real(weight).flatten(2) if weight.is_complex() else weight
