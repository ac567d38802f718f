"""log p(y) with a scale for every unit, in double precision: for rows far from the data.

Elsewhere the units of a layer share one scale (:mod:`squircuit.execution.network`,
:mod:`squircuit.inference.upward.messages`). That is fast, and exact as long as the units of a layer do not
differ by more than a float holds. A row far from the data may make them differ by more: of two Gaussians of
different widths the narrow one is e^−5000 of the wide one at 100 standard deviations. Such a unit must not
count as zero, since a factor of another variable may be as much larger. Here a vector is r_i = r̂_i e^{s_i}
and a matrix R_ij = R̂_ij e^{s_i + s_j}, so nothing is lost; layers are computed one by one, which is slow and
serves the few rows that need it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import NamedTuple, final

import torch
from torch import Tensor

from squircuit.execution.inputs import functions_gram
from squircuit.execution.log_scales import log_or_nothing, log_sum
from squircuit.execution.network import Network
from squircuit.execution.plan import Branch, InputGroup, ProductGroup, SumGroup
from squircuit.families import Categorical, InputFunctions
from squircuit.families.base import largest_scale
from squircuit.families.domain import Finite
from squircuit.inference.compile.compiled_circuit import Snapshot
from squircuit.inference.upward.contraction import kronecker_matrices
from squircuit.inference.upward.input_layers import (
    block_family,
    function_values,
    input_weight,
    layer_values,
)
from squircuit.regions.scope import Scope

SPREAD = {torch.float32: 60.0, torch.float64: 500.0}
"""How far the log-scales of one variable's functions may be apart before units may be lost. Sums of several
variables' spreads are rarely needed: what one variable has lost, another must make up for."""
MOST = 350.0
"""The largest log-scale of a gradient of zeros beside its layer's: squares are numbers still."""


class Units(NamedTuple):
    """A layer's output r̂ e^s, (B, K) and (B, K); or its matrix, (B, K, K) and (B, K).

    A unit that is zero has the scale of what it is made of: it does not count, but its gradient does.
    """

    value: Tensor
    scale: Tensor  #: without gradient

    @property
    def counts(self) -> Tensor:
        """Which units are not zero: (B, K)."""
        return (self.value if self.is_vector else self.value.diagonal(dim1=1, dim2=2)).detach() != 0

    @property
    def is_vector(self) -> bool:
        return self.value.ndim == 2

    def as_matrix(self) -> Units:
        if not self.is_vector:
            return self
        return Units(self.value.unsqueeze(2) * self.value.unsqueeze(1).conj(), self.scale)


def may_spread(families: Sequence[InputFunctions]) -> bool:
    """Far out the functions of one variable, of one or several input layers, do not vanish alike."""
    if isinstance(families[0].domains[0], Finite):
        return False
    return len(families) > 1 or not families[0].has_one_scale


def without_unit_scales(snapshot: Snapshot) -> list[int]:
    """The variables whose units share scales in a query; the squares of others have scales of their own."""

    def is_shared(group: InputGroup) -> bool:
        return group.weight is not None and may_spread([group.family])

    return [
        variable
        for variable, layers in snapshot.inputs.items()
        if not snapshot.has_units_alone(variable) or any(is_shared(group) for group, _ in layers)
    ]


def needs_unit_scales(
    snapshot: Snapshot, x: Tensor, missing: Tensor, real: torch.dtype, variables: Iterable[int] | None = None
) -> Tensor:
    """Rows in which the functions of a variable differ by more than a precision holds beside other factors.

    Args:
        snapshot: of the model.
        x, missing: rows, (n, d) each.
        real: float32 or float64.
        variables: to be looked at; default all.

    Returns:
        Booleans, (n,).
    """
    found = torch.zeros(len(x), dtype=torch.bool, device=x.device)
    for variable in snapshot.inputs if variables is None else variables:
        layers = snapshot.inputs[variable]
        if not may_spread([group.family for group, _ in layers]):
            continue
        least, most = x.new_full((len(x),), torch.inf), x.new_full((len(x),), -torch.inf)
        for group, fold in layers:
            values = layer_values(snapshot, group, fold)
            functions, scale = group.family.evaluate_separately(group.at(x, fold).detach(), values)
            sizes = scale + functions.detach().abs().log()
            there = functions != 0
            least = torch.minimum(least, torch.where(there, sizes, torch.inf).amin(dim=1))
            most = torch.maximum(most, torch.where(there, sizes, -torch.inf).amax(dim=1))
        found |= (most - least > SPREAD[real]) & ~missing[:, variable]
    return found


