"""Kernels of products of layers around the large matrix product, one pass each.

Twins: ``kronecker``, ``hadamard`` and ``expanded`` of ``complex_planes``, and the plain half of
``weighted_product.product_gradients``. Contract: the same result up to the order of summation, for contiguous
float32 planes on a CUDA device.
"""

from __future__ import annotations

import torch
from torch import Tensor

from squircuit.execution.kernels.compiler import can_serve, tl, triton

MOST_FACTORS = 4  # of an entrywise product
MOST_UNITS = 64  # of the second factor of a Kronecker product, held in registers


def usable(kind: str, factors: list[Tensor]) -> bool:
    """The kernels can serve these factors: complex planes in single precision on a CUDA device."""
    if not (can_serve(torch.float32, *factors) and all(factor.shape[-2] == 2 for factor in factors)):
        return False
    if kind == "kronecker" and len(factors) > 1:
        return len(factors) == 2 and factors[1].shape[1] <= MOST_UNITS
    return len(factors) <= MOST_FACTORS


def product(kind: str, factors: list[Tensor], expand: bool) -> Tensor:
    """ℓ₁ ⊗ ℓ₂ or ℓ₁ ⊙ … ⊙ ℓ_N, (F, K_i, 2, B) each: planes (F, K, 2, B), or expanded (F, 2K, 2B)."""
    if kind == "kronecker" and len(factors) == 2:
        return _kronecker(factors[0], factors[1], expand)
    folds, units, _, batch = factors[0].shape
    out = factors[0].new_empty((folds, 2 * units, 2 * batch) if expand else (folds, units, 2, batch))
    block = min(128, triton.next_power_of_2(batch))
    rows = min(16, triton.next_power_of_2(folds * units))
    grid = (triton.cdiv(folds * units, rows), triton.cdiv(batch, block))
    _hadamard_product[grid](
        *_four(factors), out, folds * units, batch, COUNT=len(factors), ROWS=rows, BATCH=block, EXPAND=expand
    )
    return out


def gradients(kind: str, factors: list[Tensor], gradient: Tensor, targets: list[Tensor]) -> None:
    """The gradient of each factor, g times the conjugates of the others, written to ``targets``.

    Args:
        gradient: g as planes (F, K, 2, B), or U = W_pairsᵀ·[Re P | Im P], (F, 2K, 2B), contracted on the way.
    """
    contract = gradient.ndim == 3
    folds, units, _, batch = factors[0].shape
    if kind == "kronecker" and len(factors) == 2:
        block = min(32, triton.next_power_of_2(batch))
        right = factors[1].shape[1]
        _kronecker_gradients[(folds, triton.cdiv(batch, block))](
            *factors, gradient, *targets, units, right, batch,
            ROWS=triton.next_power_of_2(right), BATCH=block, CONTRACT=contract,
        )  # fmt: skip
        return
    block = min(128, triton.next_power_of_2(batch))
    rows = min(8, triton.next_power_of_2(folds * units))
    grid = (triton.cdiv(folds * units, rows), triton.cdiv(batch, block))
    _hadamard_gradients[grid](
        *_four(factors), gradient, *_four(targets), folds * units, batch,
        COUNT=len(factors), ROWS=rows, BATCH=block, CONTRACT=contract,
    )  # fmt: skip


def _kronecker(first: Tensor, second: Tensor, expand: bool) -> Tensor:
    folds, left, _, batch = first.shape
    height = left * second.shape[1]
    out = first.new_empty((folds, 2 * height, 2 * batch) if expand else (folds, height, 2, batch))
    block = min(128, triton.next_power_of_2(batch))
    tile = min(16, triton.next_power_of_2(height))
    grid = (folds * triton.cdiv(height, tile), triton.cdiv(batch, block))
    _kronecker_product[grid](
        first, second, out, left, second.shape[1], batch, ROWS=tile, BATCH=block, EXPAND=expand
    )
    return out


def _four(tensors: list[Tensor]) -> list[Tensor]:
    """Four arguments for a kernel, of which it uses the first ones."""
    return tensors + tensors[:1] * (MOST_FACTORS - len(tensors))


