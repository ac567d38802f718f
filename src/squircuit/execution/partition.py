"""log Z by propagating Gram matrices: R = ∫ ℓ ℓᴴ of every layer, all layers of a group together.

One differentiable operation, forward and backward by hand, like the network's. Grams are scaled, R = e^s R̂
with R̂ of trace K, so that free weights over hundreds of variables neither overflow nor vanish; the factor is
held constant in the backward pass, which is exact because it cancels in log Z. Gradients of Hermitian
matrices are Hermitian: with R = W A Wᴴ and G = ∂R, ∂W = 2 G W A and ∂A = Wᴴ G W.

Grams are never in TF32. The products of the backward pass are products of a training step and may be.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias, final

import torch
from torch import Tensor

from squircuit.execution.derivatives import require_eager, require_first
from squircuit.execution.kernels import entrywise as kernel
from squircuit.execution.kernels import hermitian
from squircuit.execution.network import Network
from squircuit.execution.plan import Branch, Group, InputGroup, Plan, ProductGroup, SumGroup, Use
from squircuit.execution.precision import tf32
from squircuit.execution.scaled import common_scale, log_or_nothing
from squircuit.families import Family

FamilyValues: TypeAlias = Callable[[InputGroup], Mapping[str, Tensor]]


def has_cross_terms(plan: Plan) -> bool:
    """Some sum has several inputs, whose inner products with each other count unless they are orthogonal."""
    return any(isinstance(group, SumGroup) and len(group.branches) > 1 for group in plan.groups)


@final
class GramPropagation:
    """R of every layer of a plan; the inputs of a sum must be orthogonal to each other: Σ_b W_b R_b W_bᴴ.

    W (R₁ ⊗ … ⊗ R_N) Wᴴ is contracted one factor at a time: K·∏K_i·ΣK_i operations a layer, and never a matrix
    of (∏K_i)² entries. Differentiable in the weights.

    Args:
        network: of the plan.
        stacks: the weights.
        family_values: values of the learnable parameters of a group's families.
    """

    def __init__(self, network: Network, stacks: Sequence[Tensor], family_values: FamilyValues) -> None:
        self.network, self.stacks, self.family_values = network, stacks, family_values

    def log_norms(self, device: torch.device) -> Tensor:
        """log R_rr of the root units: (R,)."""
        require_eager()
        with tf32(False):
            groups = [g for g in self.network.plan.groups if isinstance(g, InputGroup)]
            grams = [self._input_gram(group, device) for group in groups]
        dtype = grams[0].dtype
        for each in [*grams, *self.stacks]:
            dtype = torch.promote_types(dtype, each.dtype)
        tensors = [each.to(dtype) for each in [*grams, *self.stacks]]
        norms, scales = _Propagate.apply(self.network, len(grams), *tensors)  # type: ignore[no-untyped-call]
        found: Tensor = log_or_nothing(norms) + scales
        return found

    def _input_gram(self, group: InputGroup, device: torch.device) -> Tensor:
        """∫ ℓ ℓᴴ = W (∫ φ φᴴ) Wᴴ of the layers of a group: (F, K, K)."""
        if group.weight is None:
            return _functions_gram(group, self.family_values(group), device).expand(group.folds, -1, -1)
        stack = self.network.weight(self.stacks, group.weight)
        weight = stack[:, group.first_row : group.first_row + group.units]
        if group.family.is_orthonormal:
            gram: Tensor = _OwnGram.apply(weight, self.network.tf32)  # type: ignore[no-untyped-call]
            return gram.expand(group.folds, -1, -1)
        functions = _functions_gram(group, self.family_values(group), device)
        dtype = torch.promote_types(weight.dtype, functions.dtype)
        return (weight.to(dtype) @ functions.to(dtype) @ weight.to(dtype).mH).expand(group.folds, -1, -1)


class _OwnGram(torch.autograd.Function):
    """W Wᴴ; its gradient G comes from the propagation and is Hermitian, so ∂W = 2 G W."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, allow_tf32: bool) -> Tensor:
        ctx.save_for_backward(weight)
        ctx.tf32 = allow_tf32
        return hermitian.product(weight, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        require_first()
        (weight,) = ctx.saved_tensors
        with tf32(ctx.tf32):
            return _twice(gradient, weight), None


@dataclass
class _State:
    """Grams, scales and what the backward pass needs, of one run."""

    grams: dict[int, Tensor] = field(default_factory=dict)  # width -> (N, K, K)
    scales: dict[int, Tensor] = field(default_factory=dict)  # width -> (N,)
    inverses: dict[Group, Tensor] = field(default_factory=dict)  # K/trace, (F, 1, 1)
    factors: dict[Branch, Tensor] = field(default_factory=dict)  # exp(s_b − s), (F, 1, 1)


class _Propagate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, network: Network, count: int, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        inputs, weights = tensors[:count], tensors[count:]
        state, pending = _pools(network.plan, inputs[0]), list(inputs)
        with tf32(False):
            for group in network.plan.groups:
                scales: list[Tensor] = []
                if isinstance(group, InputGroup):
                    gram = pending.pop(0)
                elif isinstance(group, SumGroup):
                    gram, scales = _sum(network, state, group, weights)
                else:
                    factors, scales = _read(network, state, group.branch)
                    gram = _product_gram(group.branch, factors)
                _store(state, group, gram, scales)
        ctx.network, ctx.state, ctx.weights = network, state, weights
        roots = network.plan.roots
        norms = torch.cat([state.grams[k][i].diagonal().real for k, i in roots])
        log_scales = torch.cat([state.scales[k][i].expand(k) for k, i in roots])
        ctx.mark_non_differentiable(log_scales)
        return norms, log_scales

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Any, ...]:
        require_first()
        network, state = ctx.network, ctx.state
        pools = network.gradient_pools(state.grams)
        start = 0
        for width, place in network.plan.roots:
            part = torch.diag_embed(gradient[start : start + width]).to(pools[width].dtype)
            network.deliver(pools[width], width, place, part)
            start += width
        totals: list[Tensor | None] = [None] * len(ctx.weights)
        inputs: list[Tensor] = []
        with tf32(network.tf32):
            for group in reversed(network.plan.groups):
                g = pools[group.units][group.writes.start : group.writes.stop] * state.inverses[group]
                if isinstance(group, InputGroup):
                    inputs.append(g)
                elif isinstance(group, SumGroup):
                    _sum_backward(network, state, group, ctx.weights, g, totals, pools)
                else:
                    _product_backward(network, state, group, g, pools)
        return (None, None, *reversed(inputs), *totals)