@torch.no_grad()
def largest_spread(
    network: Network, stacks: Sequence[Tensor], scopes: Mapping[tuple[int, int], Scope]
) -> float:
    """How far the units of layers over the same variables are apart by their weights alone.

    A unit is as large as the largest product of weights below it. Queries hold the units of a layer beside
    one another, and where they join layers those of one scope.

    Args:
        network: of the plan.
        stacks: the weights, in double precision.
        scopes: of every layer, by its width and its place in the pool.

    Returns:
        The difference of their logarithms; units that are zero do not count.
    """
    sizes = {width: stacks[0].new_zeros(layers, width).real for width, layers in network.plan.pools.items()}
    for group in network.plan.groups:
        sizes[group.units][slice(group.writes.start, group.writes.stop)] = _log_sizes(
            group, network, stacks, sizes
        )
    least: defaultdict[Scope, float] = defaultdict(lambda: math.inf)
    most: defaultdict[Scope, float] = defaultdict(lambda: -math.inf)
    for (width, slot), scope in scopes.items():
        logs = sizes[width][slot]
        logs = logs[logs > -torch.inf]
        if len(logs):
            least[scope] = min(least[scope], float(logs.min()))
            most[scope] = max(most[scope], float(logs.max()))
    return max((most[scope] - least[scope] for scope in most), default=0.0)


def _log_sizes(
    group: InputGroup | SumGroup | ProductGroup,
    network: Network,
    stacks: Sequence[Tensor],
    sizes: Mapping[int, Tensor],
) -> Tensor:
    """log of the largest product of weights below each unit of a group: (F, K)."""

    def product(branch: Branch) -> Tensor:
        parts = [network.read(sizes[k], slots) for k, slots in zip(branch.widths, branch.reads, strict=True)]
        if branch.kind != "kronecker":
            return torch.stack(parts).sum(dim=0)
        return reduce(lambda a, b: (a.unsqueeze(2) + b.unsqueeze(1)).flatten(1), parts)

    if isinstance(group, ProductGroup):
        return product(group.branch)
    if group.weight is None:
        return stacks[0].new_zeros(group.folds, group.units).real
    logs = network.weight(stacks, group.weight).abs().log()
    if isinstance(group, InputGroup):
        rows = logs[:, group.first_row : group.first_row + group.units]
        return rows.amax(dim=2).expand(group.folds, -1)
    below = torch.cat([product(branch) for branch in group.branches], dim=1)
    return (logs + below.unsqueeze(1)).amax(dim=2)


def log_totals_by_unit(snapshot: Snapshot, x: Tensor, missing: Tensor, references: Tensor) -> Tensor:
    """log ∫ Σ_r π_r |c_r|² over the root units r of each of the circuits that are mixed, not divided by Z.

    Args:
        snapshot: of the model, in double precision.
        x: rows, (B, d).
        missing: which variables all of them lack, (d,).
        references: log-scales to be taken out of p, (B, d), see
            :class:`squircuit.inference.upward.inputs.InputMessages`.

    Returns:
        (B, M); −inf where p is 0.
    """
    layers = _Layers(snapshot, x, missing.tolist(), references)
    logs = torch.cat([_log_squares(layers.found[root]) for root in snapshot.plan.roots], dim=1)
    terms = torch.split(logs + log_or_nothing(snapshot.root_shares), list(snapshot.components), dim=1)
    lacking = snapshot.log_scales or (0.0,) * len(terms)
    return torch.stack([log_sum(t, dim=1) + 2 * more for t, more in zip(terms, lacking, strict=True)], dim=1)


