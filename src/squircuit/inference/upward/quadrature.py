"""Missing variables with a weight at every state or quadrature node: R = Σ_q ω_q ℓ(x_q) ℓ(x_q)ᴴ.

With the weights of the rule this is ∫ ℓ ℓᴴ, so p(y) does not change; but it becomes a function of ω, and

    ∂ log p(y) / ∂ ω_q = p(x_q | y):

one sweep up and one back give the distribution of every variable. A node of weight zero asks for the density
there at no other cost; weights ω_q f(x_q) give the expectation of f.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor

from squircuit.errors import ParameterError
from squircuit.families.domain import Finite
from squircuit.families.quadrature import gauss_legendre
from squircuit.inference.compile.compiled_circuit import Snapshot, constant


@final
@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes of some variables, padded to one number Q with nodes of weight zero.

    Args:
        rows: variable → its row below.
        counts: how many nodes of each row are real.
        points: x_q, (V, Q) float64.
        weights: ω_q, (V, B or 1, Q).
        extra: how many of the last real ones of each row belong to no rule.
    """

    rows: Mapping[int, int]
    counts: tuple[int, ...]
    points: Tensor
    weights: Tensor
    extra: tuple[int, ...]

    def weighted(self, weights: Tensor) -> Nodes:
        """The same nodes with other weights."""
        return replace(self, points=constant(self.points), weights=weights)

    def of(self, variables: list[int]) -> Nodes:
        """The nodes of some of the variables, in their order."""
        rows = [self.rows[v] for v in variables]
        counts, extra = (tuple(numbers[i] for i in rows) for numbers in (self.counts, self.extra))
        longest = max(counts)
        points, weights = self.points[rows, :longest], self.weights[rows][:, :, :longest]
        return Nodes({v: i for i, v in enumerate(variables)}, counts, points, weights, extra)

    def rule(self, variable: int) -> tuple[Tensor, Tensor]:
        """Nodes and weights that integrate over a variable: (Q,) each."""
        row = self.rows[variable]
        count = self.counts[row] - self.extra[row]
        return self.points[row, :count], self.weights[row, 0, :count]


def quadrature(
    snapshot: Snapshot, variables: Iterable[int], extra: Mapping[int, Tensor] | None = None
) -> Nodes:
    """The rules of some variables, and further points of weight zero."""
    rules = {v: rule(snapshot, v) for v in sorted(variables)}
    further = extra or {}
    for variable, added in further.items():
        x, w = rules[variable]
        rules[variable] = (torch.cat([x, added.to(x)]), torch.cat([w, torch.zeros_like(added).to(w)]))
    longest = max((len(x) for x, _ in rules.values()), default=0)
    points = torch.stack([_padded(x, longest, float(x[0])) for x, _ in rules.values()])
    weights = torch.stack([_padded(w, longest, 0.0) for _, w in rules.values()])
    counts = tuple(len(x) for x, _ in rules.values())
    numbers = tuple(len(further.get(v, ())) for v in rules)
    return Nodes({v: i for i, v in enumerate(rules)}, counts, points, weights.unsqueeze(1), numbers)


def rule(snapshot: Snapshot, variable: int) -> tuple[Tensor, Tensor]:
    """States and ones, or nodes and weights that integrate every product of two of its functions: (Q,)."""
    domain = snapshot.circuit.domains[variable]
    if isinstance(domain, Finite):
        states = torch.arange(domain.size, dtype=torch.float64, device=snapshot.device)
        return states, torch.ones_like(states)
    return gauss_legendre(breakpoints(snapshot, variable))


def breakpoints(snapshot: Snapshot, variable: int) -> Tensor:
    """Those of all families over a continuous variable alone: sorted, float64."""
    found = []
    for group, fold in snapshot.inputs[variable]:
        if group.is_block:
            continue
        values = {name: value[fold].detach() for name, value in snapshot.family_values(group).items()}
        family = group.family.of_one_variable()
        _require_width(family.extents(values), variable)
        found.append(family.breakpoints(values).to(snapshot.device))
    return torch.cat(found).sort().values


def _require_width(extents: Tensor, variable: int) -> None:
    """Refuse functions so far out that numbers there are further apart than the functions are wide."""
    for low, high in extents.tolist():
        if not (math.isfinite(low) and math.isfinite(high)) or high - low < 1e-13 * max(-low, high):
            raise ParameterError(
                f"variable {variable}: its functions lie between {low:.17g} and {high:.17g}, and doubles are "
                "too far apart there. Fix: subtract a constant from this column, or scale it."
            )


def _padded(values: Tensor, length: int, fill: float) -> Tensor:
    return torch.nn.functional.pad(values, (0, length - len(values)), value=fill)
