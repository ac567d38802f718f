"""Kernel of products A Bᴴ that are Hermitian, such as WWᴴ: one half is computed, the other copied.

Twin: ``a @ b.mH`` in float32, which Gram matrices and the optimisers use elsewhere. Contract: as exact as
that product. Every number is split into two of TF32, and only the product of the two small parts is left out
(2⁻²² of the result), so this is not what is called TF32.
"""

from __future__ import annotations

import torch
from torch import Tensor

from squircuit.execution.kernels.compiler import can_serve, tl, triton

TILE, DEPTH = 64, 32
LEAST_ROWS = 128  # below, half of the tiles is not a saving


def usable(a: Tensor, b: Tensor) -> bool:
    """The kernel can serve: contiguous complex64 matrices with many rows on a CUDA device."""
    return a.shape[1] >= LEAST_ROWS and can_serve(torch.complex64, a, b)


def product(a: Tensor, b: Tensor) -> Tensor:
    """A Bᴴ where it is Hermitian: (S, K1, K2) each → (S, K1, K1)."""
    if not usable(a, b):
        return a @ b.mH
    count, rows, depth = a.shape
    out = torch.empty(count, rows, rows, 2, device=a.device)
    tiles = triton.cdiv(rows, TILE)
    _product[(tiles * (tiles + 1) // 2, count)](
        torch.view_as_real(a), torch.view_as_real(b), out, rows, depth,
        TILE=TILE, DEPTH=DEPTH, num_warps=4, num_stages=3,
    )  # fmt: skip
    return torch.view_as_complex(out)


if triton is not None:

    @triton.jit
    def lower_tile(number):
        # tiles of the lower half, row by row; the root may be a little too small
        down = ((tl.sqrt(8.0 * number + 1.0) - 1.0) * 0.5 + 1e-3).to(tl.int32)
        return down, number - down * (down + 1) // 2

    @triton.jit
    def _parts(matrix, row, rows, start, depth, TILE: tl.constexpr, DEPTH: tl.constexpr):
        column = 2 * start + tl.arange(0, 2 * DEPTH)
        inside = (row < rows)[:, None] & (column < 2 * depth)[None, :]
        both = tl.load(matrix + row[:, None] * 2 * depth + column[None, :], inside, 0.0)
        return tl.split(tl.reshape(both, (TILE, DEPTH, 2)))

    @triton.jit
    def _store(out, row, column, rows, real, imaginary):
        inside = (row < rows) & (column < rows)
        place = out + (row * rows + column) * 2
        tl.store(place, real, inside)
        tl.store(place + 1, imaginary, inside)

    @triton.jit
    def _product(a, b, out, rows, depth, TILE: tl.constexpr, DEPTH: tl.constexpr):
        down, across = lower_tile(tl.program_id(0))
        matrix = tl.program_id(1).to(tl.int64)
        i, j = down * TILE + tl.arange(0, TILE), across * TILE + tl.arange(0, TILE)
        left, right = a + matrix * rows * depth * 2, b + matrix * rows * depth * 2
        real = tl.zeros((TILE, TILE), tl.float32)
        imaginary = tl.zeros((TILE, TILE), tl.float32)
        for start in range(0, depth, DEPTH):
            a_re, a_im = _parts(left, i, rows, start, depth, TILE, DEPTH)
            b_re, b_im = _parts(right, j, rows, start, depth, TILE, DEPTH)
            b_re, b_im = tl.trans(b_re), tl.trans(b_im)
            real = tl.dot(a_re, b_re, real, input_precision="tf32x3")
            real = tl.dot(a_im, b_im, real, input_precision="tf32x3")
            imaginary = tl.dot(a_im, b_re, imaginary, input_precision="tf32x3")
            imaginary = tl.dot(-a_re, b_im, imaginary, input_precision="tf32x3")
        target = out + matrix * rows * rows * 2
        _store(target, i[:, None], j[None, :], rows, real, imaginary)
        if across < down:
            _store(target, j[None, :], i[:, None], rows, real, -imaginary)
