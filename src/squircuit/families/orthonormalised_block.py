"""Functions of several variables, made orthonormal."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, final

import torch
from torch import Tensor

from squircuit.errors import ParameterError
from squircuit.families.base import InputFunctions, Values
from squircuit.families.block import BlockFamily, Pattern
from squircuit.families.checks import wrong
from squircuit.families.compiler import opaque_to_compiler
from squircuit.families.domain import Domain

CONDITION_LIMIT = 1e6
"""Of Gram matrices. Overlaps have 16 digits, whose errors the inverse enlarges by the condition number."""


@final
@dataclass(frozen=True)
class OrthonormalisedBlock(BlockFamily):
    r"""The symmetric orthonormalisation of a block family f by its overlaps G, which have a closed form,

    .. math:: \psi_i(x) = \sum_j (G^{-1/2})_{ij}\, f_j(x), \qquad G_{ij} = \int f_i f_j^*.

    It is to blocks what :class:`squircuit.families.Orthonormalised` is to functions of one variable: with it
    trees of blocks below semi-unitary sums are normalised by construction (U1).

    Args:
        base: f, without learnable parameters and with a Gram matrix of condition number below 1e6. Nearly
            equal Gaussians have a larger one: what their overlaps have in common cancels.

    Shapes: those of the base, x (..., D) → (..., n).

    Example:
        >>> from squircuit.families import MultivariateGaussian
        >>> base = MultivariateGaussian.of([[0.0, 0.0], [2.0, 1.0]], [[1.0, 1.0], [0.5, 2.0]], "diagonal")
        >>> family = OrthonormalisedBlock(base)
        >>> family.gram()
        tensor([[1., 0.],
                [0., 1.]], dtype=torch.float64)
    """

    base: BlockFamily
    is_orthonormal: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.base, BlockFamily):
            raise wrong(self, "base", "is not a block family", "pass MultivariateGaussian.of(…)")
        if self.base.parameters():
            raise wrong(self, "base", "has learnable parameters", "pass a base with learnable=False")
        _cached_mixing(self.base)  # dependent functions are reported here, not at the first evaluation

    @property
    def size(self) -> int:
        return self.base.size

    @property
    def dimension(self) -> int:
        return self.base.dimension

    @property
    def domains(self) -> tuple[Domain, ...]:
        return self.base.domains

    @property
    def is_complex(self) -> bool:
        return self.base.is_complex

    def mixing(self, device: torch.device) -> Tensor:
        """The transpose of G^(−1/2), (n, n): a row of functions of the base times it is a row of these."""
        return _mixing(self.base, device)

    def _separate_functions(self, x: Tensor, values: Values) -> tuple[Tensor, Tensor]:
        rows, scales = self.base.evaluate_separately(x)  # (..., n)
        mixing = _mixing(self.base, x.device)
        there = (mixing != 0) & (rows[..., None] != 0)  # (..., n, n), the base's functions first
        largest = torch.where(there, scales[..., None], -torch.inf).amax(dim=-2)
        largest = torch.where(largest == -torch.inf, 0.0, largest)  # (..., n)
        factors = torch.where(there, (scales[..., None] - largest[..., None, :]).exp(), 0.0)
        return (rows[..., None] * mixing * factors).sum(dim=-2), largest

    def _scaled_functions(self, x: Tensor, values: Values, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        rows, scale = self.base.evaluate_scaled(x)
        return (rows @ _mixing(self.base, x.device)).to(dtype), scale

    def _cross(
        self, other: BlockFamily, x: Tensor, observed: Pattern, values: Values, other_values: Values
    ) -> tuple[Tensor, Tensor]:
        mixing = _mixing(self.base, x.device)
        if other == self:
            pairs, scale = self.base.pair_integrals(x, observed)
            return mixing.mT @ pairs @ mixing.conj(), scale
        pairs, scale = self.base.cross_integrals(other, x, observed, None, other_values)
        return mixing.mT @ pairs, scale

    def _partial(self, x: Tensor, observed: Pattern, values: Values) -> Tensor:
        return self.base.partial_integrals(x, observed) @ _mixing(self.base, x.device)

    def inner(
        self, other: InputFunctions, values: Values | None = None, other_values: Values | None = None
    ) -> Tensor:
        self.require_same_domains(other)
        if self == other:
            return self.gram(values)
        inner = self.base.inner(other, None, other_values)
        return _mixing(self.base, inner.device).mT @ inner

    def integrals(self, values: Values | None = None) -> Tensor:
        return self.base.integrals() @ _cached_mixing(self.base)

    def sample_square(
        self,
        amplitudes: Tensor,
        x: Tensor,
        observed: Pattern,
        values: Values | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        mixing = _mixing(self.base, amplitudes.device)
        dtype = torch.promote_types(amplitudes.dtype, mixing.dtype)
        return self.base.sample_square(
            amplitudes.to(dtype) @ mixing.mT.to(dtype), x, observed, None, generator
        )


@opaque_to_compiler
@lru_cache(maxsize=1024)
def _mixing(base: BlockFamily, device: torch.device) -> Tensor:
    """The transpose of G^{-1/2}, (n, n), so that a row of base functions times it is a row of ours."""
    with torch.inference_mode(mode=False), torch.no_grad():
        return _cached_mixing(base).to(device)


@opaque_to_compiler  # traced through, the cache would be lost
@lru_cache(maxsize=1024)
def _cached_mixing(base: BlockFamily) -> Tensor:
    with torch.inference_mode(mode=False), torch.no_grad():  # the result outlives the caller's mode
        gram = base.gram()
        values, vectors = torch.linalg.eigh(gram)
        condition = float(values[-1] / values[0]) if values[0] > 0 else torch.inf
        if not condition < CONDITION_LIMIT:
            raise ParameterError(
                f"OrthonormalisedBlock: {base.size} functions of its base are (nearly) linearly dependent: "
                f"their Gram matrix has condition number {condition:.3g}, the limit is "
                f"{CONDITION_LIMIT:.0e}. Fix: take fewer or better separated functions."
            )
        mixing = (vectors / values.sqrt()) @ vectors.mH
        left, vectors = torch.linalg.eigh(mixing @ gram @ mixing)  # a second pass removes rounding
        whole: Tensor = mixing @ (vectors / left.sqrt()) @ vectors.mH
        return whole.mT.contiguous()
