"""Kernel of A = ¼(s_i + s_j) C + ¼(3s_i − s_j) Cᴴ, one pass over C. Twin: plain half of ``wide.factor``."""

from __future__ import annotations

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:  # pragma: no cover - depends on the machine
    triton = None

TILE = 32


def usable(cross: Tensor) -> bool:
    """The kernel can serve this matrix: contiguous complex64 on a CUDA device."""
    return triton is not None and cross.is_cuda and cross.dtype == torch.complex64 and cross.is_contiguous()


def factor(cross: Tensor, scale: Tensor) -> Tensor:
    """A from C (S, K1, K1) and the real factors of its rows, (S, K1, 1)."""
    count, rows, _ = cross.shape
    out = torch.empty_like(cross)
    tiles = triton.cdiv(rows, TILE)
    _factor[(count, tiles, tiles)](
        torch.view_as_real(cross), scale.float().contiguous(), torch.view_as_real(out), rows, TILE=TILE
    )
    return out


if triton is not None:

    @triton.jit
    def _factor(cross, scale, out, rows, TILE: tl.constexpr):
        s = tl.program_id(0).to(tl.int64)
        i = tl.program_id(1) * TILE + tl.arange(0, TILE)
        j = tl.program_id(2) * TILE + tl.arange(0, TILE)
        inside = (i[:, None] < rows) & (j[None, :] < rows)
        place = ((s * rows + i[:, None]) * rows + j[None, :]) * 2
        real, imaginary = tl.load(cross + place, inside, 0.0), tl.load(cross + place + 1, inside, 0.0)
        turned = ((s * rows + j[:, None]) * rows + i[None, :]) * 2
        mirrored = (j[:, None] < rows) & (i[None, :] < rows)
        other = tl.trans(tl.load(cross + turned, mirrored, 0.0))
        other_imaginary = -tl.trans(tl.load(cross + turned + 1, mirrored, 0.0))
        left = tl.load(scale + s * rows + i, i < rows, 0.0)[:, None]
        right = tl.load(scale + s * rows + j, j < rows, 0.0)[None, :]
        p, q = 0.25 * (left + right), 0.25 * (3 * left - right)
        tl.store(out + place, p * real + q * other, inside)
        tl.store(out + place + 1, p * imaginary + q * other_imaginary, inside)
