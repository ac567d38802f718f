"""All sums and products of a circuit as one differentiable operation, forward and backward by hand.

Numbers are scaled, not logarithms: every layer's output is a vector of norm 1 and one real log-scale a
sample. v ← v/‖v‖, s ← s + log‖v‖, with the norm held constant in the backward pass, which is exact because
it cancels in log p = 2s + log Σ_r π_r |v_r|². An output that is exactly zero keeps the scale of its factors:
it does not count, but its gradient does, where something else is added to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, final

import torch
from torch import Tensor

from squircuit.execution import planar, weighted_product
from squircuit.execution.derivatives import require_eager, require_first
from squircuit.execution.plan import Branch, Group, InputGroup, Plan, ProductGroup, Slots, SumGroup, Use
from squircuit.execution.precision import tf32
from squircuit.execution.scaled import common_scale, normalise


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
        self._indices: dict[tuple[tuple[int, ...], torch.device], Tensor] = {}
        self._reads = _count_reads(plan)
        self._added = {
            width
            for branch in plan.branches
            for width, slots in zip(branch.widths, branch.reads, strict=True)
            if not self.is_direct(width, slots)
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
        # torch's own flag for this, needs_input_grad, is set without gradients, too
        trains = torch.is_grad_enabled() and any(t.requires_grad for t in (*inputs, *weights))
        scales = [None] * len(inputs) if input_scales is None else list(input_scales)
        require_eager()
        return _Run.apply(self, trains, scales, *inputs, *weights)  # type: ignore[no-untyped-call,no-any-return]

    def index(self, places: tuple[int, ...], device: torch.device) -> Tensor:
        """Scattered places as a tensor, made once for each device."""
        key = (places, device)
        if key not in self._indices:
            with torch.inference_mode(False):  # it will serve in training as well
                self._indices[key] = torch.tensor(places, device=device)
        return self._indices[key]

    def read(self, pool: Tensor, slots: Slots) -> Tensor:
        """Places of a pool: a view of a stretch, or a copy of scattered ones."""
        if isinstance(slots, range):
            return pool[slots.start : slots.stop]
        return pool.index_select(0, self.index(slots, pool.device))

    def gradient_pools(self, values: Mapping[int, Tensor]) -> dict[int, Tensor]:
        """Room for the gradient of every layer; zero where gradients will be added, not written."""
        return {k: (torch.zeros_like if k in self._added else torch.empty_like)(v) for k, v in values.items()}

    def is_direct(self, width: int, slots: Slots) -> bool:
        """The places are a stretch with no other reader, so gradients are written there at once."""
        return isinstance(slots, range) and all(self._reads[width][place] == 1 for place in slots)

    def add(self, pool: Tensor, slots: Slots, values: Tensor) -> None:
        """Add to places of a pool."""
        if isinstance(slots, range):
            pool[slots.start : slots.stop] += values
        else:
            pool.index_add_(0, self.index(slots, pool.device), values)

    def deliver(self, pool: Tensor, width: int, place: int, gradient: Tensor) -> None:
        """The gradient of a root layer goes to its place."""
        if self.is_direct(width, range(place, place + 1)):
            pool[place] = gradient
        else:
            pool[place] += gradient

    @contextmanager
    def targets(self, branch: Branch, pools: Mapping[int, Tensor]) -> Iterator[list[Tensor]]:
        """Where the gradients of a branch's factors go: their places, or room that is then added to them."""
        reads = list(zip(branch.widths, branch.reads, strict=True))
        direct = [self.is_direct(width, slots) for width, slots in reads]
        targets = [
            self.read(pools[width], slots) if at_once else torch.empty_like(self.read(pools[width], slots))
            for at_once, (width, slots) in zip(direct, reads, strict=True)
        ]
        yield targets
        for at_once, target, (width, slots) in zip(direct, targets, reads, strict=True):
            if not at_once:
                self.add(pools[width], slots, target)

    def weight(self, weights: Sequence[Tensor], use: Use) -> Tensor:
        """The weights of a group: (F or 1, K1, K2)."""
        stack = weights[use.stack]
        if use.index is None or use.is_tied:
            return stack[:1] if use.is_tied else stack
        return stack.index_select(0, self.index(use.index, stack.device))


