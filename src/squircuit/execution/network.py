"""One sweep over a plan, forward and backward by hand, in one of two algebras.

All sums and products of a circuit are one differentiable operation. The walk is the same for the values of
layers and for their Gram matrices: groups in the order of the plan, layers read from and written to pools,
gradients on the way back. What a product, a sum and a scale are, an :class:`Algebra` says.

Numbers are scaled, not logarithms: a layer's output is e^s v̂, with v̂ of ordinary size. Dividing v̂ by c and
adding log c to s leaves e^s v̂ as it was, whatever c is. So the answer does not depend on c, its derivative
in c is zero, and gradients are exact with every c and every s held constant in the backward pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any, final

import torch
from torch import Tensor

from squircuit.execution.algebras import GRAMS, VECTORS, Algebra
from squircuit.execution.derivatives import require_eager, require_first
from squircuit.execution.gathering import GatheredStacks, changed, dtypes
from squircuit.execution.inputs import FamilyValues, input_gram, input_norms
from squircuit.execution.log_scales import log_or_nothing
from squircuit.execution.plan import (
    Branch,
    Group,
    InputGroup,
    Key,
    Plan,
    ProductGroup,
    Slots,
    SumGroup,
    Use,
    part_with_inner_products,
)
from squircuit.execution.precision import tf32
from squircuit.execution.weighted_product import Saved


@final
class Indices:
    """Scattered places as tensors, made once for each device: a step that is captured copies nothing.

    Example:
        >>> index = Indices()
        >>> index((2, 0), torch.device("cpu")) is index((2, 0), torch.device("cpu"))
        True
    """

    def __init__(self) -> None:
        self._made: dict[tuple[tuple[int, ...], torch.device], Tensor] = {}

    def __call__(self, places: tuple[int, ...], device: torch.device) -> Tensor:
        """The places as a tensor on a device: (n,)."""
        key = (places, device)
        if key not in self._made:
            with torch.inference_mode(False):  # it will serve in training as well
                self._made[key] = torch.tensor(places, device=device)
        return self._made[key]


@final
class Network:
    """Runs a plan's sums and products.

    Args:
        plan: the plan.
        tf32: let GPUs use TF32 in the products of a training step (not where no gradients are wanted).
    """

    def __init__(self, plan: Plan, tf32: bool = True) -> None:
        self.plan = plan
        self.tf32 = tf32
        self.index = Indices()
        self._crossed = part_with_inner_products(plan)
        crossed = set(self._crossed.groups)  # all sums are among them
        self._alone = [g for g in plan.groups if not isinstance(g, SumGroup) and g not in crossed]
        self._reads = _count_reads(plan)
        self.users = Counter(group.weight.stack for group in plan.groups if isinstance(group, SumGroup))
        self._added = {
            width
            for branch in plan.branches
            for width, slots in branch.factors
            if not self._is_direct(width, slots)
        } | {width for width, place in plan.roots if self._reads[width][place] > 1}

    def __call__(
        self,
        inputs: Sequence[Tensor],
        weights: Sequence[Tensor],
        input_scales: Sequence[Tensor | None] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The root units.

        Args:
            inputs: outputs of the input groups in the order of the plan, (F, K, 2 or 1, B) each.
            weights: the stacks, (S, K1, K2) each, complex or real as the inputs are.
            input_scales: their log-scales, (F, B) each, without gradient; None: zero.

        Returns:
            normalised values (R, 2 or 1, B) and log-scales (R, B) of the root units.
        """
        return self._sweep(VECTORS, inputs, weights, input_scales or [None] * len(inputs))

    def log_norms(self, stacks: Sequence[Tensor], values: FamilyValues, device: torch.device) -> Tensor:
        """log ∫ |c_r|² of the root units; differentiable in the weights.

        By Gram matrices below sums, and where only the squares of units are asked by these alone: a product
        of 400 input layers' units needs no inner products of them. The inputs of a sum must be orthogonal to
        each other: their inner products are not counted.

        Args:
            stacks: the weights.
            values: of the learnable parameters of a group's families.
            device: where it is computed.

        Returns:
            (R,).
        """
        require_eager()
        logs = self._log_norms_below(stacks, values, device)
        for group in self._alone:
            if isinstance(group, InputGroup):
                norms = input_norms(group, self._weight_of(stacks, group), values(group), device)
                found = log_or_nothing(norms.double()).expand(group.folds, -1).unbind()
            else:
                found = tuple(_product_of_logs(group.branch, fold, logs) for fold in range(group.folds))
            logs.update(zip(((group.units, place) for place in group.writes), found, strict=True))
        return torch.cat([logs[root] for root in self.plan.roots])

    def _log_norms_below(
        self, stacks: Sequence[Tensor], values: FamilyValues, device: torch.device
    ) -> dict[Key, Tensor]:
        """log ∫ |ℓ_k|² of sums, and of what else is asked of layers with inner products: (K,) each."""
        plan, names = self._crossed.plan, self._crossed.names
        if not names:
            return {}
        network = self if plan is self.plan else self._crossed_network
        with tf32(False):
            grams = [
                input_gram(group, self._weight_of(stacks, group), values, device, self.tf32)
                for group in plan.groups
                if isinstance(group, InputGroup)
            ]
        dtype = reduce(torch.promote_types, dtypes(stacks), reduce(torch.promote_types, dtypes(grams)))
        inputs = [gram.to(dtype) for gram in grams]
        weights = changed(stacks, lambda stack: stack.to(dtype))
        norms, scales = network._sweep(GRAMS, inputs, weights, [None] * len(inputs))
        found = torch.split(log_or_nothing(norms) + scales, [width for width, _ in names])
        return dict(zip(names, found, strict=True))

    @cached_property
    def _crossed_network(self) -> Network:
        return Network(self._crossed.plan, self.tf32)

    def weight(self, weights: Sequence[Tensor], use: Use) -> Tensor:
        """The weights of a group: (F or 1, K1, K2)."""
        stack = weights[use.stack]
        if use.is_whole:
            return stack
        assert use.index is not None
        return stack.index_select(0, self.index(use.index, stack.device))

    def read(self, pool: Tensor, slots: Slots) -> Tensor:
        """Places of a pool: a view of a stretch, or a copy of scattered ones."""
        if isinstance(slots, range):
            return pool[slots.start : slots.stop]
        return pool.index_select(0, self.index(slots, pool.device))

    def _sweep(
        self,
        algebra: Algebra,
        inputs: Sequence[Tensor],
        weights: Sequence[Tensor],
        input_scales: Sequence[Tensor | None],
    ) -> tuple[Tensor, Tensor]:
        # torch's own flag for this, needs_input_grad, is set without gradients, too
        tensors = weights.parts if isinstance(weights, GatheredStacks) else weights
        trains = torch.is_grad_enabled() and any(t.requires_grad for t in (*inputs, *tensors))
        run = _Run(self, algebra, trains, weights)
        require_eager()
        return _Sweep.apply(run, input_scales, *inputs, *tensors)  # type: ignore[no-untyped-call,no-any-return]

    def _weight_of(self, stacks: Sequence[Tensor], group: InputGroup) -> Tensor | None:
        return None if group.weight is None else self.weight(stacks, group.weight)

    # ------------------------------------------------------------------ where gradients go

    # Most layers have one reader. Where a branch reads a stretch of a pool that nobody else reads (in a tree
    # always), the gradients of its factors are *written* to that stretch of a pool of gradients, which need
    # not be zero before. Everywhere else the contributions of several readers are *added*.

    def gradient_pools(self, values: Mapping[int, Tensor]) -> dict[int, Tensor]:
        """Room for the gradient of every layer; zero where gradients will be added, not written."""
        return {k: (torch.zeros_like if k in self._added else torch.empty_like)(v) for k, v in values.items()}

    def deliver(self, pool: Tensor, width: int, place: int, gradient: Tensor) -> None:
        """The gradient of a root layer goes to its place."""
        if self._is_direct(width, range(place, place + 1)):
            pool[place] = gradient
        else:
            pool[place] += gradient

    @contextmanager
    def targets(self, branch: Branch, pools: Mapping[int, Tensor]) -> Iterator[list[Tensor]]:
        """Tensors for the gradients of a branch's factors: their places, or room that is added later."""
        direct = [self._is_direct(width, slots) for width, slots in branch.factors]
        targets = [
            self.read(pools[width], slots) if at_once else torch.empty_like(self.read(pools[width], slots))
            for at_once, (width, slots) in zip(direct, branch.factors, strict=True)
        ]
        yield targets
        for at_once, target, (width, slots) in zip(direct, targets, branch.factors, strict=True):
            if not at_once:
                self._add(pools[width], slots, target)

    def _is_direct(self, width: int, slots: Slots) -> bool:
        """The places are a stretch with no other reader, so gradients are written there at once."""
        return isinstance(slots, range) and all(self._reads[width][place] == 1 for place in slots)

    def _add(self, pool: Tensor, slots: Slots, values: Tensor) -> None:
        if isinstance(slots, range):
            pool[slots.start : slots.stop] += values
        else:
            pool.index_add_(0, self.index(slots, pool.device), values)