def _pools(plan: Plan, like: Tensor) -> _State:
    state = _State()
    for width, layers in plan.pools.items():
        state.grams[width] = like.new_empty(layers, width, width)
        state.scales[width] = torch.empty(layers, dtype=like.dtype.to_real(), device=like.device)
    return state


def _store(state: _State, group: Group, gram: Tensor, scales: list[Tensor]) -> None:
    """R̂ = K R / tr R and s = Σ s_i + log(tr R / K); a Gram that is exactly zero keeps scale −inf."""
    stretch = slice(group.writes.start, group.writes.stop)
    trace = gram.diagonal(dim1=1, dim2=2).real.sum(dim=1) / group.units  # (F,)
    inverse = torch.where(trace == 0, 0.0, 1 / trace)[:, None, None]
    torch.mul(gram, inverse, out=state.grams[group.units][stretch])
    state.scales[group.units][stretch] = sum(scales, trace.log())
    state.inverses[group] = inverse


def _read(network: Network, state: _State, branch: Branch) -> tuple[list[Tensor], list[Tensor]]:
    """The Grams of a branch's factors and their log-scales."""
    reads = list(zip(branch.widths, branch.reads, strict=True))
    grams = [network.read(state.grams[k], slots) for k, slots in reads]
    return grams, [network.read(state.scales[k], slots) for k, slots in reads]