@dataclass
class _State:
    """Values, scales and what the backward pass needs, of one run."""

    trains: bool = False  # there will be a backward pass
    values: dict[int, Tensor] = field(default_factory=dict)  # width -> (N, K, 2, B)
    scales: dict[int, Tensor] = field(default_factory=dict)  # width -> (N, B)
    inverse_norms: dict[Group, Tensor] = field(default_factory=dict)
    saved: dict[Branch, weighted_product.Saved] = field(default_factory=dict)
    factors: dict[Branch, Tensor] = field(default_factory=dict)  # exp(s_i − s), (F, B)


def _count_reads(plan: Plan) -> dict[int, list[int]]:
    """How often each place of each pool is read, by layers or as a root."""
    counts = {width: [0] * size for width, size in plan.pools.items()}
    for width, place in plan.roots:
        counts[width][place] += 1
    for branch in plan.branches:
        for width, slots in zip(branch.widths, branch.reads, strict=True):
            for place in slots:
                counts[width][place] += 1
    return counts


class _Run(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, network: Network, trains: bool, input_scales: list[Tensor | None], *tensors: Tensor
    ) -> tuple[Tensor, Tensor]:
        with tf32(network.tf32 and trains):
            return _Run._forward(ctx, network, trains, input_scales, tensors)

    @staticmethod
    def _forward(
        ctx: Any,
        network: Network,
        trains: bool,
        input_scales: list[Tensor | None],
        tensors: tuple[Tensor, ...],
    ) -> tuple[Tensor, Tensor]:
        count = len(input_scales)
        inputs, weights = tensors[:count], tensors[count:]
        state = _pools(network.plan, inputs[0])
        state.trains = trains
        pending = list(zip(inputs, input_scales, strict=True))
        for group in network.plan.groups:
            scales: list[Tensor] = []
            if isinstance(group, InputGroup):
                out, scale = pending.pop(0)
                scales = [] if scale is None else [scale.contiguous()]
            elif isinstance(group, SumGroup):
                out, scales = _sum(network, state, group, weights)
            else:
                out, scales = _product(network, state, group)
            _store(state, group, out, scales)
        ctx.network, ctx.count, ctx.state, ctx.weights = network, count, state, weights
        roots = network.plan.roots
        values = torch.cat([state.values[k][i] for k, i in roots])
        log_scales = torch.cat([state.scales[k][i].expand(k, -1) for k, i in roots])
        ctx.mark_non_differentiable(log_scales)
        return values, log_scales

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Any, ...]:
        require_first()
        with tf32(ctx.network.tf32):
            return _Run._backward(ctx, gradient)

    @staticmethod
    def _backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        network, state, weights = ctx.network, ctx.state, ctx.weights
        pools = network.gradient_pools(state.values)
        start = 0
        for width, place in network.plan.roots:
            network.deliver(pools[width], width, place, gradient[start : start + width])
            start += width
        totals: list[Tensor | None] = [None] * len(weights)
        inputs: list[Tensor] = []
        for group in reversed(network.plan.groups):
            g = pools[group.units][group.writes.start : group.writes.stop] * state.inverse_norms[group]
            if isinstance(group, InputGroup):
                inputs.append(g)
            elif isinstance(group, SumGroup):
                _sum_backward(network, state, group, weights, g, totals, pools)
            else:
                _product_backward(network, state, group, g, pools)
        return (None, None, None, *reversed(inputs), *totals)


def _pools(plan: Plan, like: Tensor) -> _State:
    count, batch = like.shape[2:]
    state = _State()
    for width, layers in plan.pools.items():
        state.values[width] = like.new_empty(layers, width, count, batch)
        state.scales[width] = like.new_zeros(layers, batch)
    return state


