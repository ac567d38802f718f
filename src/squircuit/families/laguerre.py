"""Laguerre functions: an orthonormal basis on a half-line."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from squircuit.families.base import Family, Values, device_of
from squircuit.families.cache import constant
from squircuit.families.checks import require_count, require_finite, require_flag, require_positive
from squircuit.families.domain import HalfLine
from squircuit.families.recurrence import FARTHEST, REACH, standardise, three_term, three_term_scaled


@final
@dataclass(frozen=True)
class Laguerre(Family):
    r"""The Laguerre functions, moved and stretched:

    .. math:: \varphi_n(x) = \frac{1}{\sqrt\sigma}\, e^{-t/2} L_n(t), \qquad
              t = \frac{x - \mathrm{start}}{\sigma}, \qquad n = 0, \dots, \mathrm{size} - 1,

    with L_n the Laguerre polynomials, for waiting times, prices and other quantities bounded below. φ_0² is
    the exponential density of mean σ.

    Reference: "How to square tensor networks and circuits without squaring them", Related Work, "Possible
    choices of orthonormal functions"; Abramowitz and Stegun, Handbook of Mathematical Functions, chapter 22.

    Args:
        size: number of functions.
        start: where the half-line begins.
        scale: σ > 0.
        learnable: whether log σ is a parameter, the scalar ``"log_scale"``.

    Shapes: x (...,) → (..., size).

    Example:
        >>> Laguerre(3).evaluate(torch.tensor([0.0, 2.0]))
        tensor([[ 1.0000,  1.0000,  1.0000],
                [ 0.3679, -0.3679, -0.3679]])
    """

    size: int
    start: float = 0.0
    scale: float = 1.0
    learnable: bool = False
    is_orthonormal: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_count(self, "size")
        require_finite(self, "start")
        require_positive(self, "scale")
        require_flag(self, "learnable")

    @property
    def domain(self) -> HalfLine:
        return HalfLine(self.start)

    def parameters(self) -> dict[str, Tensor]:
        if not self.learnable:
            return {}
        return {"log_scale": torch.tensor(math.log(self.scale), dtype=torch.float64)}

    def _functions(self, x: Tensor, values: Values) -> Tensor:
        scale = self._scale(x, values)
        t = standardise(x, self.start, scale, (self._edge + REACH) ** 2)
        return three_term(t, self._steps, -t / 2) / scale.sqrt()

    def _scaled_functions(self, x: Tensor, values: Values, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        scale = self._scale(x, values)
        t = standardise(x, self.start, scale, FARTHEST[x.dtype])
        return three_term_scaled(t, self._steps, -t / 2 - scale.log() / 2, dtype)

    @property
    def _steps(self) -> list[tuple[float, float, float]]:
        return [((2 * n + 1) / (n + 1), -1 / (n + 1), n / (n + 1)) for n in range(self.size - 1)]

    def integrals(self, values: Values | None = None) -> Tensor:
        signs = [2.0 * (-1) ** n for n in range(self.size)]
        like = torch.tensor(signs, dtype=torch.float64, device=device_of(values))
        return like * self._scale(like, self._resolve(values, like)).sqrt()

    def breakpoints(self, values: Values | None = None) -> Tensor:
        # In u = √t the functions behave like Hermite functions of twice the degree.
        extent, width = self._edge + 9, min(1.0, 5 / self._edge)
        panels = math.ceil(extent / width)
        u = torch.linspace(0, extent, panels + 1, dtype=torch.float64, device=device_of(values))
        return (self.start + self._scale(u, self._resolve(values, u)) * u.square()).detach()

    @property
    def _edge(self) -> float:
        """The point at which the last function stops oscillating, in units of √t."""
        return math.sqrt(4 * self.size - 2)

    def _scale(self, like: Tensor, values: Values) -> Tensor:
        """σ as a scalar in the dtype of ``like``."""
        return values["log_scale"].exp() if self.learnable else constant(self.scale, like)
