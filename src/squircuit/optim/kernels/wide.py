"""Kernels of a step of Polar for wide matrices of 17 to 64 rows, complex64 on CUDA: three passes.

With D = sM − AX, the tangent part of M with scaled rows, a step is X⁺ = (YYᴴ)^(-1/2) Y with Y = X − ηD.

1. ``advance`` reads X, g and m, writes m ← βm + γg, and sums C = XMᴴ, of which A is made, and ‖g‖² and ‖m‖²
   of the rows. C is in TF32: an error of 10⁻³ in a direction is noise.
2. ``move`` reads X and m, writes Y over X, and sums YYᴴ. The product A X is in half precision, for the same
   reason. YYᴴ alone decides the distance to the manifold: every number is two halves, so that only 2⁻²² of a
   product is lost.
3. ``retract`` reads Y and writes Y + RY with R = (YYᴴ)^(-1/2) − I, again of two halves a number, or of one
   where R is so small that the other would be lost.

Between them there are only K1×K1 matrices. Complex numbers lie as pairs (re, im), and a row of pairs is
multiplied as it lies: Re ZWᴴ is the real product of the rows of Z and W, and Im ZWᴴ that of (z_im, −z_re)
and W. Half precision has as many digits as TF32 at twice the speed, but a narrow range: X and Y, whose rows
have norm 1, are multiplied by `SCALE`, small matrices divided by their largest entry.

Twin: ``polar.polar_step``. Contract: X⁺ is the polar factor of X − ηD to single precision, with D as above
up to 10⁻³ of ‖sM‖.
"""

from __future__ import annotations

import torch
from torch import Tensor

from squircuit.execution.kernels.compiler import can_serve, tl, triton

LEAST_ROWS, MOST_ROWS = 17, 64  # fewer have kernels of their own, more do not fit the registers
COLUMNS = 64  # reals of a tile
PROGRAMS = 1056  # eight for each processor of an H200
SCALE = 64.0
LITTLE = 5e-4
"""Factors R up to this change YYᴴ by less than 10⁻⁷ when they lose what is beyond half precision."""


def usable(weights: list[Tensor], gradients: list[Tensor]) -> bool:
    """The kernels can serve: contiguous complex64 on a CUDA device, neither few rows nor many."""
    return LEAST_ROWS <= weights[0].shape[-2] <= MOST_ROWS and can_serve(
        torch.complex64, *weights, *gradients
    )


def advance(
    weight: Tensor, gradient: Tensor, momentum: Tensor, decay: float, factor: float
) -> tuple[Tensor, Tensor, Tensor]:
    """m ← decay·m + factor·g in place. Returns XMᴴ (S, K1, K1), and ‖g‖² and ‖m‖² of the rows, (S, K1, 1)."""
    count, rows, columns = weight.shape
    chunk, pieces = _chunks(count, columns)
    cross = torch.empty(pieces, count, rows, rows, 2, device=weight.device)
    norms = torch.empty(pieces, 2, count, rows, 1, device=weight.device)
    _advance[(count, pieces)](
        *(torch.view_as_real(t) for t in (weight, gradient, momentum)), cross, norms, rows, 2 * columns,
        decay, factor, chunk,
        ROWS=triton.next_power_of_2(rows), COLUMNS=COLUMNS, num_warps=4, num_stages=1,
    )  # fmt: skip
    of_g, of_m = _summed(norms)
    return torch.view_as_complex(_summed(cross)), of_g, of_m


def move(weight: Tensor, momentum: Tensor, speed: Tensor, factor: Tensor) -> Tensor:
    """X ← Y = X + FX − rM in place.

    Args:
        speed: r, real factors of the rows, (S, K1, 1).
        factor: F, complex64, (S, K1, K1).

    Returns:
        YYᴴ, (S, K1, K1).
    """
    count, rows, columns = weight.shape
    chunk, pieces = _chunks(count, columns)
    gram = torch.empty(pieces, count, rows, rows, 2, device=weight.device)
    unit, size = _unit(factor)
    _move[(count, pieces)](
        torch.view_as_real(weight), torch.view_as_real(momentum), unit.half(), size, speed, gram,
        rows, 2 * columns, chunk, SCALE=SCALE,
        ROWS=triton.next_power_of_2(rows), COLUMNS=COLUMNS, num_warps=4,
    )  # fmt: skip
    return torch.view_as_complex(_summed(gram))


