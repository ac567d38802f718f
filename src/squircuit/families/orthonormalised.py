"""Any linearly independent functions, made orthonormal."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, final

import torch
from torch import Tensor

from squircuit.errors import ParameterError
from squircuit.families.base import Family, Values
from squircuit.families.checks import wrong
from squircuit.families.compiler import opaque_to_compiler
from squircuit.families.conjugated import conjugate_of
from squircuit.families.domain import Domain

CONDITION_LIMIT = 1e10


@final
@dataclass(frozen=True)
class Orthonormalised(Family):
    r"""The symmetric (Löwdin) orthonormalisation of a family φ with Gram matrix G,

    .. math:: \psi_i(x) = \sum_j (G^{-1/2})_{ij}\, \varphi_j(x), \qquad G_{ij} = \int \varphi_i \varphi_j^*,

    which of all orthonormal bases of the span is the nearest to φ, so that local functions stay local.

    Reference: "How to square tensor networks and circuits without squaring them", Related Work, "Possible
    choices of orthonormal functions" (linearly independent functions are projections of orthonormal ones).

    Args:
        base: φ, without learnable parameters and with a Gram matrix of condition number below 1e10.

    Shapes: those of the base, x (...,) → (..., n).

    Example:
        >>> from squircuit.families import BSpline
        >>> family = Orthonormalised(BSpline(2, degree=1))
        >>> family.evaluate(torch.tensor([0.0, 1.0]))
        tensor([[ 1.9319, -0.5176],
                [-0.5176,  1.9319]])
    """

    base: Family
    is_orthonormal: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.base, Family):
            raise wrong(self, "base", "is not a family", "pass a family such as BSpline(8)")
        if self.base.parameters():
            raise wrong(self, "base", "has learnable parameters", "pass a base with learnable=False")
        _mixing(self.base)  # dependent functions are reported here, not at the first evaluation

    @property
    def size(self) -> int:
        return self.base.size

    @property
    def domain(self) -> Domain:
        return self.base.domain

    @property
    def is_complex(self) -> bool:
        return self.base.is_complex

    def _functions(self, x: Tensor, values: Values) -> Tensor:
        # In float64 whatever x is: the mixing matrix of nearly dependent functions cancels leading digits.
        rows = self.base.evaluate(x.double()) @ _mixing(self.base, x.device)
        return rows.to(x.dtype.to_complex() if self.is_complex else x.dtype)

    def _scaled_functions(self, x: Tensor, values: Values, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        rows, scale = self.base.evaluate_scaled(x.double())
        mixed = rows @ _mixing(self.base, x.device)
        return mixed.to(dtype.to_complex() if self.is_complex else dtype), scale.to(x.dtype)

    def _separate_functions(self, x: Tensor, values: Values) -> tuple[Tensor, Tensor]:
        rows, scales = self.base.evaluate_separately(x)  # (..., n)
        mixing = _mixing(self.base, x.device)
        there = (mixing != 0) & (rows[..., None] != 0)  # (..., n, n), the base's functions first
        largest = torch.where(there, scales[..., None], -torch.inf).amax(dim=-2)
        largest = torch.where(largest == -torch.inf, 0.0, largest)  # (..., n)
        factors = torch.where(there, (scales[..., None] - largest[..., None, :]).exp(), 0.0)
        return (rows[..., None] * mixing * factors).sum(dim=-2), largest

    @property
    def has_one_scale(self) -> bool:
        return self.base.has_one_scale

    def integrals(self, values: Values | None = None) -> Tensor:
        return self.base.integrals() @ _mixing(self.base)

    def conjugate(self) -> Family:
        return conjugate_of(self)

    def breakpoints(self, values: Values | None = None) -> Tensor:
        return self.base.breakpoints()

    def extents(self, values: Values | None = None) -> Tensor:
        return self.base.extents()

    def pieces(self, values: Values | None = None) -> Tensor:
        return self.base.pieces()


def _mixing(base: Family, device: torch.device | None = None) -> Tensor:
    """The transpose of G^{-1/2}, (n, n), so that a row of base functions times it is a row of ours."""
    return _moved_mixing(base, device) if device is not None else _cached_mixing(base)


@opaque_to_compiler
@lru_cache(maxsize=1024)
def _moved_mixing(base: Family, device: torch.device) -> Tensor:
    with torch.inference_mode(mode=False), torch.no_grad():
        return _cached_mixing(base).to(device)


@opaque_to_compiler  # traced through, the cache would be lost
@lru_cache(maxsize=1024)
def _cached_mixing(base: Family) -> Tensor:
    # The result outlives the caller's mode: an inference tensor could not be trained through later.
    with torch.inference_mode(mode=False), torch.no_grad():
        nodes, weights = base.rule()
        rows = weights.sqrt()[:, None] * base.evaluate(nodes)  # (q, n), and G = rowsᵀ rows*
        singular = torch.linalg.svdvals(rows)
        _require_independent(base, singular)
        mixing = _inverse_root(rows)
        return mixing @ _inverse_root(rows @ mixing)  # the second pass removes the first one's rounding


def _inverse_root(rows: Tensor) -> Tensor:
    """(rowsᴴ rows)^{-1/2} from the singular values of the rows: squaring them would halve the digits."""
    _, singular, right = torch.linalg.svd(rows, full_matrices=False)
    root: Tensor = (right.mH / singular) @ right
    return root


def _require_independent(base: Family, singular: Tensor) -> None:
    # Fewer nodes than functions leave singular values out that are exactly 0.
    smallest = singular[-1] if len(singular) == base.size else singular.new_zeros(())
    condition = ((singular[0] / smallest) ** 2).item()
    if not condition < CONDITION_LIMIT:
        raise ParameterError(
            f"Orthonormalised: the functions of base={base!r} are (nearly) linearly dependent: their Gram "
            f"matrix has condition number {condition:.3g}, the limit is {CONDITION_LIMIT:.0e}. "
            f"Fix: take fewer or better separated functions."
        )
