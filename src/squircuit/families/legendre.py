"""Legendre polynomials: an orthonormal basis on an interval."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from squircuit.families.base import Family, Values
from squircuit.families.checks import require_count, require_ordered
from squircuit.families.domain import Interval
from squircuit.families.quadrature import spread
from squircuit.families.recurrence import three_term


@final
@dataclass(frozen=True)
class Legendre(Family):
    r"""The normalised Legendre polynomials on [a, b],

    .. math:: \varphi_n(x) = \sqrt{\frac{2n + 1}{b - a}}\; P_n\Bigl(\frac{2x - a - b}{b - a}\Bigr),
              \qquad n = 0, \dots, \mathrm{size} - 1.

    Together they span all polynomials of degree below ``size``.

    Reference: "How to square tensor networks and circuits without squaring them", Related Work, "Possible
    choices of orthonormal functions"; Abramowitz and Stegun, Handbook of Mathematical Functions, chapter 22.

    Args:
        size: number of functions.
        low: a.
        high: b > a.

    Shapes: x (...,) → (..., size).

    Example:
        >>> Legendre(3).evaluate(torch.tensor([0.0, 1.0]))
        tensor([[ 0.7071,  0.0000, -0.7906],
                [ 0.7071,  1.2247,  1.5811]])
    """

    size: int
    low: float = -1.0
    high: float = 1.0
    is_orthonormal: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_count(self, "size")
        require_ordered(self, "low", "high")

    @property
    def domain(self) -> Interval:
        return Interval(self.low, self.high)

    def _functions(self, x: Tensor, values: Values) -> Tensor:
        length = self.high - self.low
        t = ((x - self.low) - (self.high - x)) / length
        steps = [_step(n) for n in range(self.size - 1)]
        return three_term(t, steps, torch.zeros_like(t)) / math.sqrt(length)

    def integrals(self, values: Values | None = None) -> Tensor:
        integrals = torch.zeros(self.size, dtype=torch.float64)
        integrals[0] = math.sqrt(self.high - self.low)
        return integrals

    def breakpoints(self, values: Values | None = None) -> Tensor:
        # P_n(cos θ) oscillates evenly in θ.
        angles = torch.linspace(0, math.pi, math.ceil(self.size / 2) + 1, dtype=torch.float64)
        return spread((1 - angles.cos()) / 2, self.low, self.high)


def _step(n: int) -> tuple[float, float, float]:
    """The recurrence of √(2n + 1) P_n."""
    grown = math.sqrt((2 * n + 1) * (2 * n + 3)) / (n + 1)
    return 0.0, grown, n / (n + 1) * math.sqrt((2 * n + 3) / max(1, 2 * n - 1))
