"""What families made from other families have in common, and the complex conjugate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from squircuit.families.base import Family, InputFunctions, Values
from squircuit.families.checks import wrong
from squircuit.families.domain import Domain


@dataclass(frozen=True)
class Derived(Family):
    """A family made from a base φ, whose number, parameters and places its functions have.

    What differs is overridden.
    """

    base: Family

    def __post_init__(self) -> None:
        _require_families(self, "base")

    @property
    def size(self) -> int:
        return self.base.size

    @property
    def domain(self) -> Domain:
        return self.base.domain

    @property
    def is_orthonormal(self) -> bool:
        return self.base.is_orthonormal

    @property
    def is_complex(self) -> bool:
        return self.base.is_complex

    @property
    def has_one_scale(self) -> bool:
        return self.base.has_one_scale

    @property
    def has_even_panels(self) -> bool:
        return self.base.has_even_panels

    def parameters(self) -> dict[str, Tensor]:
        return self.base.parameters()

    def conjugate(self) -> Family:
        return conjugate_of(self)

    def breakpoints(self, values: Values | None = None) -> Tensor:
        return self.base.breakpoints(values)

    def extents(self, values: Values | None = None) -> Tensor:
        return self.base.extents(values)

    def pieces(self, values: Values | None = None) -> Tensor:
        return self.base.pieces(values)


@dataclass(frozen=True)
class Paired(Family):
    """A family made from two on one domain; parameters are theirs, prefixed ``"left."`` and ``"right."``."""

    left: Family
    right: Family

    def __post_init__(self) -> None:
        _require_families(self, "left", "right")
        if self.left.domain != self.right.domain:
            problem = f"is on {self.right.domain.describe()}, left on {self.left.domain.describe()}"
            raise wrong(self, "right", problem, "pass two families on the same domain")

    @property
    def domain(self) -> Domain:
        return self.left.domain

    @property
    def is_complex(self) -> bool:
        return self.left.is_complex or self.right.is_complex

    @property
    def has_even_panels(self) -> bool:
        return self.left.has_even_panels and self.right.has_even_panels

    def parameters(self) -> dict[str, Tensor]:
        parts = {"left.": self.left, "right.": self.right}
        return {p + name: value for p, part in parts.items() for name, value in part.parameters().items()}

    def conjugate(self) -> Family:
        return conjugate_of(self)

    def _parts(self, values: Values | None) -> tuple[tuple[Family, Values | None], ...]:
        """Both families with their values; None where none of its are given."""
        return (self.left, _given(values, "left.")), (self.right, _given(values, "right."))


@final
@dataclass(frozen=True)
class Conjugated(Derived):
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

    is_complex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        # One set of functions has one description, so that equality of families means something.
        super().__post_init__()
        if isinstance(self.base, Conjugated) or not self.base.is_complex:
            raise wrong(self, "base", "is already conjugated or real", "call base.conjugate() instead")

    def _functions(self, x: Tensor, values: Values) -> Tensor:
        return self.base.evaluate(x, values).conj()

    def _scaled_functions(self, x: Tensor, values: Values, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        functions, scale = self.base.evaluate_scaled(x, values, dtype)
        return functions.conj(), scale

    def _separate_functions(self, x: Tensor, values: Values) -> tuple[Tensor, Tensor]:
        functions, scale = self.base.evaluate_separately(x, values)
        return functions.conj(), scale

    def inner(
        self, other: InputFunctions, values: Values | None = None, other_values: Values | None = None
    ) -> Tensor:
        return torch.conj_physical(self.base.inner(other.conjugate(), values, other_values))

    def integrals(self, values: Values | None = None) -> Tensor:
        return torch.conj_physical(self.base.integrals(values))

    def conjugate(self) -> Family:
        return self.base


def conjugate_of(family: Family) -> Family:
    """What ``family.conjugate()`` is for a family that may be complex."""
    return Conjugated(family) if family.is_complex else family


def _require_families(owner: Any, *names: str) -> None:
    for name in names:
        if not isinstance(getattr(owner, name), Family):
            raise wrong(owner, name, "is not a family", "pass a family such as Legendre(4)")


def _given(values: Values | None, prefix: str) -> Values | None:
    """The values whose names begin with a prefix, without it; None where there are none."""
    names = [name for name in values or () if name.startswith(prefix)]
    return {name.removeprefix(prefix): values[name] for name in names} if values and names else None
