"""Two-pass kernels of the Gram core, complex64 on CUDA: any method in seven reads and writes of the weights.

Pass 1 reads X, g and m, writes m ← βm + γg, and sums XXᴴ, XMᴴ, MMᴴ and the squared norms of the rows
of g. Pass 2 reads X and m and writes X ← αX + βM. Between them there are only K1×K1 matrices. With complex
numbers as (re, im) pairs there are real products only, of two parts of TF32 a number, which is single
precision. Twins: ``Grams.of`` and the plain half of ``Stacks.advance`` and ``Stacks.apply``.
"""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from squircuit.execution.kernels.compiler import can_serve, tl, triton

COLUMNS = 32  # reals of a tile of pass 1
PROGRAMS = 4096  # of pass 1, enough to fill a GPU; each takes up to 64 tiles
WIDE_COLUMNS = 128  # reals of a tile of pass 2
MINIMUM_ROWS, MOST_ROWS = 8, 16


def usable(weight: Tensor) -> bool:
    """The kernels can serve this weight: contiguous complex64 on a CUDA device, at most 16 rows."""
    return weight.shape[-2] <= MOST_ROWS and can_serve(torch.complex64, weight)


@final
class Sums:
    """XXᴴ, XMᴴ, MMᴴ of N matrices of at most ``rows`` rows and ‖g‖² of their rows, as pass 1 finds them."""

    def __init__(self, count: int, rows: int, device: torch.device) -> None:
        self.rows, self.padded = rows, max(MINIMUM_ROWS, triton.next_power_of_2(rows))
        self.products = torch.empty(2, count, 2 * self.padded, 2 * self.padded, device=device)
        self.norms = torch.empty(count, self.padded, device=device)

    def grams(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(N, K1, K1) complex64 each, and ‖g‖² (N, K1, 1)."""
        count, padded, rows = len(self.norms), self.padded, self.rows
        whole = torch.complex(self.products[0], self.products[1])
        whole = whole.reshape(count, 2, padded, 2, padded)[:, :, :rows, :, :rows]
        return whole[:, 0, :, 0], whole[:, 0, :, 1], whole[:, 1, :, 1], self.norms[:, :rows, None]


def momentum_and_grams(
    weight: Tensor, gradient: Tensor, momentum: Tensor, decay: float, factor: float, sums: Sums, start: int
) -> None:
    """m ← decay·m + factor·g in place; the Grams go to the matrices of ``sums`` from ``start`` on."""
    count, rows, columns = weight.shape
    x, g, m = (torch.view_as_real(t) for t in (weight, gradient.contiguous(), momentum))
    tiles = triton.cdiv(2 * columns, COLUMNS)
    chunk = max(4, min(64, triton.next_power_of_2(triton.cdiv(count * tiles, PROGRAMS))))
    grid = (count, triton.cdiv(tiles, chunk))
    width = 2 * sums.padded
    products = x.new_empty(grid[1], 2, count, width, width)
    norms = x.new_empty(grid[1], count, sums.padded)
    _first[grid](
        x, g, m, products, norms, rows, 2 * columns, decay, factor,
        ROWS=sums.padded, COLUMNS=COLUMNS, CHUNK=chunk, num_warps=sums.padded // 8,
    )  # fmt: skip
    # not by atomic additions: their order, and so the rounding, would differ from run to run
    torch.sum(products, dim=0, out=sums.products[:, start : start + count])
    torch.sum(norms, dim=0, out=sums.norms[start : start + count])


def factors(alpha: Tensor, beta: Tensor) -> Tensor:
    """The real and imaginary parts of α and β in single precision: (N, 4, K1, K1)."""
    return torch.stack([alpha.real, alpha.imag, beta.real, beta.imag], dim=1).float()


def combine(weight: Tensor, momentum: Tensor, factors: Tensor, start: int) -> None:
    """X ← αX + βM in place, with the factors from ``start`` on."""
    count, rows, columns = weight.shape
    grid = (count, triton.cdiv(2 * columns, WIDE_COLUMNS))
    x, m = torch.view_as_real(weight), torch.view_as_real(momentum)
    if rows > MINIMUM_ROWS:
        _second[grid](
            x, m, factors[start:], rows, factors.shape[-1], 2 * columns,
            ROWS=MOST_ROWS, COLUMNS=WIDE_COLUMNS, num_warps=2,
        )  # fmt: skip
        return
    _second_of_few[(count, triton.cdiv(columns, WIDE_COLUMNS))](
        x, m, factors[start:], rows, factors.shape[-1], 2 * columns,
        ROWS=triton.next_power_of_2(rows), COLUMNS=2 * WIDE_COLUMNS, num_warps=1,
    )  # fmt: skip


if triton is not None:

    @triton.jit
    def _first(
        x,
        g,
        m,
        products,
        norms,
        rows,
        columns,
        decay,
        factor,
        ROWS: tl.constexpr,
        COLUMNS: tl.constexpr,
        CHUNK: tl.constexpr,
    ):
        # Z Zᴴ of Z = [X; M] holds all Grams. With Z = A + iB: Re = AAᵀ + BBᵀ, Im = BAᵀ − (BAᵀ)ᵀ. Each number
        # is two parts of TF32, h + l. By symmetry Re = P + Pᵀ with P = (h/2 + l)hᵀ; l·l is below rounding.
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
            new_m = decay * tl.load(m + place, inside & of_m, 0.0) + factor * new_g
            z = new_m + tl.load(x + place, inside & (r < ROWS)[:, None], 0.0)
            tl.store(m + place, z, inside & of_m)
            square += tl.sum(new_g * new_g, axis=1)
            high = ((z.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)
            high_re, high_im = tl.split(tl.reshape(high, (2 * ROWS, COLUMNS // 2, 2)))
            low_re, low_im = tl.split(tl.reshape(z - high, (2 * ROWS, COLUMNS // 2, 2)))
            re_t, im_t, low_re_t = tl.trans(high_re), tl.trans(high_im), tl.trans(low_re)
            # each tile is summed from zero: tensor cores cut off rather than round, which would add up
            part = tl.dot(low_re, re_t, input_precision="tf32")
            part = tl.dot(low_im, im_t, part, input_precision="tf32")
            part = tl.dot(0.5 * high_re, re_t, part, input_precision="tf32")
            part = tl.dot(0.5 * high_im, im_t, part, input_precision="tf32")
            real += part
            part = tl.dot(low_im, re_t, input_precision="tf32")
            part = tl.dot(high_im, low_re_t, part, input_precision="tf32")
            part = tl.dot(high_im, re_t, part, input_precision="tf32")
            imaginary += part
        width = 2 * ROWS
        count, piece = tl.num_programs(0), tl.program_id(1).to(tl.int64)
        target = products + (piece * 2 * count + s) * width * width + r[:, None] * width + r[None, :]
        tl.store(target, real + tl.trans(real))
        tl.store(target + count.to(tl.int64) * width * width, imaginary - tl.trans(imaginary))
        tl.store(norms + (piece * count + s) * ROWS + k, square, r >= ROWS)

    # The factors are K1×K1 and stay in registers while a program walks over its columns of X and M: with
    # A = a_r + i a_i, Re AX = a_r x_r − a_i x_i and Im AX = a_r x_i + a_i x_r, summed over both products.
    @triton.jit
    def _second(x, m, factors, rows, stride, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
        s = tl.program_id(0).to(tl.int64)
        k = tl.arange(0, ROWS)
        column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
        inside = (k[:, None] < rows) & (column[None, :] < columns)
        place = s * rows * columns + k[:, None] * columns + column[None, :]
        small = (k[:, None] < rows) & (k[None, :] < rows)
        step = stride * stride
        factor = factors + s * 4 * step + k[:, None] * stride + k[None, :]
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

    @triton.jit
    def _second_of_few(x, m, factors, rows, stride, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
        # one row of X and of M after the other, in plain single precision: all are read before any is written
        s = tl.program_id(0).to(tl.int64)
        k = tl.arange(0, ROWS)
        column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
        step = stride * stride
        real = tl.zeros((ROWS, COLUMNS // 2), dtype=tl.float32)
        imaginary = tl.zeros((ROWS, COLUMNS // 2), dtype=tl.float32)
        for j in range(rows):
            place = (s * rows + j) * columns + column
            x_r, x_i = tl.split(tl.reshape(tl.load(x + place, column < columns, 0.0), (COLUMNS // 2, 2)))
            m_r, m_i = tl.split(tl.reshape(tl.load(m + place, column < columns, 0.0), (COLUMNS // 2, 2)))
            factor = factors + s * 4 * step + k * stride + j
            a_r = tl.load(factor, k < rows, 0.0)[:, None]
            a_i = tl.load(factor + step, k < rows, 0.0)[:, None]
            b_r = tl.load(factor + 2 * step, k < rows, 0.0)[:, None]
            b_i = tl.load(factor + 3 * step, k < rows, 0.0)[:, None]
            real += a_r * x_r[None, :] - a_i * x_i[None, :] + b_r * m_r[None, :] - b_i * m_i[None, :]
            imaginary += a_r * x_i[None, :] + a_i * x_r[None, :] + b_r * m_i[None, :] + b_i * m_r[None, :]
        inside = (k[:, None] < rows) & (column[None, :] < columns)
        place = (s * rows + k[:, None]) * columns + column[None, :]
        tl.debug_barrier()
        tl.store(x + place, tl.reshape(tl.join(real, imaginary), (ROWS, COLUMNS)), inside)
