"""All products of a function of one family and one of another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from squircuit.families.base import Family, Values
from squircuit.families.checks import wrong
from squircuit.families.conjugated import conjugate_of
from squircuit.families.domain import Domain
from squircuit.families.quadrature import halve, merge


@final
@dataclass(frozen=True)
class Product(Family):
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

    left: Family
    right: Family

    def __post_init__(self) -> None:
        for name in ("left", "right"):
            if not isinstance(getattr(self, name), Family):
                raise wrong(self, name, "is not a family", "pass a family such as Legendre(4)")
        if self.left.domain != self.right.domain:
            problem = f"is on {self.right.domain.describe()}, left on {self.left.domain.describe()}"
            raise wrong(self, "right", problem, "pass two families on the same domain")

    @property
    def size(self) -> int:
        return self.left.size * self.right.size

    @property
    def domain(self) -> Domain:
        return self.left.domain

    @property
    def is_complex(self) -> bool:
        return self.left.is_complex or self.right.is_complex

    def parameters(self) -> dict[str, Tensor]:
        parts = {"left.": self.left, "right.": self.right}
        return {p + name: value for p, part in parts.items() for name, value in part.parameters().items()}

    def _functions(self, x: Tensor, values: Values) -> Tensor:
        left_values, right_values = _parts(values)
        left, right = self.left.evaluate(x, left_values), self.right.evaluate(x, right_values)
        return (left[..., :, None] * right[..., None, :]).flatten(-2)

    def _scaled_functions(self, x: Tensor, values: Values, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        left_values, right_values = _parts(values)
        left, scale = self.left.evaluate_scaled(x, left_values, dtype)
        right, other = self.right.evaluate_scaled(x, right_values, dtype)
        return (left[..., :, None] * right[..., None, :]).flatten(-2), scale + other

    def _separate_functions(self, x: Tensor, values: Values) -> tuple[Tensor, Tensor]:
        left_values, right_values = _parts(values)
        left, scale = self.left.evaluate_separately(x, left_values)
        right, other = self.right.evaluate_separately(x, right_values)
        products = (left[..., :, None] * right[..., None, :]).flatten(-2)
        return products, (scale[..., :, None] + other[..., None, :]).flatten(-2)

    @property
    def has_one_scale(self) -> bool:
        return self.left.has_one_scale and self.right.has_one_scale

    @property
    def has_even_panels(self) -> bool:
        return self.left.has_even_panels and self.right.has_even_panels

    def integrals(self, values: Values | None = None) -> Tensor:
        return self.left.inner(self.right.conjugate(), *_parts(values)).flatten()

    def conjugate(self) -> Family:
        return conjugate_of(self)

    def breakpoints(self, values: Values | None = None) -> Tensor:
        # Products of products oscillate twice as fast as the panels of the factors allow.
        left, right = _parts(values)
        return halve(merge(self.left.breakpoints(left), self.right.breakpoints(right)))

    def pieces(self, values: Values | None = None) -> Tensor:
        left, right = _parts(values)
        return merge(self.left.pieces(left), self.right.pieces(right))


def _parts(values: Values | None) -> tuple[Values | None, Values | None]:
    """The values of the left and of the right factor."""
    return _part(values, "left."), _part(values, "right.")


def _part(values: Values | None, prefix: str) -> Values | None:
    """The values whose names begin with the prefix, without it; None where there are none."""
    names = [name for name in values or () if name.startswith(prefix)]
    return {name.removeprefix(prefix): values[name] for name in names} if values and names else None