def _sum(
    network: Network, state: _State, group: SumGroup, weights: Sequence[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    """Σ_b R_b with R_b = W_b (R₁ ⊗ …) W_bᴴ of the branches, and log-scales."""
    weight = network.weight(weights, group.weight)
    read = [_read(network, state, branch) for branch in group.branches]
    found = [
        _sum_gram(branch, _columns(weight, branch), grams)
        for branch, (grams, _) in zip(group.branches, read, strict=True)
    ]
    if len(found) == 1:
        return found[0], read[0][1]
    factors, largest = common_scale([scales for _, scales in read])
    state.factors.update(zip(group.branches, (f[:, None, None] for f in factors), strict=True))
    shares = [gram * state.factors[b] for b, gram in zip(group.branches, found, strict=True)]
    return torch.stack(shares).sum(dim=0), [largest]


def _columns(weight: Tensor, branch: Branch) -> Tensor:
    """The columns of a branch: (F or 1, K, K2)."""
    start, stop = branch.columns
    return weight if (start, stop) == (0, weight.shape[2]) else weight[:, :, start:stop].contiguous()


def _sum_gram(branch: Branch, weight: Tensor, grams: list[Tensor]) -> Tensor:
    """W (R₁ ⊗ … ⊗ R_N) Wᴴ or W (R₁ ⊙ … ⊙ R_N) Wᴴ: (F, K, K)."""
    if branch.kind == "kronecker":
        weight = weight.expand(len(grams[0]), -1, -1)
        half = _apply_each(weight.reshape(*weight.shape[:2], *branch.widths), grams).flatten(2)
    else:
        half = weight @ entrywise(grams)
    return hermitian.product(half, weight.expand_as(half))


def _sum_backward(
    network: Network,
    state: _State,
    group: SumGroup,
    weights: Sequence[Tensor],
    gradient: Tensor,
    totals: list[Tensor | None],
    pools: dict[int, Tensor],
) -> None:
    weight, parts = network.weight(weights, group.weight), []
    for branch in group.branches:
        g = gradient * state.factors[branch] if len(group.branches) > 1 else gradient
        grams, _ = _read(network, state, branch)
        with network.targets(branch, pools) as targets:
            parts.append(_branch_backward(branch, _columns(weight, branch), grams, g, targets))
    of_weight = torch.cat(parts, dim=2) if len(parts) > 1 else parts[0]
    _add_weight(network, totals, weights, group.weight, of_weight)


def _branch_backward(
    branch: Branch, weight: Tensor, grams: list[Tensor], gradient: Tensor, targets: list[Tensor]
) -> Tensor:
    """The gradients of the factors' Grams, written to the targets, and that of the weight, returned."""
    if branch.kind == "kronecker":
        of_weight, found = _recomputed(lambda w, *r: _sum_gram(branch, w, list(r)), gradient, weight, *grams)
        torch._foreach_copy_(targets, found)
        return of_weight
    half = gradient @ weight  # G W
    entrywise_gradients(grams, weight.mH @ half, targets)
    return _twice(half, entrywise(grams))


def _product_gram(branch: Branch, grams: list[Tensor]) -> Tensor:
    if branch.kind != "kronecker":
        return entrywise(grams)
    whole = grams[0]
    for gram in grams[1:]:
        whole = torch.einsum("fij,fkl->fikjl", whole, gram).flatten(3).flatten(1, 2)
    return whole


def _product_backward(
    network: Network, state: _State, group: ProductGroup, gradient: Tensor, pools: dict[int, Tensor]
) -> None:
    grams, _ = _read(network, state, group.branch)
    with network.targets(group.branch, pools) as targets:
        if group.branch.kind == "kronecker":
            first, rest = _recomputed(lambda *r: _product_gram(group.branch, list(r)), gradient, *grams)
            torch._foreach_copy_(targets, [first, *rest])
        else:
            entrywise_gradients(grams, gradient, targets)


def _recomputed(
    function: Callable[..., Tensor], gradient: Tensor, *arguments: Tensor
) -> tuple[Tensor, list[Tensor]]:
    """The gradients of a function's arguments, the first apart, by running it again."""
    leaves = [argument.detach().requires_grad_() for argument in arguments]
    with torch.enable_grad():
        out = function(*leaves)
    first, *rest = torch.autograd.grad(out, leaves, gradient)
    return first, rest


def _add_weight(
    network: Network, totals: list[Tensor | None], weights: Sequence[Tensor], use: Use, gradient: Tensor
) -> None:
    """Add the gradients of a group's folds, (F, K1, K2), to that of its stack."""
    total = totals[use.stack]
    if use.index is None or use.is_tied:
        gradient = gradient.sum(dim=0, keepdim=True) if use.is_tied else gradient
        totals[use.stack] = gradient if total is None else total + gradient
        return
    if total is None:
        total = totals[use.stack] = torch.zeros_like(weights[use.stack])
    total.index_add_(0, network.index(use.index, total.device), gradient)


def _apply_each(weight: Tensor, grams: list[Tensor]) -> Tensor:
    """Σ W[k, i₁ … i_N] R₁[i₁, j₁] … R_N[i_N, j_N]: (F, K, K₁, …, K_N)."""
    axes = string.ascii_letters[2 : 2 + len(grams)]
    for axis, gram in zip(axes, grams, strict=True):
        weight = torch.einsum(f"ab{axes},a{axis}z->ab{axes.replace(axis, 'z')}", weight, gram)
    return weight


def _twice(a: Tensor, b: Tensor) -> Tensor:
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


def _functions_gram(group: InputGroup, values: Mapping[str, Tensor], device: torch.device) -> Tensor:
    """∫ φ φᴴ of the families of a group, (F or 1, n, n), in double precision."""
    if not values or group.family.is_orthonormal:
        return _fixed_gram(group.family, device)
    return torch.func.vmap(group.family.gram)(dict(values))


@lru_cache(maxsize=1024)
def _fixed_gram(family: Family, device: torch.device) -> Tensor:
    """Made once: quadrature takes a while, and a CUDA graph cannot copy from the host."""
    with torch.inference_mode(mode=False), torch.no_grad():  # the result outlives the caller's mode
        return family.gram().unsqueeze(0).to(device)