@final
class _Layers:
    """The outputs of all layers for rows of one mask."""

    def __init__(self, snapshot: Snapshot, x: Tensor, missing: list[bool], references: Tensor) -> None:
        self.snapshot, self.x, self.missing, self.references = snapshot, x, missing, references
        self.found: dict[tuple[int, int], Units] = {}  # (width, slot) → output
        for group in snapshot.plan.groups:
            for fold, slot in enumerate(group.writes):
                self.found[group.units, slot] = self._layer(group, fold)

    def _layer(self, group: InputGroup | SumGroup | ProductGroup, fold: int) -> Units:
        if isinstance(group, InputGroup):
            if not any(self.missing[v] for v in group.blocks[fold]):
                return self._input(group, fold)
            return self._block(group, fold) if group.is_block else self._integral(group, fold)
        if isinstance(group, ProductGroup):
            return self._product(group.branch, fold)
        weight = self.snapshot.network.weight(self.snapshot.stacks, group.weight)
        matrix = weight[0 if len(weight) == 1 else fold]
        columns = [matrix[:, slice(*branch.columns)] for branch in group.branches]
        return _sum(columns, [self._product(branch, fold) for branch in group.branches])

    def _input(self, group: InputGroup, fold: int) -> Units:
        """W φ(x)."""
        columns, weight = group.at(self.x, fold), _weight(self.snapshot, group, fold)
        if isinstance(group.family, Categorical) and weight is not None:
            value = weight.T[columns.long()]
            return _balanced(value, torch.zeros_like(value.real))
        values = layer_values(self.snapshot, group, fold)
        functions, scale = group.family.evaluate_separately(columns, values)
        scale = scale - self.references[:, list(group.blocks[fold])].sum(dim=1, keepdim=True) / 2
        units = _balanced(functions.to(self.snapshot.dtype), scale)
        return units if weight is None else _sum([weight], [units])

    def _integral(self, group: InputGroup, fold: int) -> Units:
        """W (∫ φ φᴴ) Wᴴ."""
        values = function_values(self.snapshot, group, (fold,))
        gram = functions_gram(group, values, self.snapshot.device)[0].to(self.snapshot.dtype)
        weight = _weight(self.snapshot, group, fold)
        matrix = (gram if weight is None else weight @ gram @ weight.mH).expand(len(self.x), -1, -1)
        return _balanced(matrix, matrix.real.new_zeros(matrix.shape[:2]))

    def _block(self, group: InputGroup, fold: int) -> Units:
        """∫ ℓ ℓᴴ over what is missing of a block, at what is observed."""
        variables, family = list(group.blocks[fold]), block_family(group)
        observed, values = [not self.missing[v] for v in variables], layer_values(self.snapshot, group, fold)
        x = self.x[:, variables].double()
        halves = family.log_squares(x, observed, values) / 2  # (B, n)
        pairs, common = family.pair_integrals(x, observed, values)
        there = halves > -torch.inf
        held = torch.where(there, halves, 0.0).detach()
        logs = common[:, None, None] - held.unsqueeze(2) - held.unsqueeze(1)
        value = torch.where(pairs == 0, 0.0, pairs * logs.clamp(max=700).exp())
        squares = torch.where(there, (2 * (torch.where(there, halves, 0.0) - held)).exp(), 0.0)
        beside = 1 - torch.eye(value.shape[1], dtype=value.dtype, device=value.device)
        value = value * beside + torch.diag_embed(squares)  # squares may be too small for the common scale
        taken = self.references[:, variables].sum(dim=1, keepdim=True) / 2
        scale = torch.where(there, held - taken, -torch.inf)
        units = _balanced(value.to(self.snapshot.dtype), scale)
        weight = _weight(self.snapshot, group, fold)
        return units if weight is None else _sum([weight], [units])

    def _product(self, branch: Branch, fold: int) -> Units:
        """r₁ ⊗ … ⊗ r_N or r₁ ⊙ … ⊙ r_N, or of matrices; a single factor is itself."""
        keys = [(width, slots[fold]) for width, slots in zip(branch.widths, branch.reads, strict=True)]
        factors = [self.found[key] for key in keys]
        if not all(factor.is_vector for factor in factors):
            factors = [factor.as_matrix() for factor in factors]
        if branch.kind != "kronecker":
            value = reduce(torch.mul, (factor.value for factor in factors))
            return Units(value, torch.stack([factor.scale for factor in factors]).sum(dim=0))
        scale = reduce(lambda a, b: (a.unsqueeze(2) + b.unsqueeze(1)).flatten(1), (f.scale for f in factors))
        if factors[0].is_vector:
            values = (factor.value for factor in factors)
            return Units(reduce(lambda a, b: (a.unsqueeze(2) * b.unsqueeze(1)).flatten(1), values), scale)
        return Units(kronecker_matrices([factor.value.unsqueeze(0) for factor in factors])[0], scale)


