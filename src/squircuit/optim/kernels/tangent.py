"""Kernel of A = ¼(s_i + s_j) C + ¼(3s_i − s_j) Cᴴ, one pass over C. Twin: plain half of ``wide.factor``.

A program takes a tile below the diagonal and its mirror image, so every entry is read once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from squircuit.execution.kernels import hermitian
from squircuit.execution.kernels.compiler import tl, triton

TILE = 32


def usable(cross: Tensor) -> bool:
    """The kernel can serve this matrix: contiguous complex64 on a CUDA device."""
    return triton is not None and cross.is_cuda and cross.dtype == torch.complex64 and cross.is_contiguous()


def factor(cross: Tensor, scale: Tensor) -> Tensor:
    """A from C (S, K1, K1) and the real factors of its rows, (S, K1, 1)."""
    count, rows, _ = cross.shape
    out = torch.empty_like(cross)
    tiles = triton.cdiv(rows, TILE)
    _factor[(tiles * (tiles + 1) // 2, count)](
        torch.view_as_real(cross), scale.float().contiguous(), torch.view_as_real(out), rows, TILE=TILE
    )
    return out


if triton is not None:
    lower_tile = hermitian.lower_tile  # kernels find each other as names of their module

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
