"""What goes up and down a tree between two variables: messages, and environments.

Of a layer ℓ of K units the message is what its observed variables Y and the others Z make of it,
∫ ℓ ℓᴴ dz, held as

* None: the identity, where nothing is observed and the circuit is unitary,
* (B, K): the value ℓ(y) itself, where all is observed,
* (B or 1, K, K): the matrix in any other case.

Its environment E is the rest of the circuit: p(y, x) ∝ Σ_ij E_ij ℓ_i(x) ℓ_j(x)*, held as (B or 1, K, K), or
(B or 1, K) of reals where only its diagonal is not zero. Neither keeps its size: of a row all that counts is
what its numbers are to each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from squircuit.inference.chain.tree import Node
from squircuit.inference.upward import contraction

Message: TypeAlias = Tensor | None

SMALL = 2**16
"""Entries of the map from an environment to that of a factor, up to which it is formed: of 16 units."""
SMALL_ON_GPUS = 2**24
"""The same on a GPU, where memory is wide: of 64 units."""
STATES = 2**22
"""Pairs of units, at states of a variable, that are in memory at once."""


def message(node: Node, below: Sequence[Message]) -> Message:
    """The message of a layer from those of its factors."""
    if all(part is None for part in below):
        return None
    vectors = {i: part.T.unsqueeze(0) for i, part in enumerate(below) if part is not None and part.ndim == 2}
    if len(vectors) == len(below):
        return _of_size_one(_vector(node, list(vectors.values()))[0].T)
    matrices = {i: part.unsqueeze(0) for i, part in enumerate(below) if part is not None and part.ndim == 3}
    return _of_size_one(_matrix(node, vectors, matrices)[0])


def _vector(node: Node, factors: list[Tensor]) -> Tensor:
    if node.weight is not None:
        return contraction.weigh_vector(node.kind, node.weight.unsqueeze(0), factors)
    return (contraction.kronecker if node.kind == "kronecker" else contraction.entrywise)(factors)


def _matrix(node: Node, vectors: dict[int, Tensor], matrices: dict[int, Tensor]) -> Tensor:
    if node.weight is None:
        return _product(node, vectors, matrices)
    weight = node.weight.unsqueeze(0)
    if node.kind == "kronecker":
        return contraction.weigh_matrices(weight, node.widths, vectors, matrices)
    has_identity = len(vectors) + len(matrices) < len(node.below)
    values = list(vectors.values()), list(matrices.values())
    return contraction.weigh_entrywise(weight, *values, has_identity)


def _product(node: Node, vectors: dict[int, Tensor], matrices: dict[int, Tensor]) -> Tensor:
    whole = matrices | {i: contraction.outer(vector) for i, vector in vectors.items()}
    like = next(iter(whole.values()))
    for i, width in enumerate(node.widths):
        if i not in whole:
            whole[i] = torch.eye(width, dtype=like.dtype, device=like.device)[None, None]
    ordered = [whole[i] for i in range(len(node.below))]
    return (contraction.kronecker_matrices if node.kind == "kronecker" else contraction.entrywise)(ordered)


def environment(node: Node, own: Tensor, below: Sequence[Message], place: int) -> Tensor:
    """The environment of one factor of a layer, from that of the layer and the other factors' messages."""
    others = [None if i == place else part for i, part in enumerate(below)]
    if node.weight is None and own.ndim == 2:
        found = _of_units(node, own, others, place)
    elif node.kind == "hadamard":
        found = _through_entrywise(_weight_of(node, own), own, others, place)
    else:
        found = _through_kronecker(_weight_of(node, own), node.widths, own, others, place)
    return _of_trace_one(found)


def _of_units(node: Node, own: Tensor, others: list[Message], place: int) -> Tensor:
    """Of a product whose units count by themselves: Σ over the units of it that hold a unit of the factor."""
    squares = [_squares(part, own, width) for part, width in zip(others, node.widths, strict=True)]
    squares[place] = own.new_ones(1, node.widths[place])
    if node.kind != "kronecker":
        return own * contraction.entrywise(squares)
    joined = own * contraction.kronecker([s.T.unsqueeze(0) for s in squares])[0].T
    shaped = joined.reshape(len(joined), *node.widths)
    return shaped.movedim(place + 1, 1).reshape(len(joined), node.widths[place], -1).sum(dim=2)


def _squares(part: Message, like: Tensor, width: int) -> Tensor:
    """∫ |ℓ_k|² of every unit of a factor: (B or 1, K)."""
    if part is None:
        return like.new_ones(1, width)
    return (part * part.conj()).real if part.ndim == 2 else part.diagonal(dim1=1, dim2=2).real


def _weight_of(node: Node, own: Tensor) -> Tensor:
    """The weight of a sum; a product adds nothing to its factors."""
    return torch.eye(node.key[0], dtype=own.dtype, device=own.device) if node.weight is None else node.weight


def _through_entrywise(weight: Tensor, own: Tensor, others: list[Message], place: int) -> Tensor:
    """F_cd ∏_i (R_i)_cd over the other factors, with F = Wᵀ E W* and W already times those that are known."""
    vectors = [part for part in others if part is not None and part.ndim == 2]
    half = weight.unsqueeze(0)
    for vector in vectors:
        half = half * vector.unsqueeze(1)
    lead = _led(own, half)
    if any(part is None for i, part in enumerate(others) if i != place):  # an identity: the diagonal is left
        found = (lead * half.conj()).sum(dim=1).real
        return contraction.entrywise([found, *(_squares(p, found, 0) for p in others if _is_matrix(p))])
    full = lead.mT @ half.conj()
    return contraction.entrywise([full, *(part for part in others if part is not None and part.ndim == 3)])


def _is_matrix(part: Message) -> bool:
    return part is not None and part.ndim == 3


