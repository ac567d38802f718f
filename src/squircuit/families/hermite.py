"""Hermite functions: an orthonormal basis on the real line."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from squircuit.families.base import Family, Values, device_of
from squircuit.families.cache import constant
from squircuit.families.checks import require_count, require_finite, require_flag, require_positive
from squircuit.families.domain import Line
from squircuit.families.recurrence import FARTHEST, REACH, standardise, three_term, three_term_scaled


@final
@dataclass(frozen=True)
class Hermite(Family):
    r"""The Hermite functions, moved and stretched:

    .. math:: \varphi_n(x) = \frac{1}{\sqrt\sigma}\, h_n\Bigl(\frac{x - \mu}{\sigma}\Bigr), \qquad
              h_n(t) = \frac{1}{\sqrt{2^n n! \sqrt\pi}}\, H_n(t)\, e^{-t^2/2},
              \qquad n = 0, \dots, \mathrm{size} - 1,

    with H_n the physicists' Hermite polynomials. φ_0² is the normal density of mean μ and standard deviation
    σ/√2; φ_n oscillates for \|t\| < √(2n + 1) and vanishes fast beyond.

    Reference: "How to square tensor networks and circuits without squaring them", Related Work, "Possible
    choices of orthonormal functions"; Abramowitz and Stegun, Handbook of Mathematical Functions, chapter 22.

    Args:
        size: number of functions.
        loc: μ.
        scale: σ > 0.
        learnable: whether μ and log σ are parameters, the scalars ``"loc"`` and ``"log_scale"``.

    Shapes: x (...,) → (..., size).

    Example:
        >>> Hermite(3).evaluate(torch.tensor([0.0, 1.0]))
        tensor([[ 0.7511,  0.0000, -0.5311],
                [ 0.4556,  0.6443,  0.3221]])
    """

    size: int
    loc: float = 0.0
    scale: float = 1.0
    learnable: bool = False
    is_orthonormal: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_count(self, "size")
        require_finite(self, "loc")
        require_positive(self, "scale")
        require_flag(self, "learnable")

    @property
    def domain(self) -> Line:
        return Line()

    @property
    def place(self) -> tuple[Family, float, float] | None:
        return None if self.learnable else (Hermite(self.size), self.loc, self.scale)

    def parameters(self) -> dict[str, Tensor]:
        if not self.learnable:
            return {}
        initial = {"loc": self.loc, "log_scale": math.log(self.scale)}
        return {name: torch.tensor(value, dtype=torch.float64) for name, value in initial.items()}

    def _functions(self, x: Tensor, values: Values) -> Tensor:
        loc, scale = self._placed(x, values)
        t = standardise(x, loc, scale, self._edge + REACH)
        norm: float = math.pi**-0.25
        return norm * three_term(t, self._steps, _half_square(t)) / scale.sqrt()

    def _scaled_functions(self, x: Tensor, values: Values, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        loc, scale = self._placed(x, values)
        t = standardise(x, loc, scale, FARTHEST[x.dtype])
        log_weight = -t.square() / 2 - scale.log() / 2
        functions, log_scale = three_term_scaled(t, self._steps, log_weight, dtype)
        norm: float = math.pi**-0.25
        return norm * functions, log_scale

    @property
    def _steps(self) -> list[tuple[float, float, float]]:
        return [(0.0, math.sqrt(2 / (n + 1)), math.sqrt(n / (n + 1))) for n in range(self.size - 1)]

    def integrals(self, values: Values | None = None) -> Tensor:
        # From h_n' = √(n/2) h_{n−1} − √((n+1)/2) h_{n+1}, whose integral is 0.
        integrals = [math.sqrt(2) * math.pi**0.25, 0.0]
        for n in range(1, self.size - 1):
            integrals.append(math.sqrt(n / (n + 1)) * integrals[n - 1])
        like = torch.tensor(integrals[: self.size], dtype=torch.float64, device=device_of(values))
        scale = self._placed(like, self._resolve(values, like))[1]
        return like * scale.sqrt()

    def breakpoints(self, values: Values | None = None) -> Tensor:
        # The local frequency of h_n is at most √(2n + 1); beyond the edge h_n(t) ≤ exp(−(t − edge)²/2).
        extent, width = self._edge + 9, min(1.0, 5 / self._edge)
        panels = math.ceil(2 * extent / width)
        grid = torch.linspace(-extent, extent, panels + 1, dtype=torch.float64, device=device_of(values))
        loc, scale = self._placed(grid, self._resolve(values, grid))
        return (loc + scale * grid).detach()

    @property
    def _edge(self) -> float:
        """The point at which the last function stops oscillating, in units of t."""
        return math.sqrt(2 * self.size - 1)

    def _placed(self, like: Tensor, values: Values) -> tuple[Tensor, Tensor]:
        """μ and σ as scalars in the dtype of ``like``."""
        if not self.learnable:
            return constant(self.loc, like), constant(self.scale, like)
        return values["loc"], values["log_scale"].exp()


def _half_square(t: Tensor) -> Tensor:
    """−t²/2 with t² split at a coarse grid: float32 would round 25²/2 by 1e-5, a relative error of exp."""
    coarse = (t.detach() * 32).round() / 32  # a whole number below 2¹² over 32: its square is exact
    return -coarse.square() / 2 - (t - coarse) * (t + coarse) / 2
