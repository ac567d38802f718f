"""Input layers, group by group: their values ℓ(x) = W φ(x), and their Gram matrices ∫ ℓ ℓᴴ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, final

import torch
from torch import Tensor

from squircuit.execution import complex_planes
from squircuit.execution.algebras import twice
from squircuit.execution.derivatives import require_eager, require_first
from squircuit.execution.kernels import cpu, hermitian
from squircuit.execution.kernels import lookup as kernel
from squircuit.execution.plan import InputGroup
from squircuit.execution.precision import tf32
from squircuit.families import Categorical, Family, InputFunctions, Monotone, Transformed
from squircuit.families.cache import kept
from squircuit.families.monotone import Monotones
from squircuit.families.recurrence import FARTHEST, standardise
from squircuit.families.transformed import carried

FamilyValues: TypeAlias = Callable[[InputGroup], Mapping[str, Tensor]]
"""The values of the learnable parameters of a group's families."""


def points(group: InputGroup, x: Tensor, columns: Tensor) -> Tensor:
    """The points at which a group evaluates its families: (F, B), or (F, B, D) for blocks of D variables.

    Args:
        group: the group, of F layers.
        x: rows of data, (B, d).
        columns: the group's, as a tensor of indices.
    """
    found = x.index_select(1, columns)
    if isinstance(group.family, Family):
        return found.T
    return found.reshape(len(x), group.folds, group.family.dimension).transpose(0, 1)


