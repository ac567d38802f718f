"""Points that decide whether a function of a circuit vanishes.

A discrete variable is represented by all its states. The functions of a continuous variable are
analytic between the boundaries of a few pieces, and an analytic function that is not zero everywhere
is zero almost nowhere: random points inside each piece decide, with probability one, if they lie where
the functions are not too small for floating-point numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from squircuit.circuits import Circuit, Input
from squircuit.families import Family
from squircuit.families.domain import Finite
from squircuit.families.quadrature import gauss_legendre
from squircuit.regions.scope import Scope

FAR_FROM_ZERO = 1e-3  # relative to a function's largest value
POINTS_A_PIECE = 16
GRID_LIMIT = 1 << 14  #: more combinations than this are sampled, not enumerated
SAMPLES = 256
POINTS_LIMIT = 1 << 18  #: points of a quadrature over several variables


def blocks(circuit: Circuit) -> list[Input]:
    """The input layers whose functions are of several variables at once, for which there are no points."""
    return [layer for layer in circuit.inputs if not isinstance(layer.family, Family)]


def representatives(circuit: Circuit, variable: int) -> Tensor:
    """All states of a discrete variable; random points in each piece of a continuous one: (m,) float64."""
    domain = circuit.domains[variable]
    if isinstance(domain, Finite):
        return torch.arange(domain.size, dtype=torch.float64)
    layers = [layer for layer in circuit.inputs if variable in layer.scope]
    pieces = torch.unique(
        torch.cat([layer.family.of_one_variable().pieces(circuit.family_values(layer)) for layer in layers])
    )
    panels = [layer.family.of_one_variable().breakpoints(circuit.family_values(layer)) for layer in layers]
    bounds = torch.unique(torch.cat([pieces, *panels]))
    generator = torch.Generator().manual_seed(variable)
    where = torch.rand(len(bounds) - 1, generator=generator, dtype=torch.float64)
    candidates = torch.lerp(bounds[:-1], bounds[1:], where)
    functions = [layer.family.evaluate(candidates, circuit.family_values(layer)).abs() for layer in layers]
    return _covering(candidates, torch.cat(functions, dim=1), torch.bucketize(candidates, pieces))


def _covering(candidates: Tensor, sizes: Tensor, piece: Tensor) -> Tensor:
    """Few candidates such that every function is far from zero at one of them, in each piece where it can be.

    A function that is analytic in a piece may still underflow in most of it (a narrow Gaussian, say).
    """
    large = sizes > FAR_FROM_ZERO * sizes.amax(dim=0)  # (candidates, functions)
    chosen: list[int] = []
    for number in torch.unique(piece):
        members = torch.nonzero(piece == number).flatten()
        missing = large[members].any(dim=0)
        for _ in range(POINTS_A_PIECE):
            best = members[int((large[members] & missing).sum(dim=1).argmax())]
            chosen.append(int(best))
            missing = missing & ~large[best]
            if not missing.any():
                break
    return candidates[chosen]


def grid(circuit: Circuit, variables: Scope) -> tuple[Tensor, bool]:
    """Rows (n, d) that run through all combinations of representatives of ``variables``.

    Returns:
        the rows, other columns holding some valid value; and whether they are all combinations
        (True) or a random sample of too many (False).
    """
    axes = {v: representatives(circuit, v) for v in sorted(variables)}
    total = math.prod(len(axis) for axis in axes.values())
    complete = total <= GRID_LIMIT
    somewhere = [circuit.domains[v].anchor if v in circuit.scope else 0 for v in range(circuit.num_variables)]
    rows = torch.tensor(somewhere, dtype=torch.float64).repeat(total if complete else SAMPLES, 1)
    columns = _product(axes, variables) if complete else _sample(axes, variables)
    for variable, column in zip(sorted(variables), columns, strict=True):
        rows[:, variable] = column
    return rows, complete


def quadrature(circuit: Circuit, variables: Scope) -> tuple[Tensor, Tensor] | None:
    """Rows (m, d) and weights (m,) that integrate products of two units over ``variables``; None if too many.

    Also where input functions are of several variables at once, which have no breakpoints.

    Sums over all states of discrete variables; Gauss–Legendre between the breakpoints of continuous ones.
    """
    if any(layer.scope & variables for layer in blocks(circuit)):
        return None
    rules = {v: _rule(circuit, v) for v in sorted(variables)}
    total = math.prod(len(nodes) for nodes, _ in rules.values())
    if total > POINTS_LIMIT:
        return None
    rows = torch.zeros(total, circuit.num_variables, dtype=torch.float64)
    for variable, column in zip(
        rules, _product({v: nodes for v, (nodes, _) in rules.items()}, rules), strict=True
    ):
        rows[:, variable] = column
    weights = _product({v: w for v, (_, w) in rules.items()}, rules)
    return rows, torch.stack(weights).prod(dim=0)


def _rule(circuit: Circuit, variable: int) -> tuple[Tensor, Tensor]:
    layers = [layer for layer in circuit.inputs if variable in layer.scope]
    if circuit.domains[variable].is_discrete:
        states = representatives(circuit, variable)
        return states, torch.ones_like(states)
    breakpoints = [
        layer.family.of_one_variable().breakpoints(circuit.family_values(layer)) for layer in layers
    ]
    return gauss_legendre(torch.unique(torch.cat(breakpoints)))


def _product(axes: dict[int, Tensor], variables: Iterable[int]) -> list[Tensor]:
    chosen = [axes[v] for v in sorted(variables)]
    return [column.flatten() for column in torch.meshgrid(*chosen, indexing="ij")] if chosen else []


def _sample(axes: dict[int, Tensor], variables: Iterable[int]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [axes[v][torch.randint(len(axes[v]), (SAMPLES,), generator=generator)] for v in sorted(variables)]