def _through_kronecker(
    weight: Tensor, widths: list[int], own: Tensor, others: list[Message], place: int
) -> Tensor:
    """Σ E_ij A_ikr R_rs A*_jls, A being the weight contracted with the vectors: (B or 1, k, l)."""
    vectors = {i: p.T.unsqueeze(0) for i, p in enumerate(others) if p is not None and p.ndim == 2}
    left = [i for i in range(len(widths)) if i not in vectors]
    tensor = contraction.close_vectors(weight.unsqueeze(0), widths, vectors)  # (1, B or 1, K, columns left)
    matrices = {left.index(i): p.unsqueeze(0) for i, p in enumerate(others) if p is not None and p.ndim == 3}
    shape = [widths[i] for i in left]

    def first(value: Tensor) -> Tensor:  # (B or 1, K, k, columns of the others)
        shaped = value[0].reshape(*value.shape[1:3], *shape).movedim(2 + left.index(place), 2)
        return shaped.flatten(3) if shaped.ndim > 3 else shaped.unsqueeze(3)

    plain = first(tensor)
    seen = first(contraction.multiply_modes(tensor, shape, matrices)) if matrices else plain
    if len(plain) == len(seen) == 1 and _is_worth_a_map(own, plain):
        return _mapped(own, plain[0], seen[0])
    lead = _led(own, seen.flatten(2)).reshape(-1, *seen.shape[1:])
    return _joined(lead, plain)


def _is_worth_a_map(own: Tensor, tensor: Tensor) -> bool:
    """K⁴ entries take 8K⁵ operations to form and 2K⁴ a row to use; without them a row takes 16K⁴."""
    most = SMALL_ON_GPUS if own.is_cuda and len(own) >= len(own[0]) else SMALL
    return len(own) > 1 and math.prod(tensor.shape[1:3]) ** 2 <= most


def _led(own: Tensor, tensor: Tensor) -> Tensor:
    """Σ_i E_ij A_i…: (B or 1, K, K) or its diagonal, and (B or 1, K, columns) → (B or 1, K, columns)."""
    if own.ndim == 2:
        return own.unsqueeze(2) * tensor
    if len(tensor) > 1 or len(own) == 1:
        return own.mT @ tensor
    flat = own.mT.reshape(-1, own.shape[2]) @ tensor[0]
    return flat.reshape(*own.shape[:2], -1)


def _joined(lead: Tensor, plain: Tensor) -> Tensor:
    """Σ X_jkr A*_jlr: (B or 1, K, k, r) twice → (B or 1, k, l)."""
    left = lead.transpose(1, 2).flatten(2)  # (B or 1, k, K·r)
    right = plain.transpose(1, 2).flatten(2).conj()
    if len(right) > 1 or len(left) == 1:
        return left @ right.mT
    return (left.reshape(-1, left.shape[2]) @ right[0].T).reshape(*left.shape[:2], -1)


def _mapped(own: Tensor, plain: Tensor, seen: Tensor) -> Tensor:
    """The same for many rows by one real product, with a map that all share: (B, K²) @ (K², k²)."""
    units, width = plain.shape[:2]
    pairs = torch.einsum("ikr,jlr->ijkl", seen, plain.conj())
    full = torch.diag_embed(own) if own.ndim == 2 else own
    if not pairs.is_complex():
        return (full.flatten(1) @ pairs.reshape(units**2, -1)).reshape(-1, width, width)
    even, odd = pairs.real + pairs.imag, pairs.real - pairs.imag
    real = (even + even.transpose(0, 1) + odd - odd.transpose(0, 1)) / 2
    found = as_reals(full).flatten(1) @ real.reshape(units**2, -1)
    return _as_hermitian(found.reshape(-1, width, width))


def as_reals(matrix: Tensor) -> Tensor:
    """Re M + Im M, in which a Hermitian M is whole: one of them is symmetric, the other skew."""
    return matrix.real + matrix.imag if matrix.is_complex() else matrix


def _as_hermitian(reals: Tensor) -> Tensor:
    return torch.complex((reals + reals.mT) / 2, (reals - reals.mT) / 2)


def masses(own: Tensor, table: Tensor) -> Tensor:
    """Σ_kl E_kl f_k(s) f_l(s)* for every state s of a variable, up to a factor a row: (B or 1, S).

    Args:
        own: the environment of its input layer.
        table: the values of that layer, (K, S).
    """
    if own.ndim == 2:
        return (own @ (table * table.conj()).real).clamp_min(0)
    flat = as_reals(own).flatten(1)
    step = max(1, STATES // len(table) ** 2)
    parts = [flat @ _pairs(part).flatten(0, 1) for part in torch.split(table, step, dim=1)]
    return torch.cat(parts, dim=1).clamp_min(0)


def _pairs(table: Tensor) -> Tensor:
    """Re g − Im g of g_kl = f_k f_l*, which is to be summed with Re E + Im E: (K, K, S)."""
    product = table.unsqueeze(1) * table.unsqueeze(0).conj()
    return product.real - product.imag if product.is_complex() else product


def _of_size_one(value: Tensor) -> Tensor:
    """Vectors or matrices with a largest entry of 1, or zero."""
    size = value.abs().amax(dim=tuple(range(1, value.ndim)), keepdim=True)
    return value / torch.where(size > 0, size, 1.0)


def _of_trace_one(value: Tensor) -> Tensor:
    """Environments with a trace of 1, or zero."""
    diagonal = value if value.ndim == 2 else value.diagonal(dim1=1, dim2=2).real
    trace = diagonal.sum(dim=1)
    trace = torch.where(trace > 0, trace, 1.0)
    return value / trace.reshape(-1, *(1,) * (value.ndim - 1))