def _count_reads(plan: Plan) -> dict[int, list[int]]:
    """How often each place of each pool is read, by layers or as a root."""
    counts = {width: [0] * size for width, size in plan.pools.items()}
    for width, place in plan.roots:
        counts[width][place] += 1
    for branch in plan.branches:
        for width, slots in branch.factors:
            for place in slots:
                counts[width][place] += 1
    return counts


def _product_of_logs(branch: Branch, fold: int, logs: Mapping[Key, Tensor]) -> Tensor:
    """log ∫ |ℓ_k|² of a product of layers over different variables: (K,)."""
    factors = [logs[width, slots[fold]] for width, slots in branch.factors]
    if branch.kind == "kronecker":
        return reduce(lambda a, b: (a.unsqueeze(1) + b).flatten(), factors)
    return reduce(torch.add, factors)


class _Sweep(torch.autograd.Function):
    """A run as one operation of torch's: the inputs and the weights → the root units and their scales."""

    @staticmethod
    def forward(
        ctx: Any, run: _Run, input_scales: Sequence[Tensor | None], *tensors: Tensor
    ) -> tuple[Tensor, Tensor]:
        count, ctx.run = len(input_scales), run
        if not isinstance(run.weights, GatheredStacks):
            run.weights = tensors[count:]
        with tf32(run.network.tf32 and run.trains and run.algebra.allows_tf32):
            values, scales = run.forward(list(zip(tensors[:count], input_scales, strict=True)))
        ctx.mark_non_differentiable(scales)
        return values, scales

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Any, ...]:
        require_first()
        with tf32(ctx.run.network.tf32):
            return (None, None, *ctx.run.backward(gradient))


