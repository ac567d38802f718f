"""Kernels of Polar's small matrices.

``polar_factors`` is what lies between the two passes of the Gram core: all K1×K1 matrices of one weight in
one program. Twin: the plain half of ``polar.polar_factors``. Contract: the same up to rounding in double
precision, for at most 16 rows.

``tangent_factor`` is A = ¼(s_i + s_j) C + ¼(3s_i − s_j) Cᴴ in one pass over C, for nearly square weights.
Twin: the plain half of ``polar.tangent_factor``. A program takes a tile below the diagonal and its mirror
image, so that every entry is read once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from squircuit.execution.kernels import hermitian
from squircuit.execution.kernels.compiler import can_serve, tl, triton

MOST_ROWS = 16
TILE = 32


def usable(xx: Tensor) -> bool:
    """The kernel can serve these Grams: complex128 on a CUDA device, at most 16 rows."""
    return (
        triton is not None and xx.is_cuda and xx.dtype == torch.complex128 and 1 < xx.shape[-1] <= MOST_ROWS
    )


def polar_factors(
    xx: Tensor, xm: Tensor, mm: Tensor, scale: Tensor, rate: float | Tensor, trust: float, steps: int
) -> tuple[Tensor, Tensor]:
    """α and β of X⁺ = αX + βM, (N, K1, K1), from S, C, T and the factors of the rows, (N, K1 or 1, 1)."""
    count, rows, _ = xx.shape
    alpha, beta = torch.empty(2, count, rows, rows, dtype=xx.dtype, device=xx.device)
    given = [torch.view_as_real(t.contiguous()) for t in (xx, xm, mm)]
    limit = rate.double() if isinstance(rate, Tensor) else xx.new_full((), rate).real.clone()
    _polar[(count,)](
        *given, scale.contiguous(), limit, torch.view_as_real(alpha), torch.view_as_real(beta), rows, trust,
        ROWS=triton.next_power_of_2(rows), BY_ROW=scale.shape[1] > 1, STEPS=steps, num_warps=4,
    )  # fmt: skip
    return alpha, beta


def tangent_usable(cross: Tensor) -> bool:
    """The kernel can serve this matrix: contiguous complex64 on a CUDA device."""
    return can_serve(torch.complex64, cross)


def tangent_factor(cross: Tensor, scale: Tensor) -> Tensor:
    """A from C (S, K1, K1) and the real factors of its rows, (S, K1, 1)."""
    count, rows, _ = cross.shape
    out = torch.empty_like(cross)
    tiles = triton.cdiv(rows, TILE)
    _factor[(tiles * (tiles + 1) // 2, count)](
        torch.view_as_real(cross), scale.float().contiguous(), torch.view_as_real(out), rows, TILE=TILE
    )
    return out


if triton is not None:
    lower_tile = hermitian.lower_tile  # a kernel finds another one as a name of its own module

    @triton.jit
    def _load(matrix, place, inside):
        return tl.load(matrix + place, inside, 0.0), tl.load(matrix + place + 1, inside, 0.0)

    @triton.jit
    def _adjoint(re, im):
        return tl.trans(re), -tl.trans(im)

    @triton.jit
    def _times(a_re, a_im, b_re, b_im):
        # by sums over a cube of at most 16³: tensor cores have no double precision that Triton would use
        a_re, a_im = a_re[:, :, None], a_im[:, :, None]
        b_re, b_im = b_re[None, :, :], b_im[None, :, :]
        return tl.sum(a_re * b_re - a_im * b_im, axis=1), tl.sum(a_re * b_im + a_im * b_re, axis=1)

    @triton.jit
    def _polar(
        xx,
        xm,
        mm,
        scale,
        limit,
        alpha,
        beta,
        rows,
        trust,
        ROWS: tl.constexpr,
        BY_ROW: tl.constexpr,
        STEPS: tl.constexpr,
    ):
        n = tl.program_id(0).to(tl.int64)
        i, j = tl.arange(0, ROWS)[:, None], tl.arange(0, ROWS)[None, :]
        inside = (i < rows) & (j < rows)
        place = ((n * rows + i) * rows + j) * 2
        eye = tl.where(i == j, 1.0, 0.0).to(tl.float64)
        s_re, s_im = _load(xx, place, inside)
        s_re += tl.where((i == j) & (i >= rows), 1.0, 0.0)  # padding is on the manifold, too
        c_re, c_im = _load(xm, place, inside)
        t_re, t_im = _load(mm, place, inside)
        h_re, h_im = _adjoint(c_re, c_im)
        if BY_ROW:
            left = tl.load(scale + n * rows + i, i < rows, 0.0)
            right = tl.load(scale + n * rows + j, j < rows, 0.0)
        else:
            left, right = tl.load(scale + n + 0 * i), tl.load(scale + n + 0 * j)
        # D = aX + bM, the scaled tangent part of M: b = s and a = −½s(C + Cᴴ), less the Hermitian part of
        # DXᴴ where factors differ from row to row, as in Grams.scaled
        a_re, a_im = -0.5 * left * (c_re + h_re), -0.5 * left * (c_im + h_im)
        if BY_ROW:
            d_re, d_im = _times(a_re, a_im, s_re, s_im)
            d_re, d_im = d_re + left * h_re, d_im + left * h_im
            e_re, e_im = _adjoint(d_re, d_im)
            a_re, a_im = a_re - 0.5 * (d_re + e_re), a_im - 0.5 * (d_im + e_im)
        # Gram(X − ηD) = S − η(DXᴴ + XDᴴ) + η² DDᴴ
        d_re, d_im = _times(a_re, a_im, s_re, s_im)
        d_re, d_im = d_re + left * h_re, d_im + left * h_im
        e_re, e_im = _adjoint(d_re, d_im)
        p_re, p_im = _adjoint(a_re, a_im)
        p_re, p_im = _times(d_re, d_im, p_re, p_im)
        q_re, q_im = _times(a_re, a_im, c_re, c_im)
        p_re += (q_re + left * t_re) * right
        p_im += (q_im + left * t_im) * right
        norm = tl.sqrt(tl.maximum(tl.sum(tl.sum(eye * p_re, axis=1), axis=0), 0.0))
        rate = tl.minimum(trust / (norm + 1e-30), tl.load(limit))
        s_re += rate * rate * p_re - rate * (d_re + e_re)
        s_im += rate * rate * p_im - rate * (d_im + e_im)
        # its inverse square root by Newton–Schulz
        h_re, h_im = 1.5 * eye - 0.5 * s_re, -0.5 * s_im
        r_re, r_im = h_re, h_im
        for _ in tl.static_range(STEPS - 1):
            s_re, s_im = _times(s_re, s_im, h_re, h_im)
            s_re, s_im = _times(h_re, h_im, s_re, s_im)
            h_re, h_im = 1.5 * eye - 0.5 * s_re, -0.5 * s_im
            r_re, r_im = _times(h_re, h_im, r_re, r_im)
        p_re, p_im = _times(r_re, r_im, a_re, a_im)
        tl.store(alpha + place, r_re - rate * p_re, inside)
        tl.store(alpha + place + 1, r_im - rate * p_im, inside)
        tl.store(beta + place, -rate * r_re * right, inside)
        tl.store(beta + place + 1, -rate * r_im * right, inside)

    @triton.jit
    def _place(row, column, rows, TILE: tl.constexpr):
        # of the numbers of a tile, real and imaginary parts in turn
        number = 2 * column * TILE + tl.arange(0, 2 * TILE)
        line = row * TILE + tl.arange(0, TILE)
        inside = (line < rows)[:, None] & (number < 2 * rows)[None, :]
        return line[:, None] * 2 * rows + number[None, :], inside

    @triton.jit
    def _combined(re, im, other_re, other_im, own, other, TILE: tl.constexpr):
        # own and other: factors of the rows and of the columns
        p, q = 0.25 * (own[:, None] + other[None, :]), 0.25 * (3 * own[:, None] - other[None, :])
        real = p * re + q * tl.trans(other_re)
        imaginary = p * im - q * tl.trans(other_im)
        return tl.reshape(tl.join(real, imaginary), (TILE, 2 * TILE))

    @triton.jit
    def _factor(cross, scale, out, rows, TILE: tl.constexpr):
        down, across = lower_tile(tl.program_id(0))
        s = tl.program_id(1).to(tl.int64)
        i, j = down * TILE + tl.arange(0, TILE), across * TILE + tl.arange(0, TILE)
        at_i = tl.load(scale + s * rows + i, i < rows, 0.0)
        at_j = tl.load(scale + s * rows + j, j < rows, 0.0)
        first = s * rows * rows * 2
        lower, inside = _place(down, across, rows, TILE)
        upper, inside_upper = _place(across, down, rows, TILE)
        low = tl.load(cross + first + lower, inside, 0.0)
        high = tl.load(cross + first + upper, inside_upper, 0.0)
        low_re, low_im = tl.split(tl.reshape(low, (TILE, TILE, 2)))
        high_re, high_im = tl.split(tl.reshape(high, (TILE, TILE, 2)))
        found = _combined(low_re, low_im, high_re, high_im, at_i, at_j, TILE)
        tl.store(out + first + lower, found, inside)
        if across < down:
            found = _combined(high_re, high_im, low_re, low_im, at_j, at_i, TILE)
            tl.store(out + first + upper, found, inside_upper)