def _weight(snapshot: Snapshot, group: InputGroup, fold: int) -> Tensor | None:
    """W of an input layer: (K, n), or None."""
    weight = input_weight(snapshot, group, (fold,))
    return None if weight is None else weight[0]


def _sum(weights: list[Tensor], inputs: list[Units]) -> Units:
    """Σ_b W_b r_b, or Σ_b W_b R_b W_bᴴ: cross terms of different inputs vanish where one is integrated.

    Args:
        weights: (K, C_b) each.
        inputs: of C_b units each.
    """
    pairs = list(zip(weights, inputs, strict=True))
    sizes = [weight.detach().abs() for weight in weights]
    logs = [
        torch.where(size > 0, size, 1.0).log() + units.scale.unsqueeze(1)
        for size, (_, units) in zip(sizes, pairs, strict=True)
    ]
    counted = [
        torch.where((size > 0) & units.counts.unsqueeze(1), log, -torch.inf)
        for size, log, (_, units) in zip(sizes, logs, pairs, strict=True)
    ]
    largest = torch.cat(counted, dim=2).amax(dim=2)  # (B, K): no term of a unit is larger
    largest = torch.where(largest > -torch.inf, largest, largest_scale(torch.cat(logs, dim=2), dim=2))
    parts: list[Tensor] = []
    for size, log, (weight, units) in zip(sizes, logs, pairs, strict=True):
        phases = weight / torch.where(size > 0, size, 1.0)
        # W_ij e^{s_j − s_i}, (B, K, C_b); of zeros, whose scale may be any, the gradient, which is bounded
        terms = phases * (log - largest.unsqueeze(2)).clamp(max=MOST).exp()
        if units.is_vector:
            parts.append((terms @ units.value.unsqueeze(2)).squeeze(2))
        else:
            parts.append(terms @ units.value @ terms.mH)
    return _balanced(torch.stack(parts).sum(dim=0), largest)


def _balanced(value: Tensor, scale: Tensor) -> Units:
    """Units of size 1: vectors are divided by |r_i|, matrices by √(R_ii R_jj)."""
    if value.ndim == 2:
        size = value.detach().abs()
    else:
        size = value.detach().diagonal(dim1=1, dim2=2).real.clamp_min(0).sqrt()
    divisor = torch.where(size > 0, size, 1.0)
    value = value / divisor if value.ndim == 2 else value / divisor.unsqueeze(2) / divisor.unsqueeze(1)
    return Units(value, scale + divisor.log())


def _log_squares(root: Units) -> Tensor:
    """log |r_i|², or log R_ii: (B, K)."""
    if root.is_vector:
        squares = (root.value * root.value.conj()).real
    else:
        squares = root.value.diagonal(dim1=1, dim2=2).real
    there = root.counts & (root.scale > -torch.inf)
    return log_or_nothing(torch.where(there, squares, 0.0)) + torch.where(there, 2 * root.scale, 0.0)
