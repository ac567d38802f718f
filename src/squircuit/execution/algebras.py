"""The two algebras in which a plan is swept: vectors of values, and Gram matrices.

A layer's values are a vector ℓ(x) for every sample; W (ℓ₁ ⊗ … ⊗ ℓ_N) is what a sum adds up. Integrated over
all variables, a layer is its Gram matrix R = ∫ ℓ ℓᴴ: products of layers become products of matrices of the
same kind, and a sum adds W (R₁ ⊗ … ⊗ R_N) Wᴴ. The first sweep ends in log p, the second in log Z.

Both hold numbers as e^s v̂ with a factor c that is divided out of v̂ and counted in s. It is held constant in
the backward pass, which is exact: e^s v̂ does not depend on it (see :mod:`squircuit.execution.network`).
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from typing import Protocol, final

import torch
from torch import Tensor

from squircuit.execution import complex_planes, weighted_product
from squircuit.execution.kernels import entrywise as kernel
from squircuit.execution.kernels import hermitian
from squircuit.execution.log_scales import common_scale, normalise
from squircuit.execution.weighted_product import Saved


class Algebra(Protocol):
    """What a sweep does with the layers of a group, F folds at once, forward and backward.

    A value is a tensor (F, …) of the layers' v̂, a scale one of their s. The kind of a product is
    "kronecker", "hadamard" or "linear" (a single factor, as it is).
    """

    @property
    def allows_tf32(self) -> bool:
        """A training step may use TF32 in its forward pass, too; in its backward pass it always may."""

    def shapes(self, width: int, like: Tensor) -> tuple[Sequence[int], Sequence[int]]:
        """The shapes of value and scale of one layer with K units, where an input's value is ``like``."""

    def normalise(self, out: Tensor, scales: list[Tensor], values: Tensor, scale: Tensor) -> Tensor:
        """Write out/c to ``values`` and Σ scales + log c to ``scale``; return 1/c, which broadcasts."""

    def product(self, kind: str, factors: list[Tensor]) -> Tensor:
        """The product of the factors."""

    def product_backward(
        self, kind: str, factors: list[Tensor], gradient: Tensor, targets: list[Tensor]
    ) -> None:
        """Write the gradients of the factors of a product to the targets."""

    def weigh(self, kind: str, weight: Tensor, factors: list[Tensor], keep: bool) -> tuple[Tensor, Saved]:
        """The product of the factors, weighed by W (F or 1, K, K2); with what the backward pass needs."""

    def weigh_backward(
        self,
        kind: str,
        weight: Tensor,
        saved: Saved,
        gradient: Tensor,
        targets: list[Tensor],
        total: Tensor | None,
    ) -> Tensor:
        """Write the gradients of the factors to the targets, and return that of the weight.

        Args:
            total: what has been found before of the weight's gradient and is to be added to, in place; it is
                returned. None: nothing yet, so that there is nothing to read, and memory may be new.
        """

    def add(self, outs: list[Tensor], scales: list[list[Tensor]]) -> tuple[Tensor, list[Tensor], Tensor]:
        """Σ_b e^(s_b − s) out_b of the inputs of a sum, the factors e^(s_b − s), which broadcast, and s.

        Args:
            outs: of the branches.
            scales: of the factors of each; s_b is their sum.
        """

    def root(self, value: Tensor) -> Tensor:
        """What is asked of a root layer's value: (K, …)."""

    def root_gradient(self, gradient: Tensor) -> Tensor:
        """The gradient of a root layer's value from that of what is asked."""


