"""Kernels of W (a ⊗ b) and of its gradients that never write an array larger than W.

The vector a ⊗ b and the gradients of its entries live in registers alone, tile by tile, between the numbers
they are made of and the matrix units. Twin: the plain half of ``weighted_product``, which writes T = W b, of
K·I·B numbers a layer. Contract: the same result up to TF32 and the order of summation, for contiguous float32
planes on a CUDA device; so these serve in training steps alone. Tiles fill the 227 KB of shared memory that a
Hopper processor has; on other devices the twin serves.
"""

from __future__ import annotations

import torch
from torch import Tensor

from squircuit.execution.kernels.compiler import can_serve, tl, triton

LEAST_UNITS, MOST_UNITS = 32, 128  # rows of W: with fewer the twin is faster, more do not fit the registers
HOPPER = 9  # compute capability
PROGRAMS = 528  # that the gradient of a tied weight is spread over: four for each processor of an H200


def usable(weight: Tensor, factors: list[Tensor]) -> bool:
    """The kernels can serve: complex planes in single precision on a Hopper device, TF32 allowed."""
    return (
        can_serve(torch.float32, weight, *factors)
        and weight[0].numel() < 1 << 31  # places in a matrix are numbers of 32 bits
        and LEAST_UNITS <= weight.shape[1] <= MOST_UNITS
        and factors[0].shape[2] == 2
        and torch.backends.cuda.matmul.allow_tf32
        and torch.cuda.get_device_capability(weight.device)[0] == HOPPER
    )