@dataclass
class _Run:
    """The walk forward, and what the walk backward needs of it."""

    network: Network
    algebra: Algebra
    trains: bool  # there will be a backward pass
    weights: Sequence[Tensor]  # the stacks
    values: dict[int, Tensor] = field(default_factory=dict)  # width -> v̂ of N layers, (N, …)
    scales: dict[int, Tensor] = field(default_factory=dict)  # width -> s of N layers
    inverses: dict[Group, Tensor] = field(default_factory=dict)  # 1/c of every layer
    saved: dict[Branch, list[Saved]] = field(default_factory=dict)  # one of each piece of the weights
    ratios: dict[Branch, Tensor] = field(default_factory=dict)  # exp(s_b − s), where a sum has several inputs

    def forward(self, inputs: Sequence[tuple[Tensor, Tensor | None]]) -> tuple[Tensor, Tensor]:
        """The root units and their log-scales."""
        plan, pending = self.network.plan, iter(inputs)
        self._make_pools(plan, inputs[0][0])
        for group in plan.groups:
            if isinstance(group, InputGroup):
                out, scale = next(pending)
                self._store(group, out, [] if scale is None else [scale.contiguous()])
            elif isinstance(group, SumGroup):
                self._store(group, *self._sum(group))
            else:
                self._store(group, *self._product(group))
        values = torch.cat([self.algebra.root(self.values[k][i]) for k, i in plan.roots])
        scales = torch.cat([self.scales[k][i].expand(k, *self.scales[k].shape[1:]) for k, i in plan.roots])
        return values, scales

    def backward(self, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of the inputs and of the stacks from that of the root units.

        Groups in the opposite order, so that all readers of a layer have given their part before it is used.
        """
        plan, pools = self.network.plan, self.network.gradient_pools(self.values)
        parts = torch.split(gradient, [width for width, _ in plan.roots])
        for (width, place), part in zip(plan.roots, parts, strict=True):
            self.network.deliver(pools[width], width, place, self.algebra.root_gradient(part))
        totals: list[Tensor | None] = [None] * len(self.weights)
        inputs: list[Tensor] = []
        left = self.network.users.copy()
        for group in reversed(plan.groups):
            # v̂ = v/c with c held constant: ∂v = ∂v̂/c
            g = pools[group.units][group.writes.start : group.writes.stop] * self.inverses[group]
            if isinstance(group, InputGroup):
                inputs.append(g)
            elif isinstance(group, SumGroup):
                self._sum_backward(group, g, pools, totals)
                left.subtract([group.weight.stack])
                if not left[group.weight.stack] and not self._in_pieces(group):
                    self._give_back(group.weight.stack, totals)
            else:
                self._product_backward(group, g, pools)
        return (*reversed(inputs), *totals)

    def _make_pools(self, plan: Plan, like: Tensor) -> None:
        for width, layers in plan.pools.items():
            value, scale = self.algebra.shapes(width, like)
            self.values[width] = like.new_empty(layers, *value)
            self.scales[width] = like.new_empty(layers, *scale, dtype=like.dtype.to_real())

    def _store(self, group: Group, out: Tensor, scales: list[Tensor]) -> None:
        """Scale the outputs of a group and write them to its places."""
        stretch = slice(group.writes.start, group.writes.stop)
        values, scale = self.values[group.units][stretch], self.scales[group.units][stretch]
        self.inverses[group] = self.algebra.normalise(out, scales, values, scale)

    def _read(self, branch: Branch) -> tuple[list[Tensor], list[Tensor]]:
        """The factors of a branch and their log-scales."""
        values = [self.network.read(self.values[k], slots) for k, slots in branch.factors]
        return values, [self.network.read(self.scales[k], slots) for k, slots in branch.factors]

    def _sum(self, group: SumGroup) -> tuple[Tensor, list[Tensor]]:
        outs, scales = [], []
        for branch in group.branches:
            factors, each = self._read(branch)
            parts: list[Tensor] = []
            for folds, weight in self._weights(group):
                part, some = _columns(weight, branch), [factor[folds] for factor in factors]
                out, saved = self.algebra.weigh(branch.kind, part, some, self.trains)
                if self.trains:  # otherwise copies of scattered layers can go
                    self.saved.setdefault(branch, []).append(saved)
                parts.append(out)
            outs.append(parts[0] if len(parts) == 1 else torch.cat(parts))
            scales.append(each)
        if len(outs) == 1:
            return outs[0], scales[0]
        total, ratios, scale = self.algebra.add(outs, scales)
        self.ratios.update(zip(group.branches, ratios, strict=True))
        return total, [scale]

    def _weights(self, group: SumGroup) -> Iterator[tuple[slice, Tensor]]:
        """Which folds, and their weights: all at once, or those of one process at a time."""
        if self._in_pieces(group) and isinstance(self.weights, GatheredStacks):
            yield from self.weights.pieces(group.weight.stack)
        else:
            yield slice(None), self.network.weight(self.weights, group.weight)

    def _in_pieces(self, group: SumGroup) -> bool:
        """The weights are spread, and nobody else uses them."""
        use, weights = group.weight, self.weights
        if not isinstance(weights, GatheredStacks) or use.index is not None or len(group.branches) > 1:
            return False
        return self.network.users[use.stack] == 1 and weights.in_pieces(use.stack)

    def _sum_backward(
        self, group: SumGroup, gradient: Tensor, pools: dict[int, Tensor], totals: list[Tensor | None]
    ) -> None:
        use, several = group.weight, len(group.branches) > 1
        if self._in_pieces(group) and isinstance(self.weights, GatheredStacks):
            found = self._weigh_backward(group, group.branches[0], gradient, pools)
            totals[use.stack] = self.weights.gradient_of_pieces(use.stack, found)
            return
        # Where one branch has all columns of the whole stack, its gradient is written (or added) in place:
        # no copy of what may be most of the memory. Otherwise it is made apart, and then put together.
        in_place = use.is_whole and not several
        parts: list[Tensor] = []
        for branch in group.branches:
            g = gradient * self.ratios[branch] if several else gradient  # out = Σ_b e^(s_b − s) out_b
            before = totals[use.stack] if in_place else None
            parts += self._weigh_backward(group, branch, g, pools, before)
        whole = torch.cat(parts, dim=2) if several else parts[0]
        totals[use.stack] = whole if in_place else self._added(totals[use.stack], use, whole)

    def _weigh_backward(
        self,
        group: SumGroup,
        branch: Branch,
        gradient: Tensor,
        pools: dict[int, Tensor],
        before: Tensor | None = None,
    ) -> Iterator[Tensor]:
        """The gradients of a branch's weights, those of some folds after those of others."""
        with self.network.targets(branch, pools) as targets:
            for (folds, weight), saved in zip(self._weights(group), self.saved[branch], strict=True):
                part, into = _columns(weight, branch), [target[folds] for target in targets]
                yield self.algebra.weigh_backward(branch.kind, part, saved, gradient[folds], into, before)

    def _give_back(self, number: int, totals: list[Tensor | None]) -> None:
        """Of stacks that are spread each process keeps its part of a gradient as soon as it is complete."""
        total = totals[number]
        if isinstance(self.weights, GatheredStacks) and total is not None:
            totals[number] = self.weights.own_gradient(number, total)

    def _added(self, total: Tensor | None, use: Use, part: Tensor) -> Tensor:
        """The gradient of a stack, with that of the entries which a group uses."""
        if use.is_whole:
            return part if total is None else total.add_(part)
        assert use.index is not None
        if total is None:
            count = len(self.network.plan.stacks[use.stack].parameters)
            total = part.new_zeros(count, *part.shape[1:])
        return total.index_add_(0, self.network.index(use.index, total.device), part)

    def _product(self, group: ProductGroup) -> tuple[Tensor, list[Tensor]]:
        factors, scales = self._read(group.branch)
        if self.trains:
            self.saved[group.branch] = [Saved(factors)]
        return self.algebra.product(group.branch.kind, factors), scales

    def _product_backward(self, group: ProductGroup, gradient: Tensor, pools: dict[int, Tensor]) -> None:
        factors = self.saved[group.branch][0].factors
        with self.network.targets(group.branch, pools) as targets:
            self.algebra.product_backward(group.branch.kind, factors, gradient, targets)


def _columns(weight: Tensor, branch: Branch) -> Tensor:
    """The columns of a branch: (F or 1, K, K2)."""
    start, stop = branch.columns
    return weight if (start, stop) == (0, weight.shape[2]) else weight[:, :, start:stop].contiguous()