def retract(weight: Tensor, factor: Tensor) -> None:
    """Y ← Y + RY in place, with R complex64, (S, K1, K1)."""
    count, rows, columns = weight.shape
    chunk, pieces = _chunks(count, columns)
    unit, size = _unit(factor)
    high = unit.half()
    _retract[(count, pieces)](
        torch.view_as_real(weight), high, (unit - high).half(), size, rows, 2 * columns, chunk, LITTLE=LITTLE,
        SCALE=SCALE, ROWS=triton.next_power_of_2(rows), COLUMNS=COLUMNS, num_warps=4, num_stages=1,
    )  # fmt: skip


def _unit(factor: Tensor) -> tuple[Tensor, Tensor]:
    """Real and imaginary parts with largest entry 1, (S, K1, K1, 2), and what they were divided by, (S,)."""
    parts = torch.view_as_real(factor)
    size = parts.abs().amax(dim=(1, 2, 3)).clamp_min(1e-30)
    return parts / size[:, None, None, None], size


def _chunks(count: int, columns: int) -> tuple[int, int]:
    """Tiles that a program takes, and programs for each matrix."""
    tiles = triton.cdiv(2 * columns, COLUMNS)
    chunk = max(4, triton.cdiv(count * tiles, PROGRAMS))
    return min(chunk, tiles), triton.cdiv(tiles, chunk)


def _summed(pieces: Tensor) -> Tensor:
    """The sum over programs; not by atomic additions, whose order would differ from run to run."""
    return pieces[0] if len(pieces) == 1 else pieces.sum(dim=0)


