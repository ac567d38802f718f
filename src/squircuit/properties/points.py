"""Points that decide whether a function of a circuit vanishes.

A discrete variable is represented by all its states. The functions of a continuous variable are
analytic between the boundaries of a few pieces, and an analytic function that is not zero everywhere
is zero almost nowhere: one random point inside each piece decides, with probability one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from squircuit.circuits import Circuit
from squircuit.families.domain import Finite
from squircuit.regions.scope import Scope

GRID_LIMIT = 1 << 14  #: more combinations than this are sampled, not enumerated
SAMPLES = 256


def representatives(circuit: Circuit, variable: int) -> Tensor:
    """All states of a discrete variable; one random point in each piece of a continuous one: (m,) float64."""
    domain = circuit.domains[variable]
    if isinstance(domain, Finite):
        return torch.arange(domain.size, dtype=torch.float64)
    layers = [layer for layer in circuit.inputs if layer.variable == variable]
    bounds = torch.unique(torch.cat([layer.family.pieces(circuit.family_values(layer)) for layer in layers]))
    where = torch.rand(len(bounds) - 1, generator=torch.Generator().manual_seed(variable), dtype=torch.float64)
    return bounds[:-1] + where * bounds.diff()


def grid(circuit: Circuit, variables: Scope) -> tuple[Tensor, bool]:
    """Rows (n, d) that run through all combinations of representatives of ``variables``.

    Returns:
        the rows, other columns holding some valid value; and whether they are all combinations
        (True) or a random sample of too many (False).
    """
    axes = {v: representatives(circuit, v) for v in sorted(circuit.scope)}
    total = math.prod(len(axes[v]) for v in variables)
    complete = total <= GRID_LIMIT
    rows = torch.zeros(total if complete else SAMPLES, circuit.num_variables, dtype=torch.float64)
    for variable, axis in axes.items():
        rows[:, variable] = axis[0]
    columns = _product(axes, variables) if complete else _sample(axes, variables)
    for variable, column in zip(sorted(variables), columns, strict=True):
        rows[:, variable] = column
    return rows, complete


def _product(axes: dict[int, Tensor], variables: Iterable[int]) -> list[Tensor]:
    chosen = [axes[v] for v in sorted(variables)]
    return [column.flatten() for column in torch.meshgrid(*chosen, indexing="ij")] if chosen else []


def _sample(axes: dict[int, Tensor], variables: Iterable[int]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [axes[v][torch.randint(len(axes[v]), (SAMPLES,), generator=generator)] for v in sorted(variables)]