def evaluate_inputs(
    group: InputGroup,
    x: Tensor,
    weight: Tensor | None,
    values: Mapping[str, Tensor],
    dtype: torch.dtype,
    functions: tuple[Tensor, Tensor] | None = None,
    exact_scale: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """ℓ(x) = W φ(x) of all layers of a group, as v e^s: far from their place functions would underflow.

    Args:
        group: the group, of F layers with K units.
        x: the group's columns of the data, see :func:`points`; floats in double precision, since large
            numbers that differ by little are told apart only after a location has been subtracted.
        weight: (F or 1, rows, n), or None.
        values: learnable parameters of the families, (F, …) each.
        dtype: of the result, real or complex.
        functions: φ(x) where it is known, (F, B, n) and (F, B).
        exact_scale: s in the precision of the data.

    Returns:
        v, (F, K, 2 or 1, B) planes, and s, (F, B), without gradient; None: zero.
    """
    rows = None if weight is None else weight[:, group.first_row : group.first_row + group.units]
    if isinstance(group.family, Categorical) and rows is not None:
        return lookup(rows.to(dtype), x.long()), None
    found, scale = _functions(group, x, values, dtype.to_real()) if functions is None else functions
    found = found.to(dtype)  # (F, B, n)
    if rows is not None:
        found = found @ rows.to(dtype).mT
    return complex_planes.planes(found.mT), scale if exact_scale else scale.to(dtype.to_real())


def lookup(table: Tensor, x: Tensor) -> Tensor:
    """Columns x of the tables: (F or 1, K, V), (F, B) → (F, K, 2 or 1, B)."""
    if kernel.usable(table) or cpu.serves(table):
        require_eager()
        return _Lookup.apply(table, x)  # type: ignore[no-untyped-call,no-any-return]
    parts = torch.view_as_real(table) if table.is_complex() else table.unsqueeze(3)  # (F or 1, K, V, 2 or 1)
    folds, (units, count) = len(x), (parts.shape[1], parts.shape[3])
    if len(parts) == 1:  # one table for all layers: its gradient is summed without a copy for each
        found = parts[0].index_select(1, x.flatten()).reshape(units, folds, -1, count)
        return found.permute(1, 0, 3, 2)
    index = x[:, None, :, None].expand(-1, units, -1, count)
    return parts.gather(2, index).transpose(2, 3)


class _Lookup(torch.autograd.Function):
    """Columns of tables by a kernel. Linear in the table, and :class:`_Scatter` is its adjoint."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        ctx.tables, ctx.values = len(table), table.shape[2]
        found: Tensor = kernel.gather(table, x) if table.is_cuda else cpu.gather(table, x)
        return found

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return _Scatter.apply(gradient, x, ctx.tables, ctx.values), None  # type: ignore[no-untyped-call]


class _Scatter(torch.autograd.Function):
    """Values are added to the columns of tables that they were read from."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, x: Tensor, tables: int, values: int) -> Tensor:
        ctx.save_for_backward(x)
        gradient = gradient.resolve_neg().contiguous()
        if not x.is_cuda:
            return cpu.scatter(gradient, x, tables, values)
        found: Tensor = kernel.scatter(gradient, x, values)
        return found.sum(dim=0, keepdim=True) if tables < len(x) else found

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        (x,) = ctx.saved_tensors
        table = gradient.resolve_conj().resolve_neg().contiguous()
        return _Lookup.apply(table, x), None, None, None  # type: ignore[no-untyped-call]


def _functions(
    group: InputGroup, x: Tensor, values: Mapping[str, Tensor], real: torch.dtype
) -> tuple[Tensor, Tensor]:
    if not values:
        return group.family.evaluate_scaled(x, dtype=real)

    def evaluate(x: Tensor, values: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        return group.family.evaluate_scaled(x, values, real)

    found: tuple[Tensor, Tensor] = torch.func.vmap(evaluate)(x, dict(values))
    return found


@final
class FunctionsTogether:
    """Input functions that are those of one family in other coordinates, evaluated together.

    A table of d continuous columns has d families, each placed by mean and spread of its column or behind a
    map that is fitted to it, so d groups of one layer. Their functions are those of one family at t(x), times
    √t′(x): one recurrence for all columns instead of d. Families say so, and which t, in
    :attr:`squircuit.families.Family.place` or by being :class:`squircuit.families.Transformed`.

    Args:
        groups: the input groups of a plan.
    """

    def __init__(self, groups: Sequence[InputGroup]) -> None:
        alike: dict[tuple[Family, type], list[int]] = defaultdict(list)
        self._at: dict[int, Place | Monotone] = {}  # group → t
        for number, group in enumerate(groups):
            found = _coordinate(group.family)
            if found is not None:
                standard, self._at[number] = found
                alike[standard, type(self._at[number])].append(number)
        self._alike = {key: numbers for key, numbers in alike.items() if len(numbers) > 1}
        self._maps: dict[tuple[object, ...], Places | Monotones] = {}

    def functions(self, columns: Sequence[Tensor], dtype: torch.dtype) -> dict[int, tuple[Tensor, Tensor]]:
        """Group → φ(x) as v e^s, (F, B, n) in a precision and (F, B); only of groups with company.

        Args:
            columns: of every group, (F, B), in the precision in which locations are to be subtracted.
            dtype: of v.
        """
        found: dict[int, tuple[Tensor, Tensor]] = {}
        for key, numbers in self._alike.items():
            folds = [len(columns[number]) for number in numbers]
            x = torch.cat([columns[number] for number in numbers])
            x = x if x.is_floating_point() else x.double()
            there = x.isfinite()
            t, log_slope = self._map(key, folds, x).forward(torch.where(there, x, 0.0))
            values, log_scales = key[0].evaluate_scaled(torch.where(there, t, torch.nan), dtype=dtype)
            factor, held = carried(log_slope / 2)
            values, log_scales = values * factor.to(dtype)[..., None], (log_scales + held).to(x.dtype)
            parts = torch.split(values, folds), torch.split(log_scales, folds)
            found |= dict(zip(numbers, zip(*parts, strict=True), strict=True))
        return found

    def _map(self, key: tuple[Family, type], folds: Sequence[int], like: Tensor) -> Places | Monotones:
        """The coordinates of all columns of a family, made once for the device and type of the data."""
        name = (*key, like.dtype, like.device)
        if name not in self._maps:
            numbers = zip(self._alike[key], folds, strict=True)
            each: list[Any] = [self._at[number] for number, count in numbers for _ in range(count)]
            with torch.inference_mode(mode=False):  # the tensors outlive the caller's mode
                if key[1] is Monotone:
                    self._maps[name] = Monotones(each, like.device)
                else:
                    self._maps[name] = Places(torch.tensor(each, dtype=like.dtype, device=like.device))
        return self._maps[name]


Place: TypeAlias = tuple[float, float]
"""μ and σ."""


@final
class Places:
    """t(x) = (x − μ)/σ of F columns.

    Args:
        numbers: μ and σ, (F, 2).
    """

    def __init__(self, numbers: Tensor) -> None:
        self._loc, self._scale = numbers.T[..., None]

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """t(x), (F, B), and log t′, (F, 1)."""
        return standardise(x, self._loc, self._scale, FARTHEST[x.dtype]), -self._scale.log()


def _coordinate(family: InputFunctions) -> tuple[Family, Place | Monotone] | None:
    """ψ and t with φ(x) = ψ(t(x)) √t′(x), where t is fixed and is defined on the line."""
    if not isinstance(family, Family):
        return None
    if family.place is not None:
        return family.place[0], family.place[1:]
    if isinstance(family, Transformed) and family.transform.tails is not None and not family.parameters():
        return family.base, family.transform
    return None


def input_gram(
    group: InputGroup,
    weight: Tensor | None,
    family_values: FamilyValues,
    device: torch.device,
    allow_tf32: bool,
) -> Tensor:
    """∫ ℓ ℓᴴ = W (∫ φ φᴴ) Wᴴ of the layers of a group: (F, K, K).

    Args:
        group: the group, of F layers with K units.
        weight: (F or 1, rows, n), or None.
        family_values: of the learnable parameters of the families.
        device: where it is computed.
        allow_tf32: in the backward pass.
    """
    if weight is None:
        return functions_gram(group, family_values(group), device).expand(group.folds, -1, -1)
    rows = _own_rows(group, weight)
    if group.family.is_orthonormal:
        gram: Tensor = _OwnGram.apply(rows, allow_tf32)  # type: ignore[no-untyped-call]
        return gram.expand(group.folds, -1, -1)
    functions = functions_gram(group, family_values(group), device)
    dtype = torch.promote_types(rows.dtype, functions.dtype)
    return (rows.to(dtype) @ functions.to(dtype) @ rows.to(dtype).mH).expand(group.folds, -1, -1)


def input_norms(
    group: InputGroup, weight: Tensor | None, values: Mapping[str, Tensor], device: torch.device
) -> Tensor:
    """∫ |ℓ_k|², the diagonal of :func:`input_gram`, which is not formed: (F or 1, K).

    Args:
        group: the group, with K units.
        weight: (F or 1, rows, n), or None.
        values: of the learnable parameters of the families, (F, …) each.
        device: where it is computed.
    """
    if weight is None:
        return _functions_norms(group.family, values, device)
    rows = _own_rows(group, weight)
    if group.family.is_orthonormal:
        return (rows * rows.conj()).real.sum(dim=2)
    functions = functions_gram(group, values, device)
    dtype = torch.promote_types(rows.dtype, functions.dtype)
    rows, functions = rows.to(dtype), functions.to(dtype)
    return ((rows @ functions) * rows.conj()).real.sum(dim=2)


class _OwnGram(torch.autograd.Function):
    """W Wᴴ; its gradient G comes from the sweep and is Hermitian, so ∂W = 2 G W."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, allow_tf32: bool) -> Tensor:
        ctx.save_for_backward(weight)
        ctx.tf32 = allow_tf32
        return hermitian.product(weight, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        require_first()
        (weight,) = ctx.saved_tensors
        with tf32(ctx.tf32):
            return twice(gradient, weight), None


def functions_gram(group: InputGroup, values: Mapping[str, Tensor], device: torch.device) -> Tensor:
    """∫ φ φᴴ of the families of a group, (F or 1, n, n), in double precision.

    Args:
        group: of layers.
        values: of the learnable parameters of the families, (F, …) each.
        device: where it is computed.
    """
    if not values or group.family.is_orthonormal:
        return _fixed_gram(group.family, device)
    return group.family.grams(values)


def _functions_norms(family: InputFunctions, values: Mapping[str, Tensor], device: torch.device) -> Tensor:
    """∫ |φ_k|² of a family, (F or 1, n), in double precision."""
    if family.has_unit_norms:
        return torch.ones(1, family.size, dtype=torch.float64, device=device)
    if not values:
        return _fixed_norms(family, device)
    return family.grams(values).diagonal(dim1=1, dim2=2).real


@kept(1024)
def _fixed_norms(family: InputFunctions, device: torch.device) -> Tensor:
    return family.norms().unsqueeze(0).to(device)


@kept(1024)
def _fixed_gram(family: InputFunctions, device: torch.device) -> Tensor:
    """Made once: quadrature takes a while, and a CUDA graph cannot copy from the host."""
    return family.gram().unsqueeze(0).to(device)


def _own_rows(group: InputGroup, weight: Tensor) -> Tensor:
    """The rows that the layers of a group take of matrices that others use as well: (F or 1, K, n)."""
    return weight[:, group.first_row : group.first_row + group.units]