def product(weight: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Σ_i a_i T_ki with T_ki = Σ_j W_kij b_j.

    Args:
        weight: pairs (F or 1, K, 2·I·J).
        left: a, (F, I, 2, B).
        right: b, (F, J, 2, B).

    Returns:
        (F, K, 2, B).
    """
    folds, height, _, batch = left.shape
    units, width = weight.shape[1], right.shape[1]
    out = left.new_empty(folds, units, 2, batch)
    tile, columns = _tile(units, 64), _tile(batch, 128)
    _product[(triton.cdiv(batch, columns), folds, triton.cdiv(units, tile))](
        weight, left, _turned(right, conjugate=True), out, _stride(weight), batch, units, height, width,
        UNITS=tile, WIDTH=_tile(width, 64), BATCH=columns, num_warps=8 if columns == 128 else 4, num_stages=3,
    )  # fmt: skip
    return out


def factor_gradients(weight: Tensor, left: Tensor, right: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """∂a_i = Σ_j U_ij b_j* and ∂b_j = Σ_i U_ij a_i* with U_ij = Σ_k W_kij* g_k.

    Args:
        gradient: g, (F, K, 2, B).
    """
    folds, height, _, batch = left.shape
    units, width = weight.shape[1], right.shape[1]
    large = units <= 64  # then more of g fits beside W
    tile, columns = _tile(width, 64 if large else 32), _tile(batch, 128 if large else 64)
    parts = triton.cdiv(width, tile)
    of_left, of_right = left.new_empty(parts, *left.shape), torch.empty_like(right)
    _factor_gradients[(triton.cdiv(batch, columns), folds, parts)](
        _transposed(weight), left, right, _turned(gradient, conjugate=False), of_left, of_right,
        _stride(weight), batch, folds, units, height, width,
        UNITS=_tile(units, MOST_UNITS), WIDTH=tile, BATCH=columns,
        num_warps=8 if columns == 128 else 4, num_stages=3,
    )  # fmt: skip
    return of_left[0] if parts == 1 else of_left.sum(dim=0), of_right


def weight_gradient(left: Tensor, right: Tensor, gradient: Tensor, total: Tensor, fresh: bool) -> None:
    """∂W_kij = Σ_b g_k a_i* b_j*, summed over the folds if they share one matrix.

    Args:
        total: where it is written, or added unless ``fresh``: (F or 1, K, 2·I·J).
    """
    folds, height, _, batch = left.shape
    units, width = total.shape[1], right.shape[1]
    tile, columns = _tile(height, 64), _tile(width, 64)
    rows = 256 // tile
    tiles = triton.cdiv(units, rows) * triton.cdiv(height, tile), triton.cdiv(width, columns)
    each = 1 if len(total) == folds else max(1, folds * tiles[0] * tiles[1] // PROGRAMS)
    at_once = fresh and each == 1 and len(total) == folds
    out = total if at_once else left.new_empty(triton.cdiv(folds, each), *total.shape[1:])
    _weight_gradient[(*tiles, len(out))](
        left, right, gradient, out, batch, folds, each, units, height, width,
        UNITS=rows, HEIGHT=tile, WIDTH=columns, BATCH=_tile(batch, 32), num_warps=8, num_stages=3,
    )  # fmt: skip
    if not at_once:
        found = out if len(total) == folds else out.sum(dim=0, keepdim=True)
        total.copy_(found) if fresh else total.add_(found)


def _turned(planes: Tensor, conjugate: bool) -> Tensor:
    """v and −iv, or their conjugates, as rows of pairs: (F, K, 2, B) → (F, 2, B, 2K).

    With them, real products make complex ones: Re and Im of Σ_j W_j b_j are Σ (w_re, w_im)·(b_re, −b_im) and
    Σ (w_re, w_im)·(b_im, b_re), and those of Σ_k W_k* g_k the same with (g_re, g_im) and (g_im, −g_re).
    """
    folds, units, _, batch = planes.shape
    out = planes.new_empty(folds, 2, batch, 2 * units)
    _turn[(triton.cdiv(batch, 32), triton.cdiv(units, 32), folds)](
        planes, out, units, batch, -1.0 if conjugate else 1.0, SIDE=32
    )
    return out


def _transposed(weight: Tensor) -> Tensor:
    """Pairs (S, K, 2·N) → (S, N, 2·K)."""
    pairs = weight.view(torch.float64)  # as numbers of eight bytes
    count, units, numbers = pairs.shape
    out = pairs.new_empty(count, numbers, units)
    _transpose[(triton.cdiv(numbers, 64), triton.cdiv(units, 64), count)](pairs, out, units, numbers, SIDE=64)
    return out.view(torch.float32)


def _tile(size: int, most: int) -> int:
    """A side of a tile of registers: a power of two, at least 16 for the matrix units."""
    return max(16, min(most, int(triton.next_power_of_2(size))))


def _stride(weight: Tensor) -> int:
    """The step from the matrix of one fold to that of the next; 0 where a tied one serves all."""
    return 0 if len(weight) == 1 else weight[0].numel()


if triton is not None:

    @triton.jit
    def _planes(start, row, columns, batch, inside):
        # real and imaginary parts of rows of planes (…, 2, B)
        at = start + row.to(tl.int64) * 2 * batch + columns
        return tl.load(at, inside, 0.0), tl.load(at + batch, inside, 0.0)

    @triton.jit
    def _turn(planes, out, units, batch, sign, SIDE: tl.constexpr):
        fold = tl.program_id(2).to(tl.int64)
        b = (tl.program_id(0) * SIDE + tl.arange(0, SIDE))[:, None]
        k = (tl.program_id(1) * SIDE + tl.arange(0, SIDE))[None, :]
        re, im = _planes(planes, fold * units + k, b, batch, (k < units) & (b < batch))
        pair = 2 * tl.program_id(1) * SIDE + tl.arange(0, 2 * SIDE)[None, :]
        at, inside = out + (fold * 2 * batch + b) * 2 * units + pair, (pair < 2 * units) & (b < batch)
        tl.store(at, tl.interleave(re, sign * im), inside)
        tl.store(at + batch * 2 * units, tl.interleave(im, -sign * re), inside)

    @triton.jit
    def _transpose(matrix, out, rows, columns, SIDE: tl.constexpr):
        start = tl.program_id(2).to(tl.int64) * rows * columns
        row = tl.program_id(1) * SIDE + tl.arange(0, SIDE)
        column = tl.program_id(0) * SIDE + tl.arange(0, SIDE)
        inside = (row[:, None] < rows) & (column[None, :] < columns)
        tile = tl.load(matrix + start + row[:, None] * columns + column[None, :], inside, 0.0)
        at = out + start + column[:, None] * rows + row[None, :]
        tl.store(at, tl.trans(tile), (row[None, :] < rows) & (column[:, None] < columns))

    @triton.jit
    def _product(
        weights, left, right, out, stride, batch, units, height, width,
        UNITS: tl.constexpr, WIDTH: tl.constexpr, BATCH: tl.constexpr,
    ):  # fmt: skip
        fold = tl.program_id(1).to(tl.int64)
        columns = (tl.program_id(0) * BATCH + tl.arange(0, BATCH))[:, None]
        k = (tl.program_id(2) * UNITS + tl.arange(0, UNITS))[None, :]
        real = tl.zeros((BATCH, UNITS), dtype=tl.float32)
        imaginary = tl.zeros((BATCH, UNITS), dtype=tl.float32)
        for start in range(0, 2 * width, 2 * WIDTH):
            pair = start + tl.arange(0, 2 * WIDTH)
            at = right + (fold * 2 * batch + columns) * 2 * width + pair[None, :]
            inside = (pair[None, :] < 2 * width) & (columns < batch)
            for_re = tl.load(at, inside, 0.0)
            for_im = tl.load(at + batch * 2 * width, inside, 0.0)
            weight = weights + fold * stride + k * height * 2 * width + pair[:, None]
            inside = (k < units) & (pair[:, None] < 2 * width)
            for i in range(height):
                w = tl.load(weight + i * 2 * width, inside, 0.0)
                t_re, t_im = tl.dot(for_re, w), tl.dot(for_im, w)
                a_re, a_im = _planes(left, fold * height + i, columns, batch, columns < batch)
                real += t_re * a_re - t_im * a_im
                imaginary += t_re * a_im + t_im * a_re
        at = out + (fold * units + k) * 2 * batch + columns
        inside = (k < units) & (columns < batch)
        tl.store(at, real, inside)
        tl.store(at + batch, imaginary, inside)

    @triton.jit
    def _factor_gradients(
        weights, left, right, gradient, of_left, of_right, stride, batch, folds, units, height, width,
        UNITS: tl.constexpr, WIDTH: tl.constexpr, BATCH: tl.constexpr,
    ):  # fmt: skip
        fold = tl.program_id(1).to(tl.int64)
        part = tl.program_id(2)
        column = tl.program_id(0) * BATCH + tl.arange(0, BATCH)
        columns, j = column[:, None], (part * WIDTH + tl.arange(0, WIDTH))[None, :]
        inside = (j < width) & (columns < batch)
        b_re, b_im = _planes(right, fold * width + j, columns, batch, inside)
        pair = tl.arange(0, 2 * UNITS)
        at = gradient + (fold * 2 * batch + columns) * 2 * units + pair[None, :]
        filled = (pair[None, :] < 2 * units) & (columns < batch)
        for_re = tl.load(at, filled, 0.0)
        for_im = tl.load(at + batch * 2 * units, filled, 0.0)
        sum_re = tl.zeros((BATCH, WIDTH), dtype=tl.float32)
        sum_im = tl.zeros((BATCH, WIDTH), dtype=tl.float32)
        weight = weights + fold * stride + j * 2 * units + pair[:, None]
        filled = (pair[:, None] < 2 * units) & (j < width)
        for i in range(height):
            w = tl.load(weight + i * width * 2 * units, filled, 0.0)
            u_re, u_im = tl.dot(for_re, w), tl.dot(for_im, w)
            a_re, a_im = _planes(left, fold * height + i, columns, batch, columns < batch)
            sum_re += u_re * a_re + u_im * a_im
            sum_im += u_im * a_re - u_re * a_im
            target = of_left + ((part * folds + fold) * height + i) * 2 * batch + column
            tl.store(target, tl.sum(u_re * b_re + u_im * b_im, axis=1), column < batch)
            tl.store(target + batch, tl.sum(u_im * b_re - u_re * b_im, axis=1), column < batch)
        at = of_right + (fold * width + j) * 2 * batch + columns
        tl.store(at, sum_re, inside)
        tl.store(at + batch, sum_im, inside)

    @triton.jit
    def _weight_gradient(
        left, right, gradient, out, batch, folds, each, units, height, width,
        UNITS: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, BATCH: tl.constexpr,
    ):  # fmt: skip
        part = tl.program_id(2).to(tl.int64)
        stretches = (height + HEIGHT - 1) // HEIGHT
        k = (tl.program_id(0) // stretches) * UNITS + tl.arange(0, UNITS)
        i = (tl.program_id(0) % stretches) * HEIGHT + tl.arange(0, HEIGHT)
        j = (tl.program_id(1) * WIDTH + tl.arange(0, WIDTH))[None, :]
        real = tl.zeros((UNITS * HEIGHT, WIDTH), dtype=tl.float32)
        imaginary = tl.zeros((UNITS * HEIGHT, WIDTH), dtype=tl.float32)
        for fold in range(part * each, tl.minimum((part + 1) * each, folds)):
            for start in range(0, batch, BATCH):
                b = start + tl.arange(0, BATCH)
                row, column = k[:, None, None], b[None, None, :]
                inside = (row < units) & (column < batch)
                g_re, g_im = _planes(gradient, fold * units + row, column, batch, inside)
                row = i[None, :, None]
                a_re, a_im = _planes(
                    left, fold * height + row, column, batch, (row < height) & (column < batch)
                )
                p_re = tl.reshape(g_re * a_re + g_im * a_im, (UNITS * HEIGHT, BATCH))
                p_im = tl.reshape(g_im * a_re - g_re * a_im, (UNITS * HEIGHT, BATCH))
                inside = (j < width) & (b[:, None] < batch)
                b_re, b_im = _planes(right, fold * width + j, b[:, None], batch, inside)
                real = tl.dot(p_re, b_re, real)
                imaginary = tl.dot(p_im, b_re, imaginary)
                real = tl.dot(p_im, b_im, real)
                imaginary = tl.dot(-p_re, b_im, imaginary)
        number = tl.arange(0, UNITS * HEIGHT)[:, None]
        k = (tl.program_id(0) // stretches) * UNITS + number // HEIGHT
        i = (tl.program_id(0) % stretches) * HEIGHT + number % HEIGHT
        pair = 2 * tl.program_id(1) * WIDTH + tl.arange(0, 2 * WIDTH)[None, :]
        at = out + ((part * units + k) * height + i) * 2 * width + pair
        tl.store(at, tl.interleave(real, imaginary), (k < units) & (i < height) & (pair < 2 * width))