def _store(state: _State, group: Group, out: Tensor, scales: list[Tensor]) -> None:
    """Normalise the outputs of a group and write them to its places."""
    stretch = slice(group.writes.start, group.writes.stop)
    values, scale = state.values[group.units][stretch], state.scales[group.units][stretch]
    state.inverse_norms[group] = normalise(out, scales, values, scale)


def _read(network: Network, state: _State, branch: Branch) -> tuple[list[Tensor], list[Tensor]]:
    """The factors of a branch and their log-scales."""
    reads = list(zip(branch.widths, branch.reads, strict=True))
    factors = [network.read(state.values[k], slots) for k, slots in reads]
    return factors, [network.read(state.scales[k], slots) for k, slots in reads]


def _sum(
    network: Network, state: _State, group: SumGroup, weights: Sequence[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    weight = network.weight(weights, group.weight)
    outs, scales = [], []
    for branch in group.branches:
        values, each = _read(network, state, branch)
        part = _columns(weight, branch)
        out, state.saved[branch] = weighted_product.forward(branch.kind, part, values, state.trains)
        outs.append(out)
        scales.append(each)
    if len(outs) == 1:
        return outs[0], scales[0]
    lost = [(out == 0).flatten(1, 2).all(dim=1) for out in outs]
    factors, largest = common_scale(scales, lost)
    state.factors.update(zip(group.branches, factors, strict=True))
    total = torch.zeros_like(outs[0])
    for out, factor in zip(outs, factors, strict=True):
        total += out * factor[:, None, None]
    return total, [largest]


def _columns(weight: Tensor, branch: Branch) -> Tensor:
    """The pairs of a branch's columns: (F or 1, K, 2·K2)."""
    start, stop = branch.columns
    part = weight if (start, stop) == (0, weight.shape[2]) else weight[:, :, start:stop].contiguous()
    return planar.pairs(part)


def _product(network: Network, state: _State, group: ProductGroup) -> tuple[Tensor, list[Tensor]]:
    factors, scales = _read(network, state, group.branch)
    combine = planar.hadamard if group.branch.kind == "hadamard" else planar.kronecker
    return combine(factors), scales


def _sum_backward(
    network: Network,
    state: _State,
    group: SumGroup,
    weights: Sequence[Tensor],
    gradient: Tensor,
    totals: list[Tensor | None],
    pools: dict[int, Tensor],
) -> None:
    weight = network.weight(weights, group.weight)
    for branch in group.branches:
        g = gradient
        if len(group.branches) > 1:
            g = gradient * state.factors[branch][:, None, None]
        part, stack = _columns(weight, branch), group.weight.stack
        total = totals[stack]
        whole = len(group.branches) == 1 and (group.weight.index is None or group.weight.is_tied)
        fresh = total is None or not whole
        if total is None:
            total = totals[stack] = (torch.empty_like if whole else torch.zeros_like)(weights[stack])
        into = _columns(total, branch) if whole else torch.empty_like(part)
        with network.targets(branch, pools) as targets:
            weighted_product.backward(branch.kind, part, state.saved[branch], g, targets, into, fresh)
        if not whole:
            _add_columns(network, total, group.weight, branch, into)


def _add_columns(network: Network, total: Tensor, use: Use, branch: Branch, part: Tensor) -> None:
    """Add a branch's gradient to its columns of the stack's."""
    if total.is_complex():
        part = torch.view_as_complex(part.reshape(*part.shape[:2], -1, 2))
    columns = total[:, :, branch.columns[0] : branch.columns[1]]
    if use.index is None or use.is_tied:
        columns += part
    else:
        columns.index_add_(0, network.index(use.index, total.device), part)


def _product_backward(
    network: Network, state: _State, group: ProductGroup, gradient: Tensor, pools: dict[int, Tensor]
) -> None:
    branch = group.branch
    factors, _ = _read(network, state, branch)
    with network.targets(branch, pools) as targets:
        weighted_product.product_gradients(branch.kind, factors, gradient.contiguous(), targets)