@final
class Vectors:
    """Values ℓ(x) as planes of reals, (F, K, 2 or 1, B), scaled to norm 1 for each sample; scales (F, B).

    An output that is exactly zero keeps the scale of its factors: it does not count, but its gradient does,
    where something else is added to it.
    """

    allows_tf32 = True

    def shapes(self, width: int, like: Tensor) -> tuple[Sequence[int], Sequence[int]]:
        return (width, *like.shape[2:]), like.shape[3:]

    def normalise(self, out: Tensor, scales: list[Tensor], values: Tensor, scale: Tensor) -> Tensor:
        return normalise(out, scales, values, scale)

    def product(self, kind: str, factors: list[Tensor]) -> Tensor:
        return (complex_planes.hadamard if kind == "hadamard" else complex_planes.kronecker)(factors)

    def product_backward(
        self, kind: str, factors: list[Tensor], gradient: Tensor, targets: list[Tensor]
    ) -> None:
        weighted_product.product_gradients(kind, factors, gradient.contiguous(), targets)

    def weigh(self, kind: str, weight: Tensor, factors: list[Tensor], keep: bool) -> tuple[Tensor, Saved]:
        return weighted_product.forward(kind, complex_planes.pairs(weight), factors, keep)

    def weigh_backward(
        self,
        kind: str,
        weight: Tensor,
        saved: Saved,
        gradient: Tensor,
        targets: list[Tensor],
        total: Tensor | None,
    ) -> Tensor:
        found = torch.empty_like(weight) if total is None else total
        pairs, into = complex_planes.pairs(weight), complex_planes.pairs(found)  # views
        weighted_product.backward(kind, pairs, saved, gradient, targets, into, fresh=total is None)
        return found

    def add(self, outs: list[Tensor], scales: list[list[Tensor]]) -> tuple[Tensor, list[Tensor], Tensor]:
        lost = [(out == 0).flatten(1, 2).all(dim=1) for out in outs]
        ratios, scale = common_scale(scales, lost)
        ratios = [ratio[:, None, None] for ratio in ratios]
        total = torch.zeros_like(outs[0])
        for out, ratio in zip(outs, ratios, strict=True):
            total += out * ratio
        return total, ratios, scale

    def root(self, value: Tensor) -> Tensor:
        return value

    def root_gradient(self, gradient: Tensor) -> Tensor:
        return gradient


@final
class Grams:
    """Gram matrices R = ∫ ℓ ℓᴴ, (F, K, K), scaled to trace K; scales (F,). A zero has scale −inf.

    The inputs of a sum are taken to be orthogonal to each other: R = Σ_b W_b R_b W_bᴴ without cross terms.
    W (R₁ ⊗ … ⊗ R_N) Wᴴ is contracted one factor at a time: K·∏K_i·ΣK_i operations a layer, and never a matrix
    of (∏K_i)² entries.

    Gradients of Hermitian matrices are Hermitian: with R = W A Wᴴ and G = ∂R, ∂W = 2 G W A and ∂A = Wᴴ G W.
    R itself is never in TF32, so that log Z is exact to single precision; its gradients may be.
    """

    allows_tf32 = False

    def shapes(self, width: int, like: Tensor) -> tuple[Sequence[int], Sequence[int]]:
        return (width, width), ()

    def normalise(self, out: Tensor, scales: list[Tensor], values: Tensor, scale: Tensor) -> Tensor:
        trace = out.diagonal(dim1=1, dim2=2).real.sum(dim=1) / out.shape[1]  # (F,)
        inverse = torch.where(trace == 0, 0.0, 1 / trace)[:, None, None]
        torch.mul(out, inverse, out=values)
        scale.copy_(sum(scales, trace.log()))
        return inverse

    def product(self, kind: str, factors: list[Tensor]) -> Tensor:
        if kind != "kronecker":
            return entrywise(factors)
        whole = factors[0]
        for gram in factors[1:]:
            whole = torch.einsum("fij,fkl->fikjl", whole, gram).flatten(3).flatten(1, 2)
        return whole

    def product_backward(
        self, kind: str, factors: list[Tensor], gradient: Tensor, targets: list[Tensor]
    ) -> None:
        if kind != "kronecker":
            entrywise_gradients(factors, gradient, targets)
            return
        found = _recomputed(lambda *grams: self.product(kind, list(grams)), gradient, factors)
        torch._foreach_copy_(targets, found)

    def weigh(self, kind: str, weight: Tensor, factors: list[Tensor], keep: bool) -> tuple[Tensor, Saved]:
        return self._sandwich(kind, weight, factors), Saved(factors)

    def weigh_backward(
        self,
        kind: str,
        weight: Tensor,
        saved: Saved,
        gradient: Tensor,
        targets: list[Tensor],
        total: Tensor | None,
    ) -> Tensor:
        if kind == "kronecker":  # torch goes back through the contractions, made again and not kept
            arguments = [weight, *saved.factors]
            found, *of_factors = _recomputed(
                lambda w, *grams: self._sandwich(kind, w, list(grams)), gradient, arguments
            )
            torch._foreach_copy_(targets, of_factors)
        else:
            half = gradient @ weight  # G W
            entrywise_gradients(saved.factors, weight.mH @ half, targets)
            found = twice(half, entrywise(saved.factors))
        if len(found) > len(weight):  # one matrix for all folds
            found = found.sum(dim=0, keepdim=True)
        return found if total is None else total.add_(found)

    def _sandwich(self, kind: str, weight: Tensor, grams: list[Tensor]) -> Tensor:
        """W (R₁ ⊗ … ⊗ R_N) Wᴴ or W (R₁ ⊙ … ⊙ R_N) Wᴴ: (F, K, K)."""
        if kind == "kronecker":
            weight = weight.expand(len(grams[0]), -1, -1)
            half = _apply_each(weight, grams)
        else:
            half = weight @ entrywise(grams)
        return hermitian.product(half, weight.expand_as(half))

    def add(self, outs: list[Tensor], scales: list[list[Tensor]]) -> tuple[Tensor, list[Tensor], Tensor]:
        ratios, scale = common_scale(scales)
        ratios = [ratio[:, None, None] for ratio in ratios]
        shares = [out * ratio for out, ratio in zip(outs, ratios, strict=True)]
        return torch.stack(shares).sum(dim=0), ratios, scale

    def root(self, value: Tensor) -> Tensor:
        """∫ |ℓ_r|² of its units."""
        return value.diagonal().real

    def root_gradient(self, gradient: Tensor) -> Tensor:
        return torch.diag_embed(gradient)


