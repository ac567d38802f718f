"""The contractions of a query: a weight with vectors, and with matrices on both of its sides.

W (R₁ ⊗ … ⊗ R_N) Wᴴ is contracted one factor at a time: factors that are vectors first, which takes as long
as a likelihood and leaves fewer columns; identities not at all; then each matrix. Nothing of (∏K_i)² entries
is formed.

Of many rows with different masks, :func:`weigh_pair` computes it by few large products, keeps nothing else,
and has a backward pass by hand. R is a matrix of each row, Hermitian, or r rᴴ of a vector; so ∂A of A R Aᴴ is
(G + Gᴴ) A R. A gradient that is to be differentiated itself (``create_graph=True``) is written down for
torch, since what is kept are numbers.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, TypeAlias, final

import torch
from torch import Tensor

from squircuit.execution.weighted_product import split_point

Close: TypeAlias = Callable[[Tensor, Tensor], Tensor]  #: of the halves W R and W what is asked of W R Wᴴ


def kronecker(factors: Sequence[Tensor], combine: Callable[[Tensor, Tensor], Tensor] = torch.mul) -> Tensor:
    """(F, K_i, B) each → (F, ∏K_i, B), the first factor's index slowest; of log-scales with torch.add."""
    return reduce(lambda a, b: combine(a.unsqueeze(2), b.unsqueeze(1)).flatten(1, 2), factors)


def entrywise(factors: Sequence[Tensor]) -> Tensor:
    """The product of all, broadcasting."""
    return reduce(torch.mul, factors)


def weigh_vector(kind: str, weight: Tensor, factors: list[Tensor]) -> Tensor:
    """W (r₁ ⊗ … ⊗ r_N), W (r₁ ⊙ … ⊙ r_N) or W r₁.

    Args:
        kind: "kronecker", "hadamard" or "linear".
        weight: (F or 1, K, ∏K_i).
        factors: (F, K_i, B) each.

    Returns:
        (F, K, B).
    """
    half = split_point(kind, len(factors))
    right = entrywise(factors) if kind == "hadamard" else kronecker(factors[half:])
    weight = weight.expand(len(right), -1, -1)
    if not half:
        return torch.bmm(weight, right)
    left = kronecker(factors[:half])
    folds, units = weight.shape[:2]
    product = torch.bmm(weight.reshape(folds, units * left.shape[1], -1), right)
    return (product.reshape(folds, units, left.shape[1], -1) * left.unsqueeze(1)).sum(dim=2)


def close_vectors(weight: Tensor, widths: Sequence[int], vectors: dict[int, Tensor]) -> Tensor:
    """A weight with some of its modes contracted with vectors, one a row: (F, B or 1, K, columns left)."""
    folds, units = weight.shape[:2]
    if not vectors:
        return weight.unsqueeze(1)
    closed = sorted(vectors)
    left = [i for i in range(len(widths)) if i not in vectors]
    shaped = weight.reshape(folds, units, *widths)
    shaped = shaped.permute(0, 1, *(2 + i for i in left), *(2 + i for i in closed))
    vector = kronecker([vectors[i] for i in closed])  # (F, V, B)
    flat = shaped.reshape(folds, -1, vector.shape[1]).expand(len(vector), -1, -1)
    return torch.bmm(flat, vector).reshape(len(vector), units, -1, vector.shape[2]).permute(0, 3, 1, 2)


def multiply_modes(value: Tensor, widths: Sequence[int], matrices: dict[int, Tensor]) -> Tensor:
    """Σ A[k, … i …] R[i, j] for every mode with a matrix: (F, B or 1, K, ∏ widths), (F, B or 1, K_i, K_i)."""
    shape = value.shape[2:]
    value = value.reshape(*value.shape[:3], *widths)
    axes = string.ascii_lowercase[3 : 3 + len(widths)]
    for mode, matrix in matrices.items():
        batch = ["ab" if tensor.shape[1] > 1 else "a" for tensor in (value, matrix)]
        value, matrix = (t if t.shape[1] > 1 else t.squeeze(1) for t in (value, matrix))
        result = "ab" if "ab" in batch else "a"
        axis = axes[mode]
        equation = f"{batch[0]}c{axes},{batch[1]}{axis}z->{result}c{axes.replace(axis, 'z')}"
        value = torch.einsum(equation, value, matrix)
        value = value if result == "ab" else value.unsqueeze(1)
    return value.reshape(*value.shape[:2], *shape)


