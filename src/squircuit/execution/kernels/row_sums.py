"""Kernels of the contraction after the large matrix product, and of its gradient.

Twins: ``weighted_product.reduce_rows`` and ``weighted_product.spread_rows`` in plain torch. Contract: the
same result up to the order of summation, for contiguous float32 planes on a CUDA device.
"""

from __future__ import annotations

import torch
from torch import Tensor

from squircuit.execution.kernels.compiler import can_serve, tl, triton


def usable(*tensors: Tensor) -> bool:
    """The kernels can serve these tensors: complex planes in single precision on a CUDA device."""
    return can_serve(torch.float32, *tensors) and all(tensor.shape[-2] == 2 for tensor in tensors)


def reduce_rows(product: Tensor, left: Tensor) -> Tensor:
    """Σ_i T_ki a_i: (F, K, I, 2, B), (F, I, 2, B) → (F, K, 2, B). One read of T."""
    folds, units, rows, _, batch = product.shape
    out = product.new_empty(folds, units, 2, batch)
    block = min(256, triton.next_power_of_2(batch))
    grid = (folds * units, triton.cdiv(batch, block))
    _reduce[grid](
        product, left, out, units, rows, batch, ROWS=min(16, triton.next_power_of_2(rows)), BATCH=block
    )
    return out


def spread_rows(product: Tensor, left: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """∂a_i = Σ_k T_ki* g_k, (F, I, 2, B), and P_ki = g_k a_i*, like T. One read of T, one write of P."""
    folds, units, rows, _, batch = product.shape
    of_left, outer = torch.empty_like(left), torch.empty_like(product)
    block = min(64, triton.next_power_of_2(batch))
    tile = min(16, triton.next_power_of_2(rows))
    grid = (folds * triton.cdiv(rows, tile), triton.cdiv(batch, block))
    _spread[grid](product, left, gradient, of_left, outer, units, rows, batch, ROWS=tile, BATCH=block)
    return of_left, outer


if triton is not None:

    @triton.jit
    def _reduce(
        product,
        left,
        out,
        units,
        rows,
        batch,
        ROWS: tl.constexpr,
        BATCH: tl.constexpr,
    ):
        pair = tl.program_id(0).to(tl.int64)  # fold and unit
        fold = pair // units
        b = tl.program_id(1) * BATCH + tl.arange(0, BATCH)
        i = tl.arange(0, ROWS)
        real = tl.zeros((BATCH,), dtype=tl.float32)
        imaginary = tl.zeros((BATCH,), dtype=tl.float32)
        for start in range(0, rows, ROWS):
            row = start + i
            inside = (row[:, None] < rows) & (b[None, :] < batch)
            place = row[:, None] * (2 * batch) + b[None, :]
            t = product + pair * rows * 2 * batch + place
            a = left + fold * rows * 2 * batch + place
            tr, ti = tl.load(t, inside, 0.0), tl.load(t + batch, inside, 0.0)
            ar, ai = tl.load(a, inside, 0.0), tl.load(a + batch, inside, 0.0)
            real += tl.sum(tr * ar - ti * ai, axis=0)
            imaginary += tl.sum(tr * ai + ti * ar, axis=0)
        target = out + pair * 2 * batch + b
        tl.store(target, real, b < batch)
        tl.store(target + batch, imaginary, b < batch)

    @triton.jit
    def _spread(
        product,
        left,
        gradient,
        of_left,
        outer,
        units,
        rows,
        batch,
        ROWS: tl.constexpr,
        BATCH: tl.constexpr,
    ):
        tiles = tl.cdiv(rows, ROWS)
        fold = (tl.program_id(0) // tiles).to(tl.int64)
        row = (tl.program_id(0) % tiles) * ROWS + tl.arange(0, ROWS)
        b = tl.program_id(1) * BATCH + tl.arange(0, BATCH)
        inside = (row[:, None] < rows) & (b[None, :] < batch)
        place = row[:, None] * (2 * batch) + b[None, :]
        a = left + fold * rows * 2 * batch + place
        ar, ai = tl.load(a, inside, 0.0), tl.load(a + batch, inside, 0.0)
        real = tl.zeros((ROWS, BATCH), dtype=tl.float32)
        imaginary = tl.zeros((ROWS, BATCH), dtype=tl.float32)
        for k in range(units):
            pair = fold * units + k
            g = gradient + pair * 2 * batch + b
            gr, gi = tl.load(g, b < batch, 0.0)[None, :], tl.load(g + batch, b < batch, 0.0)[None, :]
            at = pair * rows * 2 * batch + place
            tr, ti = tl.load(product + at, inside, 0.0), tl.load(product + at + batch, inside, 0.0)
            real += gr * tr + gi * ti
            imaginary += gi * tr - gr * ti
            tl.store(outer + at, gr * ar + gi * ai, inside)
            tl.store(outer + at + batch, gi * ar - gr * ai, inside)
        target = of_left + fold * rows * 2 * batch + place
        tl.store(target, real, inside)
        tl.store(target + batch, imaginary, inside)
