"""Draws of one variable by inversion of its distribution function: exact, one uniform number each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor

from squircuit.execution.plan import InputGroup
from squircuit.families.cache import kept
from squircuit.families.domain import Finite
from squircuit.families.quadrature import POINTS, gauss_legendre, halve, unit_rule
from squircuit.inference.compile.compiled_circuit import Snapshot
from squircuit.inference.upward.contraction import as_reals
from squircuit.inference.upward.input_layers import evaluate_group, plain, state_table
from squircuit.inference.upward.quadrature import Nodes, breakpoints

ROUNDING = 4e-16
"""The error of an integral relative to the terms of its series; a smaller one moves a point at random."""
ITERATIONS = 60  #: halvings that exhaust a double, should Newton's steps never be taken


@final
@dataclass(frozen=True, eq=False)
class Points:
    """The points at which the density of a variable has to be known to draw from it.

    Args:
        x: the states, or Gauss–Legendre nodes: (Q,) float64.
        weights: ones, or those of the rule.
        panels: the breakpoints of a continuous variable.
    """

    x: Tensor
    weights: Tensor
    panels: Tensor | None = None

    @classmethod
    def of(cls, snapshot: Snapshot, variable: int) -> Points:
        """The states of a variable, or nodes on panels of half the width that integrals need."""
        domain = snapshot.circuit.domains[variable]
        if isinstance(domain, Finite):
            states = torch.arange(domain.size, dtype=torch.float64, device=snapshot.device)
            return cls(states, torch.ones_like(states))
        panels = halve(breakpoints(snapshot, variable))
        return cls(*gauss_legendre(panels), panels)

    def draw(self, density: Tensor, uniform: Tensor, rows: Tensor | None = None) -> Tensor:
        """Points drawn from densities that need not be normalised: (B,) float64.

        Args:
            density: (B, Q); or (J, Q), where ``rows`` says which of them every draw is from.
            uniform: (B,) in [0, 1), float64.
            rows: (B,), or None.
        """
        if self.panels is None:
            return draw_index(density if rows is None else density[rows], uniform).double()
        return draw_point(density, self.panels, uniform, rows)

    def nodes(self, variable: int) -> Nodes:
        """The points as nodes, as :mod:`squircuit.inference.marginals` needs them."""
        weights = self.weights[None, None]
        return Nodes({variable: 0}, (len(self.x),), self.x.unsqueeze(0), weights, (0,))


@final
class InputDraws:
    """Input layers at the points that draws of their variables need, computed once for all samples.

    Args:
        snapshot: of the model.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._points: dict[int, Points] = {}
        self._tables: dict[tuple[InputGroup, int], Tensor] = {}
        self._masses: dict[tuple[InputGroup, int], tuple[Tensor, Tensor]] = {}

    def points(self, variable: int) -> Points:
        """The points at which the density of a variable has to be known."""
        if variable not in self._points:
            self._points[variable] = Points.of(self.snapshot, variable)
        return self._points[variable]

    def table(self, group: InputGroup, fold: int) -> Tensor:
        """ℓ at the points of its variable: (K, Q)."""
        key = group, fold
        if key not in self._tables:
            states = state_table(self.snapshot, group, fold)
            at = self.points(group.variables[fold]).x
            self._tables[key] = self.values(group, fold, at) if states is None else states
        return self._tables[key]

    def values(self, group: InputGroup, fold: int, x: Tensor) -> Tensor:
        """ℓ(x): (B,) → (K, B)."""
        return plain(evaluate_group(self.snapshot, group, range(fold, fold + 1), x.unsqueeze(0)))[0]

    def draw(self, group: InputGroup, fold: int, environment: Tensor, uniform: Tensor) -> Tensor:
        """Points drawn from |e·ℓ(x)|²: (B, K) and (B,) in [0, 1) → (B,) float64.

        The mass of a panel is e M eᴴ with M = ∫ ℓ ℓᴴ over it, the same for all rows; so ℓ is looked at in
        that panel alone which is drawn.
        """
        points, table = self.points(group.variables[fold]), self.table(group, fold)
        if points.panels is None:
            return points.draw(squares(environment @ table), uniform)
        masses, panels = self._panels(group, fold)
        chosen, share = draw_panel((_pairs(environment) @ masses).clamp_min_(0), uniform)
        values = squares((environment.unsqueeze(1) @ panels[chosen]).squeeze(1))  # (B, 20)
        return _placed(values.double(), points.panels, chosen, share)

    def _panels(self, group: InputGroup, fold: int) -> tuple[Tensor, Tensor]:
        """∫ ℓ_i ℓ_j* over every panel, as factors of `_pairs`, (pairs, P); and ℓ at its nodes, (P, K, 20)."""
        key = group, fold
        if key not in self._masses:
            table, points = self.table(group, fold), self.points(group.variables[fold])
            values = table.reshape(len(table), -1, POINTS).transpose(0, 1)  # (P, K, 20)
            weights = points.weights.reshape(-1, 1, POINTS)
            exact = values.to(torch.complex128 if table.is_complex() else torch.float64)
            grams = (exact * weights) @ exact.mH  # (P, K, K)
            i, j = torch.triu_indices(len(table), len(table), device=table.device)
            twice = torch.where(i == j, 1.0, 2.0).double()
            self._masses[key] = as_reals(grams[:, i, j].conj() * twice).T.contiguous(), values.contiguous()
        return self._masses[key]


