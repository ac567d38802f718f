"""Two-pass kernels of the Gram core, complex64 on CUDA: any method in seven reads and writes of the weights.

Pass 1 reads X, g and m, writes m ← β₁m + (1−β₁)g, and sums XXᴴ, XMᴴ, MMᴴ and the squared norms of the rows
of g. Pass 2 reads X and m and writes X ← αX + βM. Between them there are only K1×K1 matrices. With complex
numbers as (re, im) pairs, Re XYᴴ = X·Yᵀ over the pairs and Im XYᴴ = X'·Yᵀ, X' the pairs turned by −i: real
products only, in three TF32 parts (tf32x3), which is single precision. Twins: ``Grams.of``, ``base.apply``.
"""

from __future__ import annotations

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:  # pragma: no cover - depends on the machine
    triton = None

COLUMNS = 64  # reals of a tile
CHUNK = 32  # tiles a program
MOST_ROWS = 16


def usable(weight: Tensor) -> bool:
    """The kernels can serve this weight: contiguous complex64 on a CUDA device, at most 16 rows."""
    return (
        triton is not None
        and weight.is_cuda
        and weight.dtype == torch.complex64
        and weight.is_contiguous()
        and weight.shape[-2] <= MOST_ROWS
    )


def momentum_and_grams(
    weight: Tensor, gradient: Tensor, momentum: Tensor, beta: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """m ← βm + (1−β)g in place; returns XXᴴ, XMᴴ, MMᴴ (S, K1, K1) complex64 and ‖g‖² of the rows (S, K1)."""
    count, rows, columns = weight.shape
    padded = max(8, triton.next_power_of_2(rows))
    sums = torch.zeros(2, count, 2 * padded, 2 * padded, device=weight.device)
    norms = torch.zeros(count, padded, device=weight.device)
    x, g, m = (torch.view_as_real(t) for t in (weight, gradient.contiguous(), momentum))
    grid = (count, triton.cdiv(2 * columns, COLUMNS * CHUNK))
    _first[grid](x, g, m, sums, norms, rows, 2 * columns, beta, ROWS=padded, COLUMNS=COLUMNS, CHUNK=CHUNK)
    whole = torch.complex(sums[0], sums[1]).reshape(count, 2, padded, 2, padded)[:, :, :rows, :, :rows]
    return whole[:, 0, :, 0], whole[:, 0, :, 1], whole[:, 1, :, 1], norms[:, :rows]


def combine(weight: Tensor, momentum: Tensor, alpha: Tensor, beta: Tensor) -> None:
    """X ← αX + βM in place."""
    count, rows, columns = weight.shape
    factors = torch.stack([alpha.real, alpha.imag, beta.real, beta.imag], dim=1).float().contiguous()
    padded = max(16, triton.next_power_of_2(rows))
    grid = (count, triton.cdiv(2 * columns, 2 * COLUMNS))
    x, m = torch.view_as_real(weight), torch.view_as_real(momentum)
    _second[grid](x, m, factors, rows, 2 * columns, ROWS=padded, COLUMNS=2 * COLUMNS)


if triton is not None:

    @triton.jit
    def _first(
        x,
        g,
        m,
        sums,
        norms,
        rows,
        columns,
        beta,
        ROWS: tl.constexpr,
        COLUMNS: tl.constexpr,
        CHUNK: tl.constexpr,
    ):
        # Z Zᴴ of Z = [X; M] holds all Grams: Re from Z Zᵀ over the pairs, Im from Z' Zᵀ
        s = tl.program_id(0).to(tl.int64)
        r = tl.arange(0, 2 * ROWS)
        k = r % ROWS
        of_m = (r >= ROWS)[:, None]
        real = tl.zeros((2 * ROWS, 2 * ROWS), dtype=tl.float32)
        imaginary = tl.zeros((2 * ROWS, 2 * ROWS), dtype=tl.float32)
        square = tl.zeros((2 * ROWS,), dtype=tl.float32)
        for tile in range(CHUNK):
            column = (tl.program_id(1) * CHUNK + tile) * COLUMNS + tl.arange(0, COLUMNS)
            inside = (k[:, None] < rows) & (column[None, :] < columns)
            place = s * rows * columns + k[:, None] * columns + column[None, :]
            new_g = tl.load(g + place, inside & of_m, 0.0)
            new_m = beta * tl.load(m + place, inside & of_m, 0.0) + (1 - beta) * new_g
            z = new_m + tl.load(x + place, inside & (r < ROWS)[:, None], 0.0)
            tl.store(m + place, z, inside & of_m)
            square += tl.sum(new_g * new_g, axis=1)
            re, im = tl.split(tl.reshape(z, (2 * ROWS, COLUMNS // 2, 2)))
            turned = tl.reshape(tl.join(im, -re), (2 * ROWS, COLUMNS))
            z_t = tl.trans(z)
            real = tl.dot(z, z_t, real, input_precision="tf32x3")
            imaginary = tl.dot(turned, z_t, imaginary, input_precision="tf32x3")
        width = 2 * ROWS
        target = sums + s * width * width + r[:, None] * width + r[None, :]
        tl.atomic_add(target, real)
        tl.atomic_add(target + tl.num_programs(0).to(tl.int64) * width * width, imaginary)
        tl.atomic_add(norms + s * ROWS + k, square, r >= ROWS)

    @triton.jit
    def _second(x, m, factors, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
        s = tl.program_id(0).to(tl.int64)
        k = tl.arange(0, ROWS)
        column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
        inside = (k[:, None] < rows) & (column[None, :] < columns)
        place = s * rows * columns + k[:, None] * columns + column[None, :]
        small = (k[:, None] < rows) & (k[None, :] < rows)
        factor = factors + s * 4 * rows * rows + k[:, None] * rows + k[None, :]
        step = rows * rows
        a_r, a_i = tl.load(factor, small, 0.0), tl.load(factor + step, small, 0.0)
        b_r, b_i = tl.load(factor + 2 * step, small, 0.0), tl.load(factor + 3 * step, small, 0.0)
        x_r, x_i = tl.split(tl.reshape(tl.load(x + place, inside, 0.0), (ROWS, COLUMNS // 2, 2)))
        m_r, m_i = tl.split(tl.reshape(tl.load(m + place, inside, 0.0), (ROWS, COLUMNS // 2, 2)))
        real = tl.dot(a_r, x_r, input_precision="tf32x3")
        real = tl.dot(-a_i, x_i, real, input_precision="tf32x3")
        real = tl.dot(b_r, m_r, real, input_precision="tf32x3")
        real = tl.dot(-b_i, m_i, real, input_precision="tf32x3")
        imaginary = tl.dot(a_r, x_i, input_precision="tf32x3")
        imaginary = tl.dot(a_i, x_r, imaginary, input_precision="tf32x3")
        imaginary = tl.dot(b_r, m_i, imaginary, input_precision="tf32x3")
        imaginary = tl.dot(b_i, m_r, imaginary, input_precision="tf32x3")
        tl.store(x + place, tl.reshape(tl.join(real, imaginary), (ROWS, COLUMNS)), inside)
