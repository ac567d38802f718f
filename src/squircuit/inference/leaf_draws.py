"""Draws of one variable from a density that is a quadratic form in its input functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from squircuit.families.domain import Finite
from squircuit.families.quadrature import gauss_legendre, halve
from squircuit.inference.inversion import draw_index, draw_point
from squircuit.inference.nodes import Nodes, breakpoints
from squircuit.inference.snapshot import Snapshot


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

    def draw(self, density: Tensor, uniform: Tensor) -> Tensor:
        """(B, Q) densities, not necessarily normalised, and (B,) uniform numbers → (B,) float64."""
        if self.panels is None:
            return draw_index(density, uniform).double()
        return draw_point(density, self.panels, uniform)

    def nodes(self, variable: int) -> Nodes:
        """The same for :mod:`squircuit.inference.marginals`."""
        weights = self.weights[None, None]
        return Nodes({variable: 0}, (len(self.x),), self.x.unsqueeze(0), weights, (0,))
