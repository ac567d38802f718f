"""Families in another coordinate: φ(t(x)) √t′(x)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from squircuit.errors import StructureError
from squircuit.families.base import InputFunctions, Values
from squircuit.families.cache import constant
from squircuit.families.checks import wrong
from squircuit.families.derived import Derived
from squircuit.families.domain import Domain
from squircuit.families.monotone import Monotone
from squircuit.families.tails import Ends

FARTHEST = 1e75
"""The farthest that functions may live: fourth powers are numbers still."""
INTEGRABLE = 1.7
"""Where |φ|² falls like |x|^(−1−r), φ has an integral for r > 1, and rules find it to 1e-9 from this on."""


@final
@dataclass(frozen=True)
class Transformed(Derived):
    r"""The functions of a family φ after a monotone map t of the variable,

    .. math:: \psi_k(x) = \varphi_k(t(x)) \sqrt{t'(x)}, \qquad
              \int \psi_j(x)\, \psi_k(x)^*\, dx = \int \varphi_j(t)\, \varphi_k(t)^*\, dt,

    so that they are orthonormal if φ is. With t fitted to a column of data (``Monotone.fit``) a few functions
    describe heavy tails, spikes and bounds that would need many. The parameters are those of φ.

    Reference: "How to square tensor networks and circuits without squaring them", Related Work, "Possible
    choices of orthonormal functions".

    Args:
        base: φ, a family of continuous functions on what t is onto.
        transform: t.

    Shapes: those of the base, x (...,) → (..., n).

    Example:
        >>> from squircuit.families import Hermite
        >>> twice = Monotone(knots=(0.0, 1.0), values=(0.0, 2.0), slopes=(2.0, 2.0))
        >>> Transformed(Hermite(2), twice).evaluate(torch.tensor([0.0, 0.5]))
        tensor([[1.0623, 0.0000],
                [0.6443, 0.9112]])
    """

    transform: Monotone

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.transform, Monotone):
            raise wrong(self, "transform", "is not a monotone map", "pass one, such as Monotone.fit(column)")
        if self.base.domain != self.transform.image:
            problem = (
                f"is on {self.base.domain.describe()}, transform is onto {self.transform.image.describe()}"
            )
            raise wrong(self, "base", problem, "pass a family on what the transform is onto")
        ends = self.transform.inverse(self.base.breakpoints()[[0, -1]])
        if not bool((ends.abs() < FARTHEST).all()):
            problem = f"takes the ends of the base to {ends[0].item():.3g} and {ends[1].item():.3g}"
            raise wrong(self, "transform", problem, "pass a transform with smaller tails, or one onto less")

    @property
    def domain(self) -> Domain:
        return self.transform.domain

    @property
    def has_even_panels(self) -> bool:
        return False

    def smoothing(self, units: int) -> Tensor | None:
        return self.base.smoothing(units)

    def _functions(self, x: Tensor, values: Values) -> Tensor:
        t, log_slope = self._forward(x)
        functions = self.base.evaluate(t, values) * (log_slope / 2).exp()[..., None]
        return functions.to(x.dtype.to_complex() if self.is_complex else x.dtype)

    def _scaled_functions(self, x: Tensor, values: Values, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        t, log_slope = self._forward(x)
        functions, scale = self.base.evaluate_scaled(t, values, dtype)
        factor, held = carried(log_slope / 2)
        return functions * factor.to(dtype)[..., None], (scale + held).to(x.dtype)

    def _separate_functions(self, x: Tensor, values: Values) -> tuple[Tensor, Tensor]:
        t, log_slope = self._forward(x)
        functions, scale = self.base.evaluate_separately(t, values)
        factor, held = carried(log_slope / 2)
        return functions * factor[..., None], scale + held[..., None]

    def _forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """t(x), not beyond the ends of an interval by rounding, and log t′(x)."""
        t, log_slope = self.transform.forward(x)
        return t.clamp(*self.transform.image.bounds), log_slope

    def inner(
        self, other: InputFunctions, values: Values | None = None, other_values: Values | None = None
    ) -> Tensor:
        if isinstance(other, Transformed) and other.transform == self.transform:
            return self.base.inner(other.base, values, other_values)
        return super().inner(other, values, other_values)

    def integrals(self, values: Values | None = None) -> Tensor:
        if min(tail.order for tail in self.ends) < INTEGRABLE:
            raise StructureError(
                "finite",
                f"the integral of {type(self.base).__name__} after a transform",
                "its tails are so heavy that it is infinite, or that no rule reaches far enough to find it",
                "pass a transform with smaller tails; integrals of squares are there for all",
            )
        return super().integrals(values)

    def breakpoints(self, values: Values | None = None) -> Tensor:
        return self.transform.panels(self.base.breakpoints(values))

    def extents(self, values: Values | None = None) -> Tensor:
        return self.transform.inverse(self.base.extents(values))

    @property
    def ends(self) -> Ends:
        tails, slopes = self.transform.tails, self.transform.slopes
        if tails is None:
            return self.base.ends
        before, after = self.base.ends
        return before.after(slopes[0], tails[0]), after.after(slopes[-1], tails[1])

    def pieces(self, values: Values | None = None) -> Tensor:
        ends = self.transform.inverse(self.base.pieces(values))
        knots = constant(self.transform.knots, ends)
        return torch.cat([ends, knots[(knots > ends[0]) & (knots < ends[-1])]]).sort().values


def carried(log_factor: Tensor) -> tuple[Tensor, Tensor]:
    """A factor as 1 e^s: the 1 carries all of its gradient, s has none."""
    held = log_factor.detach()
    return (log_factor - held).exp(), held
