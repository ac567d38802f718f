"""The complex conjugate of a family."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from squircuit.families.base import Family, InputFunctions, Values
from squircuit.families.checks import wrong
from squircuit.families.domain import Domain


@final
@dataclass(frozen=True)
class Conjugated(Family):
    r"""The functions

    .. math:: \psi_k(x) = \varphi_k(x)^*

    of a complex family φ, with the parameters of φ. Write ``family.conjugate()``, which is right for real
    families and for conjugated ones too: conjugating twice gives the first family back.

    Reference: "How to square tensor networks and circuits without squaring them", squared circuits c c*.

    Args:
        base: the complex family φ.

    Shapes: those of the base, x (...,) → (..., n).

    Example:
        >>> from squircuit.families import Fourier
        >>> family = Fourier(3, period=4.0)
        >>> x = torch.tensor(1.0, dtype=torch.float64)
        >>> bool((family.conjugate().evaluate(x) == family.evaluate(x).conj()).all())
        True
        >>> family.conjugate().conjugate() is family
        True
    """

    base: Family
    is_complex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        # One set of functions has one description, so that equality of families means something.
        if not isinstance(self.base, Family):
            raise wrong(self, "base", "is not a family", "pass one such as Fourier(5, period=1.0)")
        if isinstance(self.base, Conjugated) or not self.base.is_complex:
            raise wrong(self, "base", "is already conjugated or real", "call base.conjugate() instead")

    @property
    def size(self) -> int:
        return self.base.size

    @property
    def domain(self) -> Domain:
        return self.base.domain

    @property
    def is_orthonormal(self) -> bool:
        return self.base.is_orthonormal

    def parameters(self) -> dict[str, Tensor]:
        return self.base.parameters()

    def _functions(self, x: Tensor, values: Values) -> Tensor:
        return self.base.evaluate(x, values).conj()

    def _scaled_functions(self, x: Tensor, values: Values, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        functions, scale = self.base.evaluate_scaled(x, values, dtype)
        return functions.conj(), scale

    def _separate_functions(self, x: Tensor, values: Values) -> tuple[Tensor, Tensor]:
        functions, scale = self.base.evaluate_separately(x, values)
        return functions.conj(), scale

    @property
    def has_one_scale(self) -> bool:
        return self.base.has_one_scale

    @property
    def has_even_panels(self) -> bool:
        return self.base.has_even_panels

    def inner(
        self, other: InputFunctions, values: Values | None = None, other_values: Values | None = None
    ) -> Tensor:
        return torch.conj_physical(self.base.inner(other.conjugate(), values, other_values))

    def integrals(self, values: Values | None = None) -> Tensor:
        return torch.conj_physical(self.base.integrals(values))

    def conjugate(self) -> Family:
        return self.base

    def breakpoints(self, values: Values | None = None) -> Tensor:
        return self.base.breakpoints(values)

    def extents(self, values: Values | None = None) -> Tensor:
        return self.base.extents(values)

    def pieces(self, values: Values | None = None) -> Tensor:
        return self.base.pieces(values)


def conjugate_of(family: Family) -> Family:
    """What ``family.conjugate()`` is for a family that may be complex."""
    return Conjugated(family) if family.is_complex else family
