"""A family of input functions of one's own: the cosines on an interval (docs/guides/writing-a-family.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from squircuit.families import Family, Interval, Values
from squircuit.families.checks import require_count, require_ordered


@final
@dataclass(frozen=True)
class Cosine(Family):
    r"""The cosines of the discrete cosine transform on [a, b],

    .. math:: \varphi_0(x) = \frac{1}{\sqrt{b - a}}, \qquad
              \varphi_n(x) = \sqrt{\frac{2}{b - a}}\, \cos\Bigl(n \pi \, \frac{x - a}{b - a}\Bigr).

    Args:
        size: number of functions.
        low: a.
        high: b > a.

    Shapes: x (...,) → (..., size).
    """

    size: int
    low: float = 0.0
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
        n = torch.arange(self.size, device=x.device)
        norms = torch.where(n == 0, 1.0, 2.0).to(x).sqrt() / math.sqrt(length)
        return norms * torch.cos(math.pi * n.to(x) * ((x - self.low) / length)[..., None])

    def breakpoints(self, values: Values | None = None) -> Tensor:
        # on size panels a product of two functions turns by less than 2π on each
        return torch.linspace(self.low, self.high, self.size + 1, dtype=torch.float64)