def draw_index(masses: Tensor, uniform: Tensor) -> Tensor:
    """An index with probability proportional to its mass: (B, J) ≥ 0 and (B,) in [0, 1) → (B,).

    Never one of mass zero, unless all are.

    Example:
        >>> draw_index(torch.tensor([[0.0, 3.0, 1.0]]).expand(3, -1), torch.tensor([0.0, 0.7, 0.8]))
        tensor([1, 1, 2])
    """
    return _index_of(masses.double().cumsum(dim=1), uniform)


def _index_of(cumulative: Tensor, uniform: Tensor) -> Tensor:
    """The first index whose cumulative mass is beyond a share of all: (B, J), (B,) → (B,)."""
    total = cumulative[:, -1:]
    target = torch.minimum(
        uniform.double().unsqueeze(1) * total, torch.nextafter(total, torch.zeros_like(total))
    )
    index = torch.searchsorted(cumulative, target, right=True)
    return index.squeeze(1).clamp(max=cumulative.shape[1] - 1)


def draw_point(density: Tensor, breakpoints: Tensor, uniform: Tensor, rows: Tensor | None = None) -> Tensor:
    """A point from a density that is known at the Gauss–Legendre nodes of panels.

    A panel is drawn by its mass. Inside it the density is the polynomial through its 20 values, which for
    panels of half the width that the families ask for is the density to rounding; the integral of that
    polynomial is inverted by Newton's method between bounds that close in on the solution.

    Args:
        density: not negative, not necessarily normalised, (B, P·20); or of J densities, with ``rows``.
        breakpoints: sorted, (P + 1,), float64.
        uniform: (B,) in [0, 1), float64.
        rows: which density each draw is from, (B,); None: its own.

    Returns:
        (B,) float64.

    Example:
        >>> from squircuit.families.quadrature import gauss_legendre
        >>> breaks = torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64)
        >>> x, _ = gauss_legendre(breaks)
        >>> draw_point((2 * x).unsqueeze(0), breaks, torch.tensor([0.49], dtype=torch.float64))
        tensor([0.7000], dtype=torch.float64)
    """
    panels = density.double().reshape(len(density), -1, POINTS)
    half = breakpoints.diff() / 2
    masses = (panels @ unit_rule()[1].to(panels)) * half  # (B, P)
    rows = torch.arange(len(masses), device=masses.device) if rows is None else rows
    chosen, share = draw_panel(masses[rows], uniform)
    return _placed(panels[rows, chosen], breakpoints, chosen, share)


