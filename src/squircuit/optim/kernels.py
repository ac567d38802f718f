"""Two-pass kernels of the Gram core, complex64 on CUDA: any method in seven reads and writes of the weights.

Pass 1 reads X, g and m, writes m ← β₁m + (1−β₁)g, and sums XXᴴ, XMᴴ, MMᴴ and the squared norms of the rows
of g. Pass 2 reads X and m and writes X ← αX + βM. Between them there are only K1×K1 matrices. With complex
numbers as (re, im) pairs, Re XYᴴ = X·Yᵀ over the pairs and Im XYᴴ = X'·Yᵀ, X' the pairs turned by −i: real
products only, in three TF32 parts (``tf32x3``), which is single precision. Twins: ``Grams.of``, ``base.apply``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:  # pragma: no cover - depends on the machine
    triton = None

COLUMNS = 128  # pairs of a tile, in reals
CHUNK = 16  # tiles a program


def usable(weight: Tensor) -> bool:
    """The kernels can serve this weight: contiguous complex64 on a CUDA device, at most 64 rows."""
    return (
        triton is not None
        and weight.is_cuda
        and weight.dtype == torch.complex64
        and weight.is_contiguous()
        and weight.shape[-2] <= 64
    )


def momentum_and_grams(
    weight: Tensor, gradient: Tensor, momentum: Tensor, beta: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """m ← βm + (1−β)g in place; returns XXᴴ, XMᴴ, MMᴴ (S, K1, K1) complex64 and ‖g‖² of the rows (S, K1)."""
    count, rows, columns = weight.shape
    sums = torch.zeros(count, 6, rows, rows, device=weight.device)
    norms = torch.zeros(count, rows, device=weight.device)
    x, g, m = (torch.view_as_real(t) for t in (weight, gradient.contiguous(), momentum))
    padded = max(16, triton.next_power_of_2(rows))
    grid = (count, triton.cdiv(2 * columns, COLUMNS * CHUNK))
    _first[grid](
        x, g, m, sums, norms, rows, 2 * columns, beta, ROWS=padded, COLUMNS=COLUMNS, CHUNK=CHUNK, num_warps=4
    )
    xx, xm, mm = (torch.complex(sums[:, 2 * i], sums[:, 2 * i + 1]) for i in range(3))
    return xx, xm, mm, norms


def combine(weight: Tensor, momentum: Tensor, alpha: Tensor, beta: Tensor) -> None:
    """X ← αX + βM in place."""
    count, rows, columns = weight.shape
    factors = torch.stack([alpha.real, alpha.imag, beta.real, beta.imag], dim=1).float().contiguous()
    padded = max(16, triton.next_power_of_2(rows))
    grid = (count, triton.cdiv(2 * columns, COLUMNS))
    x, m = torch.view_as_real(weight), torch.view_as_real(momentum)
    _second[grid](x, m, factors, rows, 2 * columns, ROWS=padded, COLUMNS=COLUMNS, num_warps=4)


if triton is not None:

    @triton.jit
    def _turned(base: Any, place: Any, column: Any, inside: Any) -> Any:
        """The pairs (re, im) as (im, −re): multiplied by −i."""
        sign = tl.where(column % 2 == 0, 1.0, -1.0)
        return tl.load(base + (place + tl.where(column % 2 == 0, 1, -1)), inside, 0.0) * sign

    @triton.jit
    def _first(
        x: Any,
        g: Any,
        m: Any,
        sums: Any,
        norms: Any,
        rows: Any,
        columns: Any,
        beta: Any,
        ROWS: tl.constexpr,
        COLUMNS: tl.constexpr,
        CHUNK: tl.constexpr,
    ) -> None:
        s = tl.program_id(0).to(tl.int64)
        k = tl.arange(0, ROWS)
        xx_r = tl.zeros((ROWS, ROWS), dtype=tl.float32)
        xx_i = tl.zeros((ROWS, ROWS), dtype=tl.float32)
        xm_r = tl.zeros((ROWS, ROWS), dtype=tl.float32)
        xm_i = tl.zeros((ROWS, ROWS), dtype=tl.float32)
        mm_r = tl.zeros((ROWS, ROWS), dtype=tl.float32)
        mm_i = tl.zeros((ROWS, ROWS), dtype=tl.float32)
        square = tl.zeros((ROWS,), dtype=tl.float32)
        for tile in range(CHUNK):
            column = (tl.program_id(1) * CHUNK + tile) * COLUMNS + tl.arange(0, COLUMNS)
            inside = (k[:, None] < rows) & (column[None, :] < columns)
            place = s * rows * columns + k[:, None] * columns + column[None, :]
            col = tl.broadcast_to(column[None, :], (ROWS, COLUMNS))
            new_g = tl.load(g + place, inside, 0.0)
            turned_g = _turned(g, place, col, inside)
            new_m = beta * tl.load(m + place, inside, 0.0) + (1 - beta) * new_g
            turned_m = beta * _turned(m, place, col, inside) + (1 - beta) * turned_g
            weight = tl.load(x + place, inside, 0.0)
            turned_x = _turned(x, place, col, inside)
            tl.debug_barrier()  # every read of m is done before it is written
            tl.store(m + place, new_m, inside)
            square += tl.sum(new_g * new_g, axis=1)
            m_t = tl.trans(new_m)
            x_t = tl.trans(weight)
            xx_r = tl.dot(weight, x_t, xx_r, input_precision="tf32x3")
            xx_i = tl.dot(turned_x, x_t, xx_i, input_precision="tf32x3")
            xm_r = tl.dot(weight, m_t, xm_r, input_precision="tf32x3")
            xm_i = tl.dot(turned_x, m_t, xm_i, input_precision="tf32x3")
            mm_r = tl.dot(new_m, m_t, mm_r, input_precision="tf32x3")
            mm_i = tl.dot(turned_m, m_t, mm_i, input_precision="tf32x3")
        small = (k[:, None] < rows) & (k[None, :] < rows)
        target = sums + s * 6 * rows * rows + k[:, None] * rows + k[None, :]
        step = rows * rows
        tl.atomic_add(target, xx_r, small)
        tl.atomic_add(target + step, xx_i, small)
        tl.atomic_add(target + 2 * step, xm_r, small)
        tl.atomic_add(target + 3 * step, xm_i, small)
        tl.atomic_add(target + 4 * step, mm_r, small)
        tl.atomic_add(target + 5 * step, mm_i, small)
        tl.atomic_add(norms + s * rows + k, square, k < rows)

    @triton.jit
    def _second(
        x: Any, m: Any, factors: Any, rows: Any, columns: Any, ROWS: tl.constexpr, COLUMNS: tl.constexpr
    ) -> None:
        s = tl.program_id(0).to(tl.int64)
        k = tl.arange(0, ROWS)
        column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
        inside = (k[:, None] < rows) & (column[None, :] < columns)
        place = s * rows * columns + k[:, None] * columns + column[None, :]
        col = tl.broadcast_to(column[None, :], (ROWS, COLUMNS))
        small = (k[:, None] < rows) & (k[None, :] < rows)
        factor = factors + s * 4 * rows * rows + k[:, None] * rows + k[None, :]
        step = rows * rows
        weight, momentum = tl.load(x + place, inside, 0.0), tl.load(m + place, inside, 0.0)
        turned_x, turned_m = _turned(x, place, col, inside), _turned(m, place, col, inside)
        out = tl.dot(tl.load(factor, small, 0.0), weight, input_precision="tf32x3")
        out = tl.dot(tl.load(factor + step, small, 0.0), -turned_x, out, input_precision="tf32x3")
        out = tl.dot(tl.load(factor + 2 * step, small, 0.0), momentum, out, input_precision="tf32x3")
        out = tl.dot(tl.load(factor + 3 * step, small, 0.0), -turned_m, out, input_precision="tf32x3")
        tl.debug_barrier()
        tl.store(x + place, out, inside)