VECTORS, GRAMS = Vectors(), Grams()


def _recomputed(
    function: Callable[..., Tensor], gradient: Tensor, arguments: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """The gradients of a function's arguments, by running it again where torch watches."""
    leaves = [argument.detach().requires_grad_() for argument in arguments]
    with torch.enable_grad():
        out = function(*leaves)
    return torch.autograd.grad(out, leaves, gradient)


def _apply_each(weight: Tensor, grams: list[Tensor]) -> Tensor:
    """Σ W[k, i₁ … i_N] R₁[i₁, j₁] … R_N[i_N, j_N]: (F, K, ∏K_i)."""
    axes = string.ascii_letters[2 : 2 + len(grams)]
    weight = weight.reshape(*weight.shape[:2], *(gram.shape[1] for gram in grams))
    for axis, gram in zip(axes, grams, strict=True):
        weight = torch.einsum(f"ab{axes},a{axis}z->ab{axes.replace(axis, 'z')}", weight, gram)
    return weight.flatten(2)


def twice(a: Tensor, b: Tensor) -> Tensor:
    """2 A B, without a pass of its own for the 2."""
    return torch.baddbmm(a.new_empty(()), a, b.expand(len(a), -1, -1), beta=0, alpha=2)


def entrywise(grams: list[Tensor]) -> Tensor:
    """R₁ ⊙ … ⊙ R_N."""
    if kernel.usable(grams):
        return kernel.product(grams)
    whole = grams[0]
    for gram in grams[1:]:
        whole = whole * gram
    return whole


def entrywise_gradients(grams: list[Tensor], gradient: Tensor, targets: list[Tensor]) -> None:
    """G times the conjugates of the other factors, by halves, written to the targets."""
    if kernel.usable(grams) and kernel.usable([gradient, *targets[:1]]):
        kernel.gradients(grams, gradient, targets)
    elif len(grams) == 1:
        targets[0].copy_(gradient)
    else:
        half = len(grams) // 2
        left, right = grams[:half], grams[half:]
        entrywise_gradients(left, gradient * entrywise(right).conj(), targets[:half])
        entrywise_gradients(right, gradient * entrywise(left).conj(), targets[half:])