def draw_panel(masses: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """A panel drawn by its mass, (B,), and the share of its mass that lies before the point, (B,)."""
    cumulative = masses.cumsum(dim=1)
    chosen = _index_of(cumulative, uniform).unsqueeze(1)
    mass = masses.gather(1, chosen)
    before = cumulative.gather(1, chosen) - mass
    share = ((uniform.unsqueeze(1) * cumulative[:, -1:] - before) / mass).clamp(0, 1)
    return chosen.squeeze(1), share.squeeze(1)


def _placed(values: Tensor, breakpoints: Tensor, chosen: Tensor, share: Tensor) -> Tensor:
    """The points of panels before which a share of their mass lies: (B, 20), (P + 1,), (B,), (B,) → (B,)."""
    place = _inverted(values, share)
    return torch.lerp(breakpoints[chosen], breakpoints[chosen + 1], (place + 1) / 2)


def squares(value: Tensor) -> Tensor:
    """|v|² entry by entry, real."""
    return (
        torch.view_as_real(value.resolve_conj()).square().sum(dim=-1)
        if value.is_complex()
        else value.square()
    )


def _pairs(environment: Tensor) -> Tensor:
    """e_i e_j* for i ≤ j as real numbers: (B, K) → (B, pairs) float64."""
    i, j = torch.triu_indices(environment.shape[1], environment.shape[1], device=environment.device)
    exact = environment.to(torch.complex128 if environment.is_complex() else torch.float64)
    return as_reals(exact[:, i] * exact[:, j].conj())


def _inverted(values: Tensor, share: Tensor) -> Tensor:
    """t with ∫₋₁ᵗ f = share · ∫₋₁¹ f for polynomials f given at the nodes: (B, 20), (B,) → (B,).

    The nodes on both sides of t are its first bounds. Rows are left alone as soon as rounding hides more.
    """
    rate = values @ _chebyshev().to(values).T  # coefficients of f
    total = values @ _antiderivative().to(values).T  # of ∫₋₁ᵗ f
    knots, at_knots = _knots().to(values.device), total @ _at_knots().to(values).T
    target = share * total.sum(dim=1)  # every Chebyshev polynomial is 1 at 1
    behind = torch.searchsorted(at_knots.cummax(dim=1).values, target.unsqueeze(1)).squeeze(1)
    behind = behind.clamp(1, len(knots) - 1)
    low, high = knots[behind - 1], knots[behind]
    below, above = (at_knots.gather(1, i.unsqueeze(1)).squeeze(1) for i in (behind - 1, behind))
    t = torch.lerp(low, high, ((target - below) / (above - below)).nan_to_num(0.5).clamp(0, 1))
    limit = ROUNDING * total.abs().sum(dim=1)
    rows = torch.arange(len(t), device=t.device)
    for _ in range(ITERATIONS):
        terms = _chebyshev_terms(t[rows], total.shape[1])
        error = (total[rows] * terms).sum(dim=1) - target[rows]
        slope = (rate[rows] * terms[:, :-1]).sum(dim=1)
        low[rows] = torch.where(error < 0, t[rows], low[rows])
        high[rows] = torch.where(error < 0, high[rows], t[rows])
        step = t[rows] - error / slope
        inside = (step >= low[rows]) & (step <= high[rows])
        following = torch.where(inside, step, (low[rows] + high[rows]) / 2)
        goes_on = ((following - t[rows]).abs() > 1e-15) & (error.abs() > limit[rows])
        t[rows] = following
        rows = rows[goes_on]
        if not len(rows):
            break
    return t


def _chebyshev_terms(t: Tensor, count: int) -> Tensor:
    """T_k(t) with T_k(cos θ) = cos kθ for k < count: (B,) → (B, count)."""
    k = torch.arange(count, device=t.device, dtype=t.dtype)
    return torch.cos(k * torch.acos(t.clamp(-1, 1)).unsqueeze(1))


@kept(1)
def _chebyshev() -> Tensor:
    """The matrix from values at the nodes to Chebyshev coefficients: (20, 20)."""
    nodes = unit_rule()[0].numpy()
    return torch.from_numpy(np.linalg.inv(np.polynomial.chebyshev.chebvander(nodes, POINTS - 1)))


@kept(1)
def _antiderivative() -> Tensor:
    """The matrix from values at the nodes to the Chebyshev coefficients of the integral from −1: (21, 20)."""
    integrals = [np.polynomial.chebyshev.chebint(row, lbnd=-1) for row in np.eye(POINTS)]
    return torch.from_numpy(np.stack(integrals, axis=1)) @ _chebyshev()


@kept(1)
def _knots() -> Tensor:
    """−1, the nodes, 1: (22,)."""
    nodes, _ = unit_rule()
    return torch.cat([-torch.ones_like(nodes[:1]), nodes, torch.ones_like(nodes[:1])])


@kept(1)
def _at_knots() -> Tensor:
    """The matrix from Chebyshev coefficients of an integral to its values at the knots: (22, 21)."""
    return torch.from_numpy(np.polynomial.chebyshev.chebvander(_knots().numpy(), POINTS))