if triton is not None:

    @triton.jit
    def _rounded(z):
        # to the nearest number of TF32, where the matrix units would cut off
        return ((z.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)

    @triton.jit
    def _turned(z, sign, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
        # rows of pairs (re, im) → (−im, re), or with the sign −1 (im, −re)
        re, im = tl.split(tl.reshape(z, (ROWS, COLUMNS // 2, 2)))
        return tl.reshape(tl.join(-sign * im, sign * re), (ROWS, COLUMNS)).to(z.dtype)

    @triton.jit
    def _square(out, matrix, count, piece, real, imaginary, rows, ROWS: tl.constexpr):
        # a K1×K1 matrix as pairs, where the sums of one program lie
        i, j = tl.arange(0, ROWS)[:, None], tl.arange(0, 2 * ROWS)[None, :]
        at = out + (piece * count + matrix) * rows * rows * 2 + i * rows * 2 + j
        tl.store(at, tl.interleave(real, imaginary), (i < rows) & (j < 2 * rows))

    @triton.jit
    def _small(matrix, s, part, rows, ROWS: tl.constexpr):
        # real (part 0) or imaginary (1) parts of a K1×K1 matrix
        i, j = tl.arange(0, ROWS)[:, None], tl.arange(0, ROWS)[None, :]
        at = matrix + s * rows * rows * 2 + (i * rows + j) * 2 + part
        return tl.load(at, (i < rows) & (j < rows), 0.0)

    @triton.jit
    def _advance(
        x, g, m, cross, norms, rows, columns, decay, factor, chunk,
        ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    ):  # fmt: skip
        s, piece = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
        count = tl.num_programs(0).to(tl.int64)
        k = tl.arange(0, ROWS)
        real = tl.zeros((ROWS, ROWS), dtype=tl.float32)
        imaginary = tl.zeros((ROWS, ROWS), dtype=tl.float32)
        of_g, of_m = tl.zeros((ROWS,), dtype=tl.float32), tl.zeros((ROWS,), dtype=tl.float32)
        for tile in range(chunk):
            column = (tl.program_id(1) * chunk + tile) * COLUMNS + tl.arange(0, COLUMNS)
            inside = (k[:, None] < rows) & (column[None, :] < columns)
            place = s * rows * columns + k[:, None] * columns + column[None, :]
            new_g = tl.load(g + place, inside, 0.0)
            new_m = decay * tl.load(m + place, inside, 0.0) + factor * new_g
            tl.store(m + place, new_m, inside)
            of_g += tl.sum(new_g * new_g, axis=1)
            of_m += tl.sum(new_m * new_m, axis=1)
            z = _rounded(tl.load(x + place, inside, 0.0))
            adjoint = tl.trans(_rounded(new_m))
            real = tl.dot(z, adjoint, real, input_precision="tf32")
            imaginary = tl.dot(_turned(z, -1.0, ROWS, COLUMNS), adjoint, imaginary, input_precision="tf32")
        _square(cross, s, count, piece, real, imaginary, rows, ROWS)
        target = norms + (piece * 2 * count + s) * rows + k
        tl.store(target, of_g, k < rows)
        tl.store(target + count * rows, of_m, k < rows)

    @triton.jit
    def _move(
        x, m, factor, size, speed, gram, rows, columns, chunk, SCALE: tl.constexpr,
        ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    ):  # fmt: skip
        s, piece = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
        count = tl.num_programs(0).to(tl.int64)
        k = tl.arange(0, ROWS)
        f_re, f_im = _small(factor, s, 0, rows, ROWS), _small(factor, s, 1, rows, ROWS)
        back = tl.load(size + s) / SCALE
        r = tl.load(speed + s * rows + k, k < rows, 0.0)[:, None]
        real = tl.zeros((ROWS, ROWS), dtype=tl.float32)
        imaginary = tl.zeros((ROWS, ROWS), dtype=tl.float32)
        for tile in range(chunk):
            column = (tl.program_id(1) * chunk + tile) * COLUMNS + tl.arange(0, COLUMNS)
            inside = (k[:, None] < rows) & (column[None, :] < columns)
            place = s * rows * columns + k[:, None] * columns + column[None, :]
            z = tl.load(x + place, inside, 0.0)
            half = (SCALE * z).to(tl.float16)
            change = tl.dot(f_re, half)
            change = tl.dot(f_im, _turned(half, 1.0, ROWS, COLUMNS), change)
            y = z + back * change - r * tl.load(m + place, inside, 0.0)
            tl.store(x + place, y, inside)
            # Of y = h + l: Re YYᴴ = P + Pᵀ with P = (h/2 + l)hᵀ, Im YYᴴ = Q − Qᵀ with the turned h and l on
            # the left; l·l is below rounding. Each tile is summed from zero, since the matrix units cut off
            # rather than round.
            high = (SCALE * y).to(tl.float16)
            low = (SCALE * y - high.to(tl.float32)).to(tl.float16)
            adjoint = tl.trans(high)
            half = (0.5 * high).to(tl.float16)
            part = tl.dot(half, adjoint)
            real += tl.dot(low, adjoint, part)
            part = tl.dot(_turned(half, -1.0, ROWS, COLUMNS), adjoint)
            imaginary += tl.dot(_turned(low, -1.0, ROWS, COLUMNS), adjoint, part)
        real = (real + tl.trans(real)) / (SCALE * SCALE)
        imaginary = (imaginary - tl.trans(imaginary)) / (SCALE * SCALE)
        _square(gram, s, count, piece, real, imaginary, rows, ROWS)

    @triton.jit
    def _retract(
        x, high, low, size, rows, columns, chunk, LITTLE: tl.constexpr, SCALE: tl.constexpr,
        ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    ):  # fmt: skip
        largest = tl.load(size + tl.program_id(0))
        if largest <= LITTLE:
            _add_product(x, high, low, largest, rows, columns, chunk, False, SCALE, ROWS, COLUMNS)
        else:
            _add_product(x, high, low, largest, rows, columns, chunk, True, SCALE, ROWS, COLUMNS)

    @triton.jit
    def _add_product(
        x, high, low, largest, rows, columns, chunk, EXACT: tl.constexpr, SCALE: tl.constexpr,
        ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    ):  # fmt: skip
        s = tl.program_id(0).to(tl.int64)
        k = tl.arange(0, ROWS)
        h_re, h_im = _small(high, s, 0, rows, ROWS), _small(high, s, 1, rows, ROWS)
        if EXACT:
            l_re, l_im = _small(low, s, 0, rows, ROWS), _small(low, s, 1, rows, ROWS)
        for tile in range(chunk):
            column = (tl.program_id(1) * chunk + tile) * COLUMNS + tl.arange(0, COLUMNS)
            inside = (k[:, None] < rows) & (column[None, :] < columns)
            place = s * rows * columns + k[:, None] * columns + column[None, :]
            y = tl.load(x + place, inside, 0.0)
            first = (SCALE * y).to(tl.float16)
            turned = _turned(first, 1.0, ROWS, COLUMNS)
            change = tl.dot(h_re, first)
            change = tl.dot(h_im, turned, change)
            if EXACT:
                second = (SCALE * y - first.to(tl.float32)).to(tl.float16)
                change = tl.dot(h_re, second, change)
                change = tl.dot(h_im, _turned(second, 1.0, ROWS, COLUMNS), change)
                change = tl.dot(l_re, first, change)
                change = tl.dot(l_im, turned, change)
            tl.store(x + place, y + largest / SCALE * change, inside)
