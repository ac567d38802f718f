"""Gaussian densities: the usual input functions of circuits, not orthonormal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from squircuit.families.base import Family, InputFunctions, Values, device_of
from squircuit.families.cache import constant
from squircuit.families.checks import is_finite, require_count, require_flag, require_width, wrong
from squircuit.families.domain import Line
from squircuit.families.recurrence import FARTHEST, REACH, standardise


@final
@dataclass(frozen=True)
class Gaussian(Family):
    r"""Normal densities with a mean and a standard deviation each,

    .. math:: \varphi_k(x) = \mathcal N(x; \mu_k, \sigma_k^2)
              = \frac{1}{\sigma_k \sqrt{2\pi}} \exp\Bigl(-\frac{(x - \mu_k)^2}{2 \sigma_k^2}\Bigr), \qquad
              \int \varphi_j \varphi_k = \mathcal N(\mu_j; \mu_k, \sigma_j^2 + \sigma_k^2).

    Not orthonormal: the baseline of squared circuits that compute their partition function by squaring.

    Reference: "How to square tensor networks and circuits without squaring them", appendix "Continuous Input
    Features", "Circuits".

    Args:
        size: number K of functions.
        loc: K means, or None: spread evenly over [−1, 1] (0 for a single function), for standardised data.
        scale: K standard deviations, or one for all.
        learnable: whether the means and the logarithms of the standard deviations are parameters, ``"loc"``
            and ``"log_scale"``, (K,) each.

    Shapes: x (...,) → (..., K).

    Example:
        >>> family = Gaussian(2, loc=(0.0, 2.0), scale=1.0)
        >>> family.evaluate(torch.tensor(0.0))
        tensor([0.3989, 0.0540])
        >>> family.gram()
        tensor([[0.2821, 0.1038],
                [0.1038, 0.2821]], dtype=torch.float64)
    """

    size: int
    loc: tuple[float, ...] | None = None
    scale: float | tuple[float, ...] = 0.5
    learnable: bool = True

    def __post_init__(self) -> None:
        require_count(self, "size")
        if self.loc is not None:
            self._require_numbers("loc")
        self._require_numbers("scale")
        if min(self._scales) <= 0:
            raise wrong(self, "scale", "is not positive", "pass only standard deviations > 0")
        for scale in (min(self._scales), max(self._scales)):
            require_width(self, "scale", scale)
        require_flag(self, "learnable")

    @property
    def domain(self) -> Line:
        return Line()

    def parameters(self) -> dict[str, Tensor]:
        if not self.learnable:
            return {}
        loc, scale = (torch.tensor(numbers, dtype=torch.float64) for numbers in (self._locs, self._scales))
        return {"loc": loc, "log_scale": scale.log()}

    def _functions(self, x: Tensor, values: Values) -> Tensor:
        loc, scale = self._placed(x, values)
        t = standardise(x[..., None], loc, scale, REACH)
        return (-t.square() / 2).exp() / (scale * math.sqrt(2 * math.pi))

    def _scaled_functions(self, x: Tensor, values: Values, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        exponents = self._exponents(x, values)
        largest = exponents.detach().amax(dim=-1)
        functions = (exponents - largest[..., None]).to(dtype).exp()
        return functions / math.sqrt(2 * math.pi), largest

    def _separate_functions(self, x: Tensor, values: Values) -> tuple[Tensor, Tensor]:
        exponents = self._exponents(x, values)
        scale = exponents.detach()
        return (exponents - scale).exp() / math.sqrt(2 * math.pi), scale  # 1/√(2π), with its gradient

    def _exponents(self, x: Tensor, values: Values) -> Tensor:
        """log(√(2π) φ_k(x)): (..., K)."""
        loc, scale = self._placed(x, values)
        t = standardise(x[..., None], loc, scale, FARTHEST[x.dtype])
        return -t.square() / 2 - scale.log()

    @property
    def has_one_scale(self) -> bool:
        return self.size == 1

    def inner(
        self, other: InputFunctions, values: Values | None = None, other_values: Values | None = None
    ) -> Tensor:
        if not isinstance(other, Gaussian):
            return super().inner(other, values, other_values)
        loc, scale = self._float64(values)
        other_loc, other_scale = other._float64(other_values)
        variance = scale[:, None].square() + other_scale.square()
        return (-(loc[:, None] - other_loc).square() / (2 * variance)).exp() / (2 * math.pi * variance).sqrt()

    def _norms(self, values: Values | None) -> Tensor:
        """1/(2σ√π): without the overlaps of pairs."""
        return 1 / (2 * math.sqrt(math.pi) * self._float64(values)[1])

    def integrals(self, values: Values | None = None) -> Tensor:
        return torch.ones_like(self._float64(values)[0])

    def breakpoints(self, values: Values | None = None) -> Tensor:
        loc, scale = (tensor.detach()[:, None] for tensor in self._float64(values))
        grid = torch.linspace(-12, 12, 17, dtype=torch.float64, device=loc.device)
        return (loc + scale * grid).flatten().sort().values

    def extents(self, values: Values | None = None) -> Tensor:
        loc, scale = (tensor.detach() for tensor in self._float64(values))
        return torch.stack([loc - 12 * scale, loc + 12 * scale], dim=1)

    @property
    def _locs(self) -> tuple[float, ...]:
        if self.loc is not None:
            return self.loc
        return tuple(2 * k / (self.size - 1) - 1 for k in range(self.size)) if self.size > 1 else (0.0,)

    @property
    def _scales(self) -> tuple[float, ...]:
        return self.scale if isinstance(self.scale, tuple) else (self.scale,) * self.size

    def _placed(self, like: Tensor, values: Values) -> tuple[Tensor, Tensor]:
        """Means and standard deviations, (K,) each, in the dtype of ``like``."""
        if not self.learnable:
            return constant(self._locs, like), constant(self._scales, like)
        return values["loc"], values["log_scale"].exp()

    def _float64(self, values: Values | None) -> tuple[Tensor, Tensor]:
        like = torch.empty(0, dtype=torch.float64, device=device_of(values))
        return self._placed(like, self._resolve(values, like))

    def _require_numbers(self, name: str) -> None:
        """Demand ``size`` finite numbers (for scale also a single one) and store plain floats."""
        value = getattr(self, name)
        if name == "scale" and is_finite(value):
            object.__setattr__(self, name, float(value))
            return
        numbers = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else ()
        if len(numbers) != self.size or not all(is_finite(number) for number in numbers):
            fix = f"pass a tuple of {self.size} finite floats"
            raise wrong(self, name, f"is not {self.size} finite numbers, one for each function", fix)
        object.__setattr__(self, name, tuple(float(number) for number in numbers))
