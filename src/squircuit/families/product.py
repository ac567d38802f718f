"""All products of a function of one family and one of another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from squircuit.families.base import Values
from squircuit.families.derived import Paired
from squircuit.families.quadrature import halve, merge


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

    def pieces(self, values: Values | None = None) -> Tensor:
        return merge(*(part.pieces(given) for part, given in self._parts(values)))


def _pairwise(left: Tensor, right: Tensor, combine: Callable[[Tensor, Tensor], Tensor] = torch.mul) -> Tensor:
    """Every entry of one with every entry of the other, j fastest: (..., n) and (..., m) → (..., n·m)."""
    return combine(left[..., :, None], right[..., None, :]).flatten(-2)
