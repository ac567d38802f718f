"""The outputs of input layers, group by group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from squircuit.execution import planar
from squircuit.execution.derivatives import require_first
from squircuit.execution.kernels import lookup as kernel
from squircuit.execution.plan import InputGroup
from squircuit.families import Categorical


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
        x: the group's columns of the data, (F, B); floats in double precision, since large numbers that
            differ by little are told apart only after a location has been subtracted.
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
    return planar.planes(found.mT), scale if exact_scale else scale.to(dtype.to_real())


def lookup(table: Tensor, x: Tensor) -> Tensor:
    """Columns x of the tables: (F or 1, K, V), (F, B) → (F, K, 2 or 1, B)."""
    if kernel.usable(table):
        return _Lookup.apply(table, x)  # type: ignore[no-untyped-call,no-any-return]
    parts = torch.view_as_real(table) if table.is_complex() else table.unsqueeze(3)  # (F or 1, K, V, 2 or 1)
    folds, (units, count) = len(x), (parts.shape[1], parts.shape[3])
    if len(parts) == 1:  # one table for all layers: its gradient is summed without a copy for each
        found = parts[0].index_select(1, x.flatten()).reshape(units, folds, -1, count)
        return found.permute(1, 0, 3, 2)
    index = x[:, None, :, None].expand(-1, units, -1, count)
    return parts.gather(2, index).transpose(2, 3)


class _Lookup(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        ctx.tables, ctx.values = len(table), table.shape[2]
        return kernel.gather(table, x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        require_first()
        (x,) = ctx.saved_tensors
        found = kernel.scatter(gradient.contiguous(), x, ctx.values)
        return found.sum(dim=0, keepdim=True) if ctx.tables < len(x) else found, None


def _functions(
    group: InputGroup, x: Tensor, values: Mapping[str, Tensor], real: torch.dtype
) -> tuple[Tensor, Tensor]:
    if not values:
        return group.family.evaluate_scaled(x, dtype=real)

    def evaluate(x: Tensor, values: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        return group.family.evaluate_scaled(x, values, real)

    found: tuple[Tensor, Tensor] = torch.func.vmap(evaluate)(x, dict(values))
    return found
