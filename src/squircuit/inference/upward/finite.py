"""Whether an expectation is finite, and whether the rule that integrates it reaches far enough.

Functions of one variable far out decide both. What families declare of their tails says which moments are
finite: no rule shows that, for it ends somewhere. And a rule that ends where the integrand has not yet
vanished misses a part of it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from squircuit.errors import StructureError
from squircuit.families.tails import BOUNDED, Ends
from squircuit.inference.compile.compiled_circuit import Snapshot
from squircuit.inference.upward.quadrature import breakpoints

GROWS = 0.02
"""Functions that grow more slowly than this power of x count as bounded."""


class Range(NamedTuple):
    """Where a rule ends, and what is beyond.

    Args:
        panels: ends of the panels in which nodes are: sorted.
        ends: the heaviest tails of all functions of the variable.
    """

    panels: Tensor
    ends: Ends

    @staticmethod
    def of(snapshot: Snapshot, variable: int) -> Range:
        """That of a continuous variable in input layers of its own."""
        found = [
            group.family.of_one_variable().ends
            for group, _ in snapshot.inputs[variable]
            if not group.is_block
        ]
        ends = min(low for low, _ in found), min(high for _, high in found)
        return Range(breakpoints(snapshot, variable), ends)

    def total(self, x: Tensor, integrand: Tensor, order: int) -> Tensor:
        """The sum over nodes of a density times what grows like x^order, (n, Q) → (n,); NaN if infinite."""
        sizes = integrand.abs()
        missed = sizes[..., self.outermost(x)].sum(dim=-1)
        whole = sizes.sum(dim=-1)
        found = (missed <= share_missed(integrand.dtype) * whole) & whole.isfinite()
        found &= self.is_finite(order) | (sizes == 0).all(dim=-1)
        return torch.where(found, integrand.sum(dim=-1), torch.nan)

    def outermost(self, x: Tensor) -> Tensor:
        """Which nodes are on the last panel before an end that the domain does not have: (Q,)."""
        low, high = (tail.kind == BOUNDED for tail in self.ends)
        if len(self.panels) < 3:
            return torch.zeros_like(x, dtype=torch.bool)
        return ((x < self.panels[1]) & (not low)) | ((x > self.panels[-2]) & (not high))

    def is_finite(self, order: float) -> bool:
        """E |x|^order is finite."""
        return order < GROWS or all(order < tail.order for tail in self.ends)

    def growth(self, x: Tensor, values: Tensor) -> float:
        """The power of |x| like which a function with values (Q,) at nodes grows where tails are heavy."""
        found = [0.0]
        for last, before, tail in ((0, 1, self.ends[0]), (-1, -2, self.ends[1])):
            if tail.order < torch.inf:
                far = (x[[last, before]] - x.median()).abs().log()
                sizes = values[[last, before]].abs().log()
                found.append(float(((sizes[0] - sizes[1]) / (far[0] - far[1])).nan_to_num(nan=0.0)))
        return max(found)


def share_missed(dtype: torch.dtype) -> float:
    """The share of an integral that the last panels of a rule may have."""
    return float(torch.finfo(dtype).eps ** 0.5)


def not_finite(where: str, what: str) -> StructureError:
    """The error of an expectation that is infinite, or too large a part of which lies too far out."""
    return StructureError(
        "finite",
        f"the {what} of {where}",
        "its tails are so heavy that it is infinite, or that no rule reaches far enough to find it",
        "ask for quantiles or for the mode, or use families or transforms with lighter tails there",
    )
