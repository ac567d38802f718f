"""Kernels of R₁ ⊙ … ⊙ R_N of up to four Gram matrices and of its gradients, one pass each.

Twins: ``algebras.entrywise`` and ``algebras.entrywise_gradients``, plain halves. Contract: the same result
up to rounding, for contiguous complex64 on a CUDA device.
"""

from __future__ import annotations

import torch
from torch import Tensor

from squircuit.execution.kernels.compiler import can_serve, tl, triton

MOST = 4
BLOCK = 1024


def usable(tensors: list[Tensor]) -> bool:
    """The kernels can serve: two to four factors, contiguous complex64 on a CUDA device."""
    return 2 <= len(tensors) <= MOST and can_serve(torch.complex64, *tensors)


def product(factors: list[Tensor]) -> Tensor:
    """R₁ ⊙ … ⊙ R_N."""
    out, count = torch.empty_like(factors[0]), factors[0].numel()
    views = _four([torch.view_as_real(factor) for factor in factors])
    _product[(triton.cdiv(count, BLOCK),)](
        *views, torch.view_as_real(out), count, COUNT=len(factors), BLOCK=BLOCK
    )
    return out


def gradients(factors: list[Tensor], gradient: Tensor, targets: list[Tensor]) -> None:
    """G times the conjugates of the other factors, written to the targets."""
    count = gradient.numel()
    views = [_four([torch.view_as_real(each) for each in part]) for part in (factors, targets)]
    _gradients[(triton.cdiv(count, BLOCK),)](
        *views[0], torch.view_as_real(gradient), *views[1], count, COUNT=len(factors), BLOCK=BLOCK
    )


def _four(tensors: list[Tensor]) -> list[Tensor]:
    """Four arguments for a kernel, of which it uses the first ones."""
    return tensors + tensors[:1] * (MOST - len(tensors))


if triton is not None:

    @triton.jit
    def _read(matrix, place, count, BLOCK: tl.constexpr):
        return tl.split(tl.reshape(tl.load(matrix + place, place < 2 * count, 0.0), (BLOCK, 2)))

    @triton.jit
    def _write(matrix, place, count, real, imaginary, BLOCK: tl.constexpr):
        tl.store(matrix + place, tl.reshape(tl.join(real, imaginary), (2 * BLOCK,)), place < 2 * count)

    @triton.jit
    def _times(a_re, a_im, b_re, b_im):
        return a_re * b_re - a_im * b_im, a_re * b_im + a_im * b_re

    @triton.jit
    def _write_conjugate(matrix, place, count, g_re, g_im, a_re, a_im, BLOCK: tl.constexpr):
        real, imaginary = g_re * a_re + g_im * a_im, g_im * a_re - g_re * a_im
        _write(matrix, place, count, real, imaginary, BLOCK)

    @triton.jit
    def _product(first, second, third, fourth, out, count, COUNT: tl.constexpr, BLOCK: tl.constexpr):
        place = tl.program_id(0).to(tl.int64) * 2 * BLOCK + tl.arange(0, 2 * BLOCK)
        real, imaginary = _read(first, place, count, BLOCK)
        re, im = _read(second, place, count, BLOCK)
        real, imaginary = _times(real, imaginary, re, im)
        if COUNT > 2:
            re, im = _read(third, place, count, BLOCK)
            real, imaginary = _times(real, imaginary, re, im)
        if COUNT > 3:
            re, im = _read(fourth, place, count, BLOCK)
            real, imaginary = _times(real, imaginary, re, im)
        _write(out, place, count, real, imaginary, BLOCK)

    @triton.jit
    def _gradients(
        first,
        second,
        third,
        fourth,
        gradient,
        of_first,
        of_second,
        of_third,
        of_fourth,
        count,
        COUNT: tl.constexpr,
        BLOCK: tl.constexpr,
    ):
        place = tl.program_id(0).to(tl.int64) * 2 * BLOCK + tl.arange(0, 2 * BLOCK)
        g_re, g_im = _read(gradient, place, count, BLOCK)
        p_re, p_im = _read(first, place, count, BLOCK)
        q_re, q_im = _read(second, place, count, BLOCK)
        if COUNT == 2:
            _write_conjugate(of_first, place, count, g_re, g_im, q_re, q_im, BLOCK)
            _write_conjugate(of_second, place, count, g_re, g_im, p_re, p_im, BLOCK)
        else:
            r_re, r_im = _read(third, place, count, BLOCK)
            rest_re, rest_im = r_re, r_im
            if COUNT > 3:
                s_re, s_im = _read(fourth, place, count, BLOCK)
                rest_re, rest_im = _times(r_re, r_im, s_re, s_im)
            re, im = _times(q_re, q_im, rest_re, rest_im)
            _write_conjugate(of_first, place, count, g_re, g_im, re, im, BLOCK)
            re, im = _times(p_re, p_im, rest_re, rest_im)
            _write_conjugate(of_second, place, count, g_re, g_im, re, im, BLOCK)
            pair_re, pair_im = _times(p_re, p_im, q_re, q_im)
            if COUNT > 3:
                re, im = _times(pair_re, pair_im, s_re, s_im)
                _write_conjugate(of_third, place, count, g_re, g_im, re, im, BLOCK)
                re, im = _times(pair_re, pair_im, r_re, r_im)
                _write_conjugate(of_fourth, place, count, g_re, g_im, re, im, BLOCK)
            else:
                _write_conjugate(of_third, place, count, g_re, g_im, pair_re, pair_im, BLOCK)
