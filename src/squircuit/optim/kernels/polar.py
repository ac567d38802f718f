"""Kernel of what lies between the two passes of Polar: all K1×K1 matrices of one weight in one program.

Twin: the plain half of ``polar.polar_factors``. Contract: the same up to rounding in double precision, for at
most 16 rows.
"""

from __future__ import annotations

import torch
from torch import Tensor

from squircuit.execution.kernels.compiler import tl, triton

MOST_ROWS = 16


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


if triton is not None:

    @triton.jit
    def _load(matrix, place, inside):
        return tl.load(matrix + place, inside, 0.0), tl.load(matrix + place + 1, inside, 0.0)

    @triton.jit
    def _adjoint(re, im):
        return tl.trans(re), -tl.trans(im)

    @triton.jit
    def _times(a_re, a_im, b_re, b_im):
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
        s_re += tl.where((i == j) & (i >= rows), 1.0, 0.0)
        c_re, c_im = _load(xm, place, inside)
        t_re, t_im = _load(mm, place, inside)
        h_re, h_im = _adjoint(c_re, c_im)
        if BY_ROW:
            left = tl.load(scale + n * rows + i, i < rows, 0.0)
            right = tl.load(scale + n * rows + j, j < rows, 0.0)
        else:
            left, right = tl.load(scale + n + 0 * i), tl.load(scale + n + 0 * j)
        # D = aX + bM, the scaled tangent part of M, b = scale
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
