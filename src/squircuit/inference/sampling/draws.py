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
from squircuit.families.quadrature import POINTS, gauss_legendre, halve
from squircuit.inference.compile.compiled_circuit import Snapshot
from squircuit.inference.upward.input_layers import evaluate_group, plain, state_table
from squircuit.inference.upward.quadrature import Nodes, breakpoints

ITERATIONS = 60  #: halvings that exhaust a double, should Newton's steps never be taken


@final
@dataclass(frozen=True, eq=False)
class Points:
    """Where the density of a variable has to be known to draw from it.

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

    def points(self, variable: int) -> Points:
        """Where the density of a variable has to be known."""
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


def draw_index(masses: Tensor, uniform: Tensor) -> Tensor:
    """An index with probability proportional to its mass: (B, J) ≥ 0 and (B,) in [0, 1) → (B,).

    Never one of mass zero, unless all are.

    Example:
        >>> draw_index(torch.tensor([[0.0, 3.0, 1.0]]).expand(3, -1), torch.tensor([0.0, 0.7, 0.8]))
        tensor([1, 1, 2])
    """
    cumulative = masses.double().cumsum(dim=1)
    total = cumulative[:, -1:]
    target = torch.minimum(
        uniform.double().unsqueeze(1) * total, torch.nextafter(total, torch.zeros_like(total))
    )
    index = torch.searchsorted(cumulative, target, right=True)
    return index.squeeze(1).clamp(max=masses.shape[1] - 1)


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
    masses = (panels @ _weights().to(panels)) * half  # (B, P)
    rows = torch.arange(len(masses), device=masses.device) if rows is None else rows
    masses = masses[rows]
    chosen = draw_index(masses, uniform).unsqueeze(1)
    cumulative = masses.cumsum(dim=1)
    mass = masses.gather(1, chosen)
    before = cumulative.gather(1, chosen) - mass
    share = ((uniform.unsqueeze(1) * cumulative[:, -1:] - before) / mass).clamp(0, 1)
    values = panels[rows, chosen.squeeze(1)]  # (B, 20)
    place = _inverted(values, share)
    low, high = breakpoints[chosen], breakpoints[chosen + 1]
    return torch.lerp(low, high, (place + 1) / 2).squeeze(1)


def _inverted(values: Tensor, share: Tensor) -> Tensor:
    """t with ∫₋₁ᵗ f = share · ∫₋₁¹ f for polynomials f given at the nodes: (B, 20), (B, 1) → (B, 1)."""
    rate = values @ _chebyshev().to(values).T  # coefficients of f
    total = values @ _antiderivative().to(values).T  # of ∫₋₁ᵗ f
    target = share * total.sum(dim=1, keepdim=True)  # every Chebyshev polynomial is 1 at 1
    low, high = torch.full_like(share, -1.0), torch.full_like(share, 1.0)
    t = 2 * share - 1
    for _ in range(ITERATIONS):
        error = _series(total, t) - target
        low, high = torch.where(error < 0, t, low), torch.where(error < 0, high, t)
        step = t - error / _series(rate, t)
        inside = (step > low) & (step < high)
        following = torch.where(inside, step, (low + high) / 2)
        moved, t = (following - t).abs().max(), following
        if bool(moved < 1e-15):
            break
    return t


def _series(coefficients: Tensor, t: Tensor) -> Tensor:
    """Σ_k a_k T_k(t) with T_k(cos θ) = cos kθ: (B, k), (B, 1) → (B, 1)."""
    k = torch.arange(coefficients.shape[1], device=t.device, dtype=t.dtype)
    return (coefficients * torch.cos(k * torch.acos(t.clamp(-1, 1)))).sum(dim=1, keepdim=True)


@kept(1)
def _weights() -> Tensor:
    return torch.from_numpy(np.polynomial.legendre.leggauss(POINTS)[1])


@kept(1)
def _chebyshev() -> Tensor:
    """From values at the nodes to Chebyshev coefficients: (20, 20)."""
    nodes = np.polynomial.legendre.leggauss(POINTS)[0]
    return torch.from_numpy(np.linalg.inv(np.polynomial.chebyshev.chebvander(nodes, POINTS - 1)))


@kept(1)
def _antiderivative() -> Tensor:
    """From values at the nodes to the Chebyshev coefficients of the integral from −1: (21, 20)."""
    integrals = [np.polynomial.chebyshev.chebint(row, lbnd=-1) for row in np.eye(POINTS)]
    return torch.from_numpy(np.stack(integrals, axis=1)) @ _chebyshev()
