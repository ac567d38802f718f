"""Kernels of the lookup of columns in tables, ℓ(x) = W[:, x], and of its gradient.

Twin: the plain half of ``inputs.lookup``. Contract: the same result up to the order of summation, for
complex64 tables on a CUDA device. The gradient is a product with one-hot matrices made on the fly, so every
entry is written once, without atomic additions: it does not depend on the order of threads.
"""

from __future__ import annotations

import torch
from torch import Tensor

from squircuit.execution.kernels.compiler import can_serve, tl, triton


def usable(table: Tensor) -> bool:
    """The kernels can serve this table, (F, K, V): contiguous complex64 on a CUDA device."""
    return can_serve(torch.complex64, table)


def gather(table: Tensor, x: Tensor) -> Tensor:
    """(F or 1, K, V) tables, (F, B) columns → planes (F, K, 2, B)."""
    (folds, batch), (tables, units, values) = x.shape, table.shape
    out = torch.empty(folds, units, 2, batch, device=table.device)
    block = min(256, triton.next_power_of_2(batch))
    rows = min(8, triton.next_power_of_2(units))
    grid = (folds * triton.cdiv(units, rows), triton.cdiv(batch, block))
    _gather[grid](
        torch.view_as_real(table), x.contiguous(), out, units, values, batch,
        TIED=tables == 1 and folds > 1, ROWS=rows, BATCH=block,
    )  # fmt: skip
    return out


def scatter(gradient: Tensor, x: Tensor, values: int) -> Tensor:
    """Σ_b g_b [x_b = v]: planes (F, K, 2, B), (F, B) → (F, K, V) complex64."""
    folds, units, _, batch = gradient.shape
    out = torch.empty(folds, units, values, 2, device=gradient.device)
    rows = max(16, min(64, triton.next_power_of_2(2 * units)))  # 16 is the least that matrix units take
    width = max(16, min(256, triton.next_power_of_2(values)))
    grid = (folds * triton.cdiv(2 * units, rows), triton.cdiv(values, width))
    _scatter[grid](gradient, x.contiguous(), out, units, values, batch, ROWS=rows, VALUES=width, BATCH=32)
    return torch.view_as_complex(out)


if triton is not None:

    @triton.jit
    def _gather(
        table,
        x,
        out,
        units,
        values,
        batch,
        TIED: tl.constexpr,
        ROWS: tl.constexpr,
        BATCH: tl.constexpr,
    ):
        tiles = tl.cdiv(units, ROWS)
        fold = (tl.program_id(0) // tiles).to(tl.int64)
        row = ((tl.program_id(0) % tiles) * ROWS + tl.arange(0, ROWS))[:, None]
        b = tl.program_id(1) * BATCH + tl.arange(0, BATCH)
        column = tl.load(x + fold * batch + b, b < batch, 0)[None, :]
        inside = (row < units) & (b < batch)[None, :]
        known = inside & (column >= 0) & (column < values)  # other values have probability 0
        first = 0 if TIED else fold * units
        at = table + ((first + row) * values + column) * 2
        target = out + (fold * units + row) * 2 * batch + b[None, :]
        tl.store(target, tl.load(at, known, 0.0), inside)
        tl.store(target + batch, tl.load(at + 1, known, 0.0), inside)

    @triton.jit
    def _add_hot(g, hot, total):
        # g in three parts of eight bits each is all of single precision, and zeros and ones are exact
        high = g.to(tl.bfloat16)
        rest = g - high.to(tl.float32)
        middle = rest.to(tl.bfloat16)
        low = (rest - middle.to(tl.float32)).to(tl.bfloat16)
        total = tl.dot(low, hot, total)
        total = tl.dot(middle, hot, total)
        return tl.dot(high, hot, total)

    @triton.jit
    def _scatter(
        gradient,
        x,
        out,
        units,
        values,
        batch,
        ROWS: tl.constexpr,
        VALUES: tl.constexpr,
        BATCH: tl.constexpr,
    ):
        # rows are the real and the imaginary parts of all units in turn: one product for both
        tiles = tl.cdiv(2 * units, ROWS)
        fold = (tl.program_id(0) // tiles).to(tl.int64)
        first_row, first_value = (tl.program_id(0) % tiles) * ROWS, tl.program_id(1) * VALUES
        row = (first_row + tl.arange(0, ROWS))[:, None]
        value = (first_value + tl.arange(0, VALUES))[None, :]
        total = tl.zeros((ROWS, VALUES), dtype=tl.float32)
        for start in range(0, batch, BATCH):
            b = start + tl.arange(0, BATCH)
            column = tl.load(x + fold * batch + b, b < batch, -1)
            hot = (column[:, None] == value).to(tl.bfloat16)
            inside = (row < 2 * units) & (b < batch)[None, :]
            at = gradient + (fold * 2 * units + row) * batch + b[None, :]
            total = _add_hot(tl.load(at, inside, 0.0), hot, total)
        pairs = tl.permute(tl.reshape(total, (ROWS // 2, 2, VALUES)), (0, 2, 1))  # as complex numbers lie
        unit = (first_row // 2 + tl.arange(0, ROWS // 2))[:, None]
        number = (2 * first_value + tl.arange(0, 2 * VALUES))[None, :]
        target = out + (fold * units + unit) * 2 * values + number
        inside = (unit < units) & (number < 2 * values)
        tl.store(target, tl.reshape(pairs, (ROWS // 2, 2 * VALUES)), inside)
