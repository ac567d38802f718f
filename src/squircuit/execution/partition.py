"""log Z by propagating Gram matrices: R = ∫ ℓ ℓᴴ of every layer, all layers of a group together."""

from __future__ import annotations

import string
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, final

import torch
from torch import Tensor

from squircuit.execution.network import Network
from squircuit.execution.plan import Branch, InputGroup, Plan, ProductGroup, Slots, SumGroup

FamilyValues: TypeAlias = Callable[[InputGroup], Mapping[str, Tensor]]


def has_cross_terms(plan: Plan) -> bool:
    """Some sum has several inputs, whose inner products with each other count as well."""
    return any(isinstance(group, SumGroup) and len(group.branches) > 1 for group in plan.groups)


@final
class GramPropagation:
    """R of every layer of a plan without cross terms, as R = e^s R̂ with R̂ of trace K.

    Scaled, so that free weights over hundreds of variables neither overflow nor vanish. W (R₁ ⊗ … ⊗ R_N) Wᴴ
    is contracted one factor at a time: K·∏K_i·ΣK_i operations a layer, and never a matrix of (∏K_i)² entries.
    Differentiable in the weights.

    Args:
        network: of the plan.
        stacks: the weights.
        family_values: values of the learnable parameters of a group's families.
    """

    def __init__(self, network: Network, stacks: Sequence[Tensor], family_values: FamilyValues) -> None:
        self.network, self.stacks, self.family_values = network, stacks, family_values
        self._chunks: dict[int, list[tuple[range, Tensor, Tensor]]] = defaultdict(list)
        for group in network.plan.groups:
            if isinstance(group, InputGroup):
                self._store(group.units, group.writes, self._inputs(group), None)
            elif isinstance(group, SumGroup):
                self._store(group.units, group.writes, *self._sums(group))
            else:
                self._store(group.units, group.writes, *self._products(group))

    def log_total(self, mixture: Tensor) -> Tensor:
        """log Σ_r π_r R_rr over the root units: ()."""
        found = [self._read(k, range(i, i + 1)) for k, i in self.network.plan.roots]
        norms = torch.cat([gram[0].diagonal().real for gram, _ in found])
        scales = torch.cat([scale.expand(gram.shape[1]) for gram, scale in found])
        return torch.logsumexp((norms * mixture.to(norms.dtype)).log() + scales, dim=0)

    def _store(self, units: int, writes: range, gram: Tensor, scale: Tensor | None) -> None:
        trace = gram.diagonal(dim1=1, dim2=2).real.sum(dim=1) / units  # (F,)
        size = torch.where(trace > 0, trace, 1.0)
        log_size = torch.where(trace > 0, size.log(), -torch.inf)
        scale = log_size if scale is None else scale + log_size
        self._chunks[units].append((writes, gram / size[:, None, None], scale))

    def _read(self, width: int, slots: Slots) -> tuple[Tensor, Tensor]:
        """R̂ (F, K, K) and s (F,) of some places."""
        if isinstance(slots, range):
            for writes, gram, scale in self._chunks[width]:
                if writes.start <= slots.start and slots.stop <= writes.stop:
                    part = slice(slots.start - writes.start, slots.stop - writes.start)
                    return gram[part], scale[part]
        chunks = self._chunks[width]
        index = self.network.index(tuple(slots), chunks[0][1].device)
        gram, scale = (torch.cat([chunk[i] for chunk in chunks]) for i in (1, 2))  # type: ignore[misc]
        return gram.index_select(0, index), scale.index_select(0, index)

    def _inputs(self, group: InputGroup) -> Tensor:
        functions = _functions_gram(group, self.family_values(group))  # (F or 1, n, n)
        if group.weight is None:
            return functions.expand(group.folds, -1, -1)
        stack = self.network.weight(self.stacks, group.weight)
        weight = stack[:, group.first_row : group.first_row + group.units]
        if group.family.is_orthonormal:
            return (weight @ weight.mH).expand(group.folds, -1, -1)
        dtype = torch.promote_types(weight.dtype, functions.dtype)
        gram = weight.to(dtype) @ functions.to(device=weight.device, dtype=dtype) @ weight.to(dtype).mH
        return gram.expand(group.folds, -1, -1)

    def _factors(self, branch: Branch) -> tuple[list[Tensor], Tensor]:
        found = [self._read(k, slots) for k, slots in zip(branch.widths, branch.reads, strict=True)]
        return [gram for gram, _ in found], torch.stack([scale for _, scale in found]).sum(dim=0)

    def _sums(self, group: SumGroup) -> tuple[Tensor, Tensor]:
        (branch,) = group.branches
        grams, scale = self._factors(branch)
        weight = self.network.weight(self.stacks, group.weight).expand(group.folds, -1, -1)
        dtype = torch.promote_types(weight.dtype, grams[0].dtype)
        weight, grams = weight.to(dtype), [gram.to(dtype) for gram in grams]
        if branch.kind == "kronecker":
            half = _apply_each(weight.reshape(*weight.shape[:2], *branch.widths), grams).flatten(2)
        else:
            half = weight @ _entrywise(grams)
        return half @ weight.mH, scale

    def _products(self, group: ProductGroup) -> tuple[Tensor, Tensor]:
        grams, scale = self._factors(group.branch)
        if group.branch.kind != "kronecker":
            return _entrywise(grams), scale
        whole = grams[0]
        for gram in grams[1:]:
            whole = torch.einsum("fij,fkl->fikjl", whole, gram).flatten(3).flatten(1, 2)
        return whole, scale


def _apply_each(weight: Tensor, grams: list[Tensor]) -> Tensor:
    """Σ W[k, i₁ … i_N] R₁[i₁, j₁] … R_N[i_N, j_N]: (F, K, K₁, …, K_N)."""
    axes = string.ascii_letters[2 : 2 + len(grams)]
    for axis, gram in zip(axes, grams, strict=True):
        weight = torch.einsum(f"ab{axes},a{axis}z->ab{axes.replace(axis, 'z')}", weight, gram)
    return weight


def _entrywise(grams: list[Tensor]) -> Tensor:
    whole = grams[0]
    for gram in grams[1:]:
        whole = whole * gram
    return whole


def _functions_gram(group: InputGroup, values: Mapping[str, Tensor]) -> Tensor:
    """∫ φ φᴴ of the families of a group, (F or 1, n, n), in double precision."""
    if not values or group.family.is_orthonormal:
        return group.family.gram().unsqueeze(0)
    return torch.func.vmap(group.family.gram)(dict(values))
