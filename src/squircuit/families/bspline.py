"""B-splines: local piecewise polynomials on an interval."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from squircuit.families.base import Family, Values
from squircuit.families.cache import constant
from squircuit.families.checks import require_count, require_ordered, wrong
from squircuit.families.domain import Interval
from squircuit.families.quadrature import spread


@final
@dataclass(frozen=True)
class BSpline(Family):
    r"""The clamped B-splines of degree p on evenly spaced knots, by the recursion of Cox and de Boor:

    .. math:: B_{i,0}(x) = [t_i \le x < t_{i+1}], \qquad
              B_{i,d}(x) = \frac{x - t_i}{t_{i+d} - t_i} B_{i,d-1}(x)
                         + \frac{t_{i+d+1} - x}{t_{i+d+1} - t_{i+1}} B_{i+1,d-1}(x).

    They are ≥ 0, sum to 1 and are not orthonormal: ``Orthonormalised(BSpline(…))`` is.

    Reference: de Boor, A Practical Guide to Splines, chapter IX; for their use in a squared circuit "How to
    square tensor networks and circuits without squaring them", Related Work, "Possible choices of orthonormal
    functions".

    Args:
        size: number of functions, at least degree + 1; there are size − degree polynomial pieces.
        low: left end of the interval.
        high: right end.
        degree: p, 0 to 15.

    Shapes: x (...,) → (..., size).

    Example:
        >>> BSpline(3, degree=1).evaluate(torch.tensor([0.0, 0.25, 1.0]))
        tensor([[1.0000, 0.0000, 0.0000],
                [0.5000, 0.5000, 0.0000],
                [0.0000, 0.0000, 1.0000]])
    """

    size: int
    low: float = 0.0
    high: float = 1.0
    degree: int = 3

    def __post_init__(self) -> None:
        require_count(self, "size")
        require_ordered(self, "low", "high")
        require_count(self, "degree", least=0)
        if self.degree > 15:
            raise wrong(self, "degree", "is above 15", "pass a degree from 0 to 15; 3 is usual")
        if self.size <= self.degree:
            fix = f"pass size ≥ {self.degree + 1} or a lower degree"
            raise wrong(self, "size", f"is too small for degree={self.degree}", fix)

    @property
    def domain(self) -> Interval:
        return Interval(self.low, self.high)

    def _functions(self, x: Tensor, values: Values) -> Tensor:
        numbers = self._knots().tolist()
        knots = constant(tuple(numbers), x)
        # the last piece is closed: the end of the interval belongs to it
        upper = constant((*numbers[1 : self.size], math.inf, *numbers[self.size + 1 :]), x)
        x = x[..., None]
        rows = ((x >= knots[:-1]) & (x < upper)).to(x.dtype)
        for degree in range(1, self.degree + 1):
            rise = (x - knots[: -degree - 1]) * _inverse(knots[degree:-1] - knots[: -degree - 1])
            fall = (knots[degree + 1 :] - x) * _inverse(knots[degree + 1 :] - knots[1:-degree])
            rows = rise * rows[..., :-1] + fall * rows[..., 1:]
        return rows

    def breakpoints(self, values: Values | None = None) -> Tensor:
        pieces = self.size - self.degree
        return spread(torch.linspace(0, 1, pieces + 1, dtype=torch.float64), self.low, self.high)

    def pieces(self, values: Values | None = None) -> Tensor:
        return self.breakpoints()

    def _knots(self) -> Tensor:
        """The breakpoints with both ends repeated degree more times, (size + degree + 1,)."""
        inner = self.breakpoints()
        return torch.cat([inner[:1].expand(self.degree), inner, inner[-1:].expand(self.degree)])


def _inverse(width: Tensor) -> Tensor:
    """1/width, and 0 where repeated knots make the width 0."""
    return torch.where(width > 0, 1 / width, 0.0)