def sandwich(left: Tensor, right: Tensor) -> Tensor:
    """H Aᴴ for each fold and row: (F, B or 1, K, C) twice → (F, B or 1, K, K)."""
    if right.shape[1] == 1 and left.shape[1] > 1:
        flat = left.flatten(1, 2) @ right.squeeze(1).mH
        return flat.reshape(*left.shape[:3], -1)
    return left @ right.mH


def diagonal(left: Tensor, right: Tensor) -> Tensor:
    """The diagonal of H Aᴴ alone, real: (F, B or 1, K, C) twice → (F, K, B or 1)."""
    return torch.einsum("fbkc,fbkc->fkb", left, right.conj()).real


def weigh_matrices(
    weight: Tensor,
    widths: Sequence[int],
    vectors: dict[int, Tensor],
    matrices: dict[int, Tensor],
    close: Close = sandwich,
) -> Tensor:
    """W (R₁ ⊗ … ⊗ R_N) Wᴴ, where R_i is r rᴴ, a matrix, or else the identity.

    Args:
        weight: (F or 1, K, ∏K_i).
        widths: K_i.
        vectors: factor → r, (F, K_i, B).
        matrices: factor → R, (F, B or 1, K_i, K_i).
        close: :func:`sandwich`, or :func:`diagonal` where nothing else of it is asked.

    Returns:
        (F, B or 1, K, K), or the diagonal, (F, K, B or 1).
    """
    right = close_vectors(weight, widths, vectors)
    left_over = [i for i in range(len(widths)) if i not in vectors]
    modes = {left_over.index(i): matrix for i, matrix in matrices.items()}
    folds = max(len(t) for t in (right, *matrices.values()))
    right = right.expand(folds, -1, -1, -1)
    return close(multiply_modes(right, [widths[i] for i in left_over], modes), right)


def weigh_entrywise(
    weight: Tensor,
    vectors: Sequence[Tensor],
    matrices: Sequence[Tensor],
    has_identity: bool,
    close: Close = sandwich,
) -> Tensor:
    """W (R₁ ⊙ … ⊙ R_N) Wᴴ; one identity leaves only the diagonals. Shapes as in :func:`weigh_matrices`."""
    if has_identity:
        diagonals = [m.diagonal(dim1=2, dim2=3) for m in matrices]
        diagonals += [(v * v.conj()).mT for v in vectors]
        both = (weight.unsqueeze(1) * entrywise(diagonals).unsqueeze(2)) if diagonals else weight.unsqueeze(1)
        return close(both, weight.unsqueeze(1))
    product = entrywise([*matrices, *(outer(v) for v in vectors)])
    return close(weight.unsqueeze(1) @ product, weight.unsqueeze(1).expand(len(product), -1, -1, -1))


def first_mode(amplitude: Tensor, modes: Sequence[tuple[int, int]], mode: tuple[int, int]) -> Tensor:
    """A tensor with one of its modes first, (B, ∏K_i) → (B, K, columns of the others in their order).

    A mode is named by a tuple that begins with its width.
    """
    shaped = amplitude.reshape(len(amplitude), *(width for width, _ in modes))
    return shaped.movedim(modes.index(mode) + 1, 1).reshape(len(amplitude), mode[0], -1)


def close_modes(
    amplitude: Tensor, modes: Sequence[tuple[int, int]], vectors: Mapping[tuple[int, int], Tensor]
) -> Tensor:
    """A tensor, one a row, with some modes contracted with vectors (B, K_i): (B, columns left)."""
    left = list(modes)
    for mode, vector in vectors.items():
        amplitude = (vector.unsqueeze(1) @ first_mode(amplitude, left, mode)).squeeze(1)
        left.remove(mode)
    return amplitude


def as_reals(value: Tensor) -> Tensor:
    """Complex numbers as pairs of reals, (n, m) → (n, 2m); real ones as they are."""
    return torch.view_as_real(value.resolve_conj()).flatten(1) if value.is_complex() else value


def outer(vector: Tensor) -> Tensor:
    """r rᴴ: (F, K, B) → (F, B, K, K)."""
    turned = vector.mT
    return turned.unsqueeze(3) * turned.unsqueeze(2).conj()


def kronecker_matrices(matrices: Sequence[Tensor]) -> Tensor:
    """R₁ ⊗ … ⊗ R_N: (F, B or 1, K_i, K_i) each → (F, B or 1, ∏K_i, ∏K_i)."""

    def two(a: Tensor, b: Tensor) -> Tensor:
        product = a[:, :, :, None, :, None] * b[:, :, None, :, None, :]
        return product.flatten(4, 5).flatten(2, 3)

    return reduce(two, matrices)


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