if triton is not None:

    @triton.jit
    def _write(out, row, b, batch, real, imaginary, inside, EXPAND: tl.constexpr):
        if EXPAND:
            target = out + row * 4 * batch + b
            tl.store(target + 2 * batch, -imaginary, inside)
            tl.store(target + 3 * batch, real, inside)
        else:
            target = out + row * 2 * batch + b
        tl.store(target, real, inside)
        tl.store(target + batch, imaginary, inside)

    @triton.jit
    def _read(gradient, row, b, batch, inside, CONTRACT: tl.constexpr):
        if CONTRACT:
            at = gradient + row * 4 * batch + b
            real = tl.load(at, inside, 0.0) + tl.load(at + 3 * batch, inside, 0.0)
            imaginary = tl.load(at + batch, inside, 0.0) - tl.load(at + 2 * batch, inside, 0.0)
        else:
            at = gradient + row * 2 * batch + b
            real, imaginary = tl.load(at, inside, 0.0), tl.load(at + batch, inside, 0.0)
        return real, imaginary

    @triton.jit
    def _times(a_re, a_im, b_re, b_im):
        return a_re * b_re - a_im * b_im, a_re * b_im + a_im * b_re

    @triton.jit
    def _store_conjugate(target, place, batch, g_re, g_im, a_re, a_im, inside):
        tl.store(target + place, g_re * a_re + g_im * a_im, inside)
        tl.store(target + place + batch, g_im * a_re - g_re * a_im, inside)

    @triton.jit
    def _kronecker_product(
        first,
        second,
        out,
        left,
        right,
        batch,
        ROWS: tl.constexpr,
        BATCH: tl.constexpr,
        EXPAND: tl.constexpr,
    ):
        tiles = tl.cdiv(left * right, ROWS)
        fold = (tl.program_id(0) // tiles).to(tl.int64)
        row = ((tl.program_id(0) % tiles) * ROWS + tl.arange(0, ROWS))[:, None]
        b = (tl.program_id(1) * BATCH + tl.arange(0, BATCH))[None, :]
        inside = (row < left * right) & (b < batch)
        x_re, x_im = _read(first, fold * left + row // right, b, batch, inside, False)
        y_re, y_im = _read(second, fold * right + row % right, b, batch, inside, False)
        real, imaginary = _times(x_re, x_im, y_re, y_im)
        _write(out, fold * left * right + row, b, batch, real, imaginary, inside, EXPAND)

    @triton.jit
    def _kronecker_gradients(
        first,
        second,
        gradient,
        of_first,
        of_second,
        left,
        right,
        batch,
        ROWS: tl.constexpr,
        BATCH: tl.constexpr,
        CONTRACT: tl.constexpr,
    ):
        fold = tl.program_id(0).to(tl.int64)
        column = tl.program_id(1) * BATCH + tl.arange(0, BATCH)
        b, j = column[None, :], tl.arange(0, ROWS)[:, None]
        inside = (j < right) & (b < batch)
        y_re, y_im = _read(second, fold * right + j, b, batch, inside, False)
        sum_re = tl.zeros((ROWS, BATCH), dtype=tl.float32)
        sum_im = tl.zeros((ROWS, BATCH), dtype=tl.float32)
        for i in range(left):
            g_re, g_im = _read(gradient, (fold * left + i) * right + j, b, batch, inside, CONTRACT)
            at = (fold * left + i) * 2 * batch + b
            x_re, x_im = tl.load(first + at, b < batch, 0.0), tl.load(first + at + batch, b < batch, 0.0)
            sum_re += g_re * x_re + g_im * x_im
            sum_im += g_im * x_re - g_re * x_im
            target = of_first + (fold * left + i) * 2 * batch + column
            tl.store(target, tl.sum(g_re * y_re + g_im * y_im, axis=0), column < batch)
            tl.store(target + batch, tl.sum(g_im * y_re - g_re * y_im, axis=0), column < batch)
        _write(of_second, fold * right + j, b, batch, sum_re, sum_im, inside, False)

    @triton.jit
    def _hadamard_product(
        first,
        second,
        third,
        fourth,
        out,
        rows,
        batch,
        COUNT: tl.constexpr,
        ROWS: tl.constexpr,
        BATCH: tl.constexpr,
        EXPAND: tl.constexpr,
    ):
        row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
        b = (tl.program_id(1) * BATCH + tl.arange(0, BATCH))[None, :]
        inside = (row < rows) & (b < batch)
        real, imaginary = _read(first, row, b, batch, inside, False)
        if COUNT > 1:
            re, im = _read(second, row, b, batch, inside, False)
            real, imaginary = _times(real, imaginary, re, im)
        if COUNT > 2:
            re, im = _read(third, row, b, batch, inside, False)
            real, imaginary = _times(real, imaginary, re, im)
        if COUNT > 3:
            re, im = _read(fourth, row, b, batch, inside, False)
            real, imaginary = _times(real, imaginary, re, im)
        _write(out, row, b, batch, real, imaginary, inside, EXPAND)

    @triton.jit
    def _hadamard_gradients(
        first,
        second,
        third,
        fourth,
        gradient,
        of_first,
        of_second,
        of_third,
        of_fourth,
        rows,
        batch,
        COUNT: tl.constexpr,
        ROWS: tl.constexpr,
        BATCH: tl.constexpr,
        CONTRACT: tl.constexpr,
    ):
        row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
        b = (tl.program_id(1) * BATCH + tl.arange(0, BATCH))[None, :]
        inside = (row < rows) & (b < batch)
        place = row * 2 * batch + b
        g_re, g_im = _read(gradient, row, b, batch, inside, CONTRACT)
        if COUNT == 1:
            _write(of_first, row, b, batch, g_re, g_im, inside, False)
        if COUNT == 2:
            p_re, p_im = _read(first, row, b, batch, inside, False)
            q_re, q_im = _read(second, row, b, batch, inside, False)
            _store_conjugate(of_first, place, batch, g_re, g_im, q_re, q_im, inside)
            _store_conjugate(of_second, place, batch, g_re, g_im, p_re, p_im, inside)
        if COUNT > 2:
            p_re, p_im = _read(first, row, b, batch, inside, False)
            q_re, q_im = _read(second, row, b, batch, inside, False)
            r_re, r_im = _read(third, row, b, batch, inside, False)
            rest_re, rest_im = r_re, r_im
            if COUNT > 3:
                s_re, s_im = _read(fourth, row, b, batch, inside, False)
                rest_re, rest_im = _times(r_re, r_im, s_re, s_im)
            re, im = _times(q_re, q_im, rest_re, rest_im)
            _store_conjugate(of_first, place, batch, g_re, g_im, re, im, inside)
            re, im = _times(p_re, p_im, rest_re, rest_im)
            _store_conjugate(of_second, place, batch, g_re, g_im, re, im, inside)
            pair_re, pair_im = _times(p_re, p_im, q_re, q_im)
            if COUNT > 3:
                re, im = _times(pair_re, pair_im, s_re, s_im)
                _store_conjugate(of_third, place, batch, g_re, g_im, re, im, inside)
                re, im = _times(pair_re, pair_im, r_re, r_im)
                _store_conjugate(of_fourth, place, batch, g_re, g_im, re, im, inside)
            else:
                _store_conjugate(of_third, place, batch, g_re, g_im, pair_re, pair_im, inside)
