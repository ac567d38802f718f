"""Families made from others: the complex conjugate of one, two one after the other, and their products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from squircuit.families.base import Family, InputFunctions, Values
from squircuit.families.checks import wrong
from squircuit.families.domain import Domain
from squircuit.families.quadrature import halve, merge
from squircuit.families.tails import Ends


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

    @property
    def ends(self) -> Ends:
        return self.base.ends

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


@final
@dataclass(frozen=True)
class Concatenated(Paired):
    r"""The functions of two families on one domain,

    .. math:: \chi(x) = (\varphi_1(x), \dots, \varphi_n(x), \psi_1(x), \dots, \psi_m(x)).

    Not orthonormal, since those of one need not be orthogonal to those of the other. They arise where input
    layers of different families over one variable are joined into one. Parameters are those of the parts,
    prefixed ``"left."`` and ``"right."``.

    Reference: "How to square tensor networks and circuits without squaring them", Related Work, "Possible
    choices of orthonormal functions".

    Args:
        left: φ, n functions.
        right: ψ, m functions, on the same domain.

    Shapes: x (...,) → (..., n + m).

    Example:
        >>> from squircuit.families import Fourier, Legendre
        >>> Concatenated(Legendre(2), Legendre(1)).evaluate(torch.tensor(1.0))
        tensor([0.7071, 1.2247, 0.7071])
    """

    has_one_scale: ClassVar[bool] = False

    @property
    def size(self) -> int:
        return self.left.size + self.right.size

    def _functions(self, x: Tensor, values: Values) -> Tensor:
        dtype = x.dtype.to_complex() if self.is_complex else x.dtype
        parts = [part.evaluate(x, given).to(dtype) for part, given in self._parts(values)]
        return torch.cat(parts, dim=-1)

    def _scaled_functions(self, x: Tensor, values: Values, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        parts = [part.evaluate_scaled(x, given, dtype) for part, given in self._parts(values)]
        largest = torch.stack([scale for _, scale in parts]).amax(dim=0)
        kind = dtype.to_complex() if self.is_complex else dtype
        scaled = [(v * (s - largest).to(dtype).exp()[..., None]).to(kind) for v, s in parts]
        return torch.cat(scaled, dim=-1), largest

    def _separate_functions(self, x: Tensor, values: Values) -> tuple[Tensor, Tensor]:
        parts = [part.evaluate_separately(x, given) for part, given in self._parts(values)]
        kind = torch.complex128 if self.is_complex else torch.float64
        functions = torch.cat([v.to(kind) for v, _ in parts], dim=-1)
        return functions, torch.cat([s for _, s in parts], dim=-1)

    def integrals(self, values: Values | None = None) -> Tensor:
        dtype = torch.complex128 if self.is_complex else torch.float64
        return torch.cat([part.integrals(given).to(dtype) for part, given in self._parts(values)])

    def breakpoints(self, values: Values | None = None) -> Tensor:
        return torch.cat([part.breakpoints(given) for part, given in self._parts(values)]).sort().values

    def extents(self, values: Values | None = None) -> Tensor:
        return torch.cat([part.extents(given) for part, given in self._parts(values)])

    @property
    def ends(self) -> Ends:
        (before, after), (other, another) = self.left.ends, self.right.ends
        return min(before, other), min(after, another)  # what vanishes more slowly is left

    def pieces(self, values: Values | None = None) -> Tensor:
        return torch.cat([part.pieces(given) for part, given in self._parts(values)]).sort().values


@final
@dataclass(frozen=True)
class Product(Paired):
    r"""The pairwise products of two families on one domain,

    .. math:: \chi_{(i,j)}(x) = \varphi_i(x)\, \psi_j(x),

    in row-major order: j runs fastest. They are the input functions of a product of two circuits. Parameters
    are those of the factors, prefixed ``"left."`` and ``"right."``.

    Reference: "How to square tensor networks and circuits without squaring them", algorithm Multiply.

    Args:
        left: φ, n functions.
        right: ψ, m functions, on the same domain.

    Shapes: x (...,) → (..., n·m).

    Example:
        >>> import torch
        >>> from squircuit.families import Legendre
        >>> pairs = Product(Legendre(2), Legendre(2))
        >>> pairs.evaluate(torch.tensor(1.0))
        tensor([0.5000, 0.8660, 0.8660, 1.5000])
        >>> pairs.integrals()
        tensor([1., 0., 0., 1.], dtype=torch.float64)
    """

    @property
    def size(self) -> int:
        return self.left.size * self.right.size

    @property
    def has_one_scale(self) -> bool:
        return self.left.has_one_scale and self.right.has_one_scale

    def _functions(self, x: Tensor, values: Values) -> Tensor:
        left, right = (part.evaluate(x, given) for part, given in self._parts(values))
        return _pairwise(left, right)

    def _scaled_functions(self, x: Tensor, values: Values, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        parts = [part.evaluate_scaled(x, given, dtype) for part, given in self._parts(values)]
        (left, scale), (right, other) = parts
        return _pairwise(left, right), scale + other

    def _separate_functions(self, x: Tensor, values: Values) -> tuple[Tensor, Tensor]:
        (left, scale), (right, other) = (p.evaluate_separately(x, given) for p, given in self._parts(values))
        return _pairwise(left, right), _pairwise(scale, other, torch.add)

    def integrals(self, values: Values | None = None) -> Tensor:
        (left, own), (right, others) = self._parts(values)
        return left.inner(right.conjugate(), own, others).flatten()

    def breakpoints(self, values: Values | None = None) -> Tensor:
        # Products of products oscillate twice as fast as the panels of the factors allow.
        return halve(merge(*(part.breakpoints(given) for part, given in self._parts(values))))

    @property
    def ends(self) -> Ends:
        (before, after), (other, another) = self.left.ends, self.right.ends
        return before.times(other), after.times(another)

    def pieces(self, values: Values | None = None) -> Tensor:
        return merge(*(part.pieces(given) for part, given in self._parts(values)))


def _pairwise(left: Tensor, right: Tensor, combine: Callable[[Tensor, Tensor], Tensor] = torch.mul) -> Tensor:
    """Every entry of one with every entry of the other, j fastest: (..., n) and (..., m) → (..., n·m)."""
    return combine(left[..., :, None], right[..., None, :]).flatten(-2)
