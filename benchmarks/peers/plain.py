"""Plain torch: the same model as one would write it, with complex tensors, einsum and torch's own gradients.

Layers of one shape at one depth are computed together, as in ours; weights and input functions are the same.
The optimiser is LandingPC in plain torch, batched over all matrices of a shape.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import torch
from torch import Tensor

import squircuit as sq
from peers.landing_pc import LandingPC
from peers.ours import build
from peers.training import Training, UnsupportedError
from setups import Setup
from squircuit.execution.plan import InputGroup, Plan, SumGroup, Use


def make(setup: Setup) -> Training:
    if not setup.is_unitary:
        raise UnsupportedError("plain torch has unitary models only")
    model = build(setup)
    stacks = [stack.detach().clone().requires_grad_() for stack in model.stacks()]
    shares = model.root_shares().detach()

    def loss(x: Tensor) -> Tensor:
        return -log_prob(model.plan, stacks, shares, x).mean()

    return Training(loss, LandingPC(stacks, lr=0.05))


def log_prob(plan: Plan, stacks: list[Tensor], shares: Tensor, x: Tensor) -> Tensor:
    """log Σ_r π_r |c_r(x)|², with values of norm 1 beside log-scales: (n, d) → (n,)."""
    known: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}  # width, place → (K, n), (n,)
    for group in plan.groups:
        if isinstance(group, InputGroup):
            value, scale = _inputs(group, _weight(stacks, group.weight), x)
        elif isinstance(group, SumGroup) and len(group.branches) == 1:
            (branch,) = group.branches
            factors = [[known[width, place] for place in slots] for width, slots in branch.factors]
            values = [torch.stack([value for value, _ in each]) for each in factors]
            scales = [torch.stack([scale for _, scale in each]) for each in factors]
            value, scale = _weight(stacks, group.weight) @ _product(branch.kind, values), sum(scales)
        else:
            raise UnsupportedError("plain torch has sums over one product only")
        norm = torch.linalg.vector_norm(value, dim=1, keepdim=True)
        value, scale = value / norm, scale + norm[:, 0].log()
        known.update({(group.units, at): (value[f], scale[f]) for f, at in enumerate(group.writes)})
    roots = torch.cat([known[root][0] for root in plan.roots])
    heights = torch.cat([known[root][1].expand(root[0], -1) for root in plan.roots])
    logs = roots.abs().square().log() + 2 * heights + shares.log()[:, None]
    return logs.logsumexp(dim=0)


def _inputs(group: InputGroup, weight: Tensor, x: Tensor) -> tuple[Tensor, Any]:
    """W φ(x) as v e^s: (F, K, n) and (F, n) or 0."""
    columns = x[:, list(group.columns)].T  # (F, n)
    rows = weight[:, group.first_row : group.first_row + group.units]
    if isinstance(group.family, sq.Categorical):
        index = columns.long()[:, None].expand(-1, group.units, -1)
        return rows.expand(len(columns), -1, -1).gather(2, index), 0
    functions, scale = group.family.evaluate_scaled(columns, dtype=rows.dtype.to_real())
    return rows @ functions.mT.to(rows.dtype), scale.to(rows.dtype.to_real())


def _weight(stacks: list[Tensor], use: Use | None) -> Tensor:
    assert use is not None
    return stacks[use.stack] if use.is_whole else stacks[use.stack][list(use.index or ())]


def _product(kind: str, factors: list[Tensor]) -> Tensor:
    """(F, K_i, n) each → (F, ∏K_i, n), or entry by entry."""
    if kind == "kronecker":
        return reduce(lambda a, b: (a[:, :, None] * b[:, None]).flatten(1, 2), factors)
    return math.prod(factors[1:], start=factors[0])
