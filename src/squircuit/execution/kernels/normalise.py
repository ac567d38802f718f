"""Kernel that scales the outputs of layers to norm 1 and keeps their log-scales, in one launch.

Twin: the plain half of ``log_scales.normalise``. Contract: the same result up to the order of summation, for
contiguous float32 planes on a CUDA device.
"""

from __future__ import annotations

import torch
from torch import Tensor

from squircuit.execution.kernels.compiler import can_serve, tl, triton

MOST_SCALES = 4


def usable(out: Tensor, values: Tensor, scales: list[Tensor]) -> bool:
    """The kernel can serve these: float32 on a CUDA device, at most four factors' scales."""
    return len(scales) <= MOST_SCALES and can_serve(torch.float32, out, values, *scales)


def normalise(out: Tensor, scales: list[Tensor], values: Tensor, scale: Tensor) -> Tensor:
    """v/‖v‖ → ``values``, log‖v‖ + Σ s_i → ``scale``; returns 1/‖v‖: (F, 1, 1, B).

    What is zero, or too small for one over it to be a float, is left as it is.
    """
    folds, units, planes, batch = out.shape
    inverse = out.new_empty(folds, 1, 1, batch)
    block = min(64, triton.next_power_of_2(batch))
    rows = min(16, triton.next_power_of_2(units * planes))
    four = (scales + [inverse] * MOST_SCALES)[:MOST_SCALES]
    _normalise[(folds, triton.cdiv(batch, block))](
        out, *four, values, scale, inverse, units * planes, batch,
        SMALLEST=torch.finfo(out.dtype).tiny, COUNT=len(scales), ROWS=rows, BATCH=block,
    )  # fmt: skip
    return inverse


if triton is not None:

    @triton.jit
    def _normalise(
        out,
        first,
        second,
        third,
        fourth,
        values,
        scale,
        inverse,
        rows,
        batch,
        SMALLEST: tl.constexpr,
        COUNT: tl.constexpr,
        ROWS: tl.constexpr,
        BATCH: tl.constexpr,
    ):
        fold = tl.program_id(0).to(tl.int64)
        column = tl.program_id(1) * BATCH + tl.arange(0, BATCH)
        b, inside = column[None, :], column < batch
        square = tl.zeros((BATCH,), dtype=tl.float64)  # no square of a float32 leaves its range
        for start in range(0, rows, ROWS):
            row = start + tl.arange(0, ROWS)[:, None]
            value = tl.load(out + (fold * rows + row) * batch + b, (row < rows) & (b < batch), 0.0)
            exact = value.to(tl.float64)
            square += tl.sum(exact * exact, axis=0)
        norm = tl.sqrt(square).to(tl.float32)
        norm = tl.where(norm < SMALLEST, 1.0, norm)  # one over smaller floats is infinite
        reciprocal = 1 / norm
        for start in range(0, rows, ROWS):
            row = start + tl.arange(0, ROWS)[:, None]
            place = (fold * rows + row) * batch + b
            value = tl.load(out + place, (row < rows) & (b < batch), 0.0)
            tl.store(values + place, value * reciprocal[None, :], (row < rows) & (b < batch))
        total = tl.log(norm)
        at = fold * batch + column
        if COUNT > 0:
            total += tl.load(first + at, inside, 0.0)
        if COUNT > 1:
            total += tl.load(second + at, inside, 0.0)
        if COUNT > 2:
            total += tl.load(third + at, inside, 0.0)
        if COUNT > 3:
            total += tl.load(fourth + at, inside, 0.0)
        tl.store(scale + at, total, inside)
        tl.store(inverse + at, reciprocal, inside)
