"""Complex exponentials: one period of a Fourier series."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from squircuit.families.base import Family, InputFunctions, Values, device_of
from squircuit.families.checks import require_count, require_finite, require_flag, require_positive, wrong
from squircuit.families.derived import Conjugated
from squircuit.families.domain import Interval
from squircuit.families.quadrature import spread


@final
@dataclass(frozen=True)
class Fourier(Family):
    r"""The terms of a Fourier series with period P and shift b,

    .. math:: f_k(x) = \frac{1}{\sqrt P} \exp\Bigl(2 \pi i \, \frac{k}{P} \, (x + b)\Bigr),
              \qquad k = -K, \dots, K,

    orthonormal on one period. The density is periodic, so choose P larger than the range of the data.

    Reference: "How to square tensor networks and circuits without squaring them", appendix "Continuous Input
    Features", "Fourier input functions".

    Args:
        size: number 2K + 1 of functions, odd; k runs from −K to K.
        period: P > 0, the length of the domain.
        centre: the domain is [centre − P/2, centre + P/2].
        shift: b.
        learnable: whether b is a parameter, named ``"shift"``, a scalar.

    Shapes: x (...,) → (..., size), complex.

    Example:
        >>> family = Fourier(3, period=4.0)
        >>> family.evaluate(torch.tensor(0.5))
        tensor([0.3536-0.3536j, 0.5000+0.0000j, 0.3536+0.3536j])
        >>> family.domain.describe()
        'the interval [-2, 2]'
    """

    size: int
    period: float
    centre: float = 0.0
    shift: float = 0.0
    learnable: bool = False
    is_orthonormal: ClassVar[bool] = True
    is_complex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_count(self, "size")
        if self.size % 2 == 0:
            raise wrong(self, "size", "is even", f"pass an odd size 2K + 1 such as {self.size + 1}")
        require_positive(self, "period")
        require_finite(self, "centre", "shift")
        require_flag(self, "learnable")

    @property
    def domain(self) -> Interval:
        return Interval(self.centre - self.period / 2, self.centre + self.period / 2)

    def parameters(self) -> dict[str, Tensor]:
        return {"shift": torch.tensor(self.shift, dtype=torch.float64)} if self.learnable else {}

    def _functions(self, x: Tensor, values: Values) -> Tensor:
        phase = self._phases((x + values.get("shift", self.shift)) / self.period)
        return torch.polar(torch.full_like(phase, self.period**-0.5), phase)

    def inner(
        self, other: InputFunctions, values: Values | None = None, other_values: Values | None = None
    ) -> Tensor:
        if not isinstance(other, Fourier) or (self.period, self.centre) != (other.period, other.centre):
            return super().inner(other, values, other_values)
        k, other_k = self._frequencies(), other._frequencies()
        phase = self._phases((self._shift(values) - other._shift(other_values)) / self.period)
        return torch.polar(torch.ones_like(phase), phase)[:, None] * (k[:, None] == other_k).to(phase)

    def integrals(self, values: Values | None = None) -> Tensor:
        integrals = torch.zeros(self.size, dtype=torch.complex128, device=device_of(values))
        integrals[self.size // 2] = math.sqrt(self.period)
        return integrals

    def conjugate(self) -> Family:
        return Conjugated(self)

    def breakpoints(self, values: Values | None = None) -> Tensor:
        # On size panels a product of two functions turns by less than 2π on each.
        unit = torch.linspace(0, 1, self.size + 1, dtype=torch.float64, device=device_of(values))
        return spread(unit, self.domain.low, self.domain.high)

    def _phases(self, turns: Tensor) -> Tensor:
        """2π k · turns for every k, (...,) → (..., size)."""
        return 2 * math.pi * turns[..., None] * self._frequencies(turns.device).to(turns)

    def _frequencies(self, device: torch.device | None = None) -> Tensor:
        """k = −K, …, K, (size,)."""
        return torch.arange(self.size, device=device) - self.size // 2

    def _shift(self, values: Values | None) -> Tensor:
        like = torch.tensor(self.shift, dtype=torch.float64, device=device_of(values))
        return self._resolve(values, like).get("shift", like)
