"""Any linearly independent functions, of one variable or of several, made orthonormal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from squircuit.errors import ParameterError
from squircuit.families.base import Family, InputFunctions, Values, largest_scale
from squircuit.families.block import BlockFamily, Pattern
from squircuit.families.cache import kept
from squircuit.families.checks import wrong
from squircuit.families.derived import Derived
from squircuit.families.domain import Domain

CONDITION_LIMIT = 1e10
"""The largest condition number of a Gram matrix of functions of one variable."""
BLOCK_CONDITION_LIMIT = 1e6
"""The largest of blocks. Overlaps have 16 digits, whose errors the inverse enlarges by this number."""
NEARLY_ORTHONORMAL, TERMS = 1e-2, 10  #: up to which row sum of |G − 1| a power series serves, and its terms


@final
@dataclass(frozen=True)
class Orthonormalised(Derived):
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

    is_orthonormal: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _prepare(self, self.base)

    def _functions(self, x: Tensor, values: Values) -> Tensor:
        # In float64 whatever x is: the mixing matrix of nearly dependent functions cancels leading digits.
        rows = self.base.evaluate(x.double()) @ _mixing(self.base, x.device)
        return rows.to(x.dtype.to_complex() if self.is_complex else x.dtype)

    def _scaled_functions(self, x: Tensor, values: Values, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        rows, scale = self.base.evaluate_scaled(x.double())
        mixed = rows @ _mixing(self.base, x.device)
        return mixed.to(dtype.to_complex() if self.is_complex else dtype), scale.to(x.dtype)

    def _separate_functions(self, x: Tensor, values: Values) -> tuple[Tensor, Tensor]:
        return _mixed_separately(self.base, x)

    def integrals(self, values: Values | None = None) -> Tensor:
        return self.base.integrals() @ _cached_mixing(self.base)


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
        _prepare(self, self.base)

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
        return _mixed_separately(self.base, x)

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


def _prepare(owner: InputFunctions, base: InputFunctions) -> None:
    """Refuse a base that cannot be made orthonormal: here, and not at the first evaluation."""
    if base.parameters():
        raise wrong(owner, "base", "has learnable parameters", "pass a base with learnable=False")
    _cached_mixing(base)


def _mixed_separately(base: InputFunctions, x: Tensor) -> tuple[Tensor, Tensor]:
    """The functions at points with a scale for each: (..., n) twice."""
    rows, scales = base.evaluate_separately(x)  # (..., n)
    mixing = _mixing(base, x.device)
    there = (mixing != 0) & (rows[..., None] != 0)  # (..., n, n), the base's functions first
    largest = largest_scale(torch.where(there, scales[..., None], -torch.inf), dim=-2)  # (..., n)
    factors = torch.where(there, (scales[..., None] - largest[..., None, :]).exp(), 0.0)
    return (rows[..., None] * mixing * factors).sum(dim=-2), largest


@kept(1024)
def _mixing(base: InputFunctions, device: torch.device) -> Tensor:
    """The transpose of G^{-1/2}, (n, n), so that a row of base functions times it is a row of ours."""
    return _cached_mixing(base).to(device)


@kept(1024)
def _cached_mixing(base: InputFunctions) -> Tensor:
    return _of_rows(base) if isinstance(base, Family) else _of_overlaps(base)


def _of_rows(base: Family) -> Tensor:
    """G^{-1/2} by the rule that integrates the functions: G = rowsᵀ rows* is not formed."""
    nodes, weights = base.rule()
    rows = weights.sqrt()[:, None] * base.evaluate(nodes)  # (q, n)
    singular = torch.linalg.svdvals(rows)
    # Fewer nodes than functions leave singular values out that are exactly 0.
    smallest = singular[-1] if len(singular) == base.size else singular.new_zeros(())
    _require_independent(base, ((singular[0] / smallest) ** 2).item(), CONDITION_LIMIT)
    mixing = _inverse_root(rows)
    return mixing @ _inverse_root(rows @ mixing)  # the second pass removes the first one's rounding


def _inverse_root(rows: Tensor) -> Tensor:
    """(rowsᴴ rows)^{-1/2} from the singular values of the rows: squaring them would halve the digits."""
    _, singular, right = torch.linalg.svd(rows, full_matrices=False)
    root: Tensor = (right.mH / singular) @ right
    return root


def _of_overlaps(base: InputFunctions) -> Tensor:
    """G^{-1/2} by G itself, which has a closed form."""
    gram = base.gram()
    apart = gram - torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    if float(apart.abs().sum(dim=1).amax()) < NEARLY_ORTHONORMAL:
        return _inverse_root_near_one(apart).mT.contiguous()
    values, vectors = torch.linalg.eigh(gram)
    condition = float(values[-1] / values[0]) if values[0] > 0 else torch.inf
    _require_independent(base, condition, BLOCK_CONDITION_LIMIT)
    mixing = (vectors / values.sqrt()) @ vectors.mH
    left, vectors = torch.linalg.eigh(mixing @ gram @ mixing)  # a second pass removes rounding
    whole: Tensor = mixing @ (vectors / left.sqrt()) @ vectors.mH
    return whole.mT.contiguous()


def _inverse_root_near_one(apart: Tensor) -> Tensor:
    """(1 + E)^{-1/2} by its power series, which keeps the digits of entries that are tiny.

    Far out one function may be the only one left, with such an entry as its factor.
    """
    term = torch.eye(len(apart), dtype=apart.dtype, device=apart.device)
    total = term
    for k in range(1, TERMS):
        term = term @ apart * ((0.5 - k) / k)
        total = total + term
    return total


def _require_independent(base: InputFunctions, condition: float, limit: float) -> None:
    if not condition < limit:
        which = (
            f"Orthonormalised: the functions of base={base!r}"
            if isinstance(base, Family)
            else f"OrthonormalisedBlock: {base.size} functions of its base"
        )
        raise ParameterError(
            f"{which} are (nearly) linearly dependent: their Gram matrix has condition number "
            f"{condition:.3g}, the limit is {limit:.0e}. Fix: take fewer or better separated functions."
        )
