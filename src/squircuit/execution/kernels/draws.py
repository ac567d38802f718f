"""Kernels of exact samples on a GPU: what a walk does at each layer, in one launch in place of a dozen.

A walk goes through the layers one after the other, and all samples are drawn together: launches, and not
arithmetic, are what it waits for. Twins: ``draw_index`` and the choice of a column, and ``_normalised``, in
``inference.sampling``. Contract: the same numbers up to rounding, for complex64 on a CUDA device; masses are
summed in double precision, and none of mass zero is drawn.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from squircuit.execution.kernels.compiler import tl, triton

MOST_NUMBERS = 1 << 13  # of one row: they stay in registers


def usable(*values: Tensor) -> bool:
    """The kernels can serve: rows of not too many numbers, complex64 on a CUDA device."""
    return triton is not None and all(
        value.is_cuda and value.dtype == torch.complex64 and 0 < math.prod(value.shape[1:]) <= MOST_NUMBERS
        for value in values
    )


def column(tensor: Tensor, masses_of: Tensor, uniform: Tensor) -> Tensor:
    """One column of (B, K, J), drawn by its mass and brought to norm 1: (B, K).

    Args:
        masses_of: (B, L, J); Σ_l |v_lj|² is the mass of column j.
        uniform: (B,) in [0, 1), float64.
    """
    batch, units, count = tensor.shape
    tensor, masses_of = _plain(tensor), _plain(masses_of)
    out = torch.empty(batch, units, dtype=tensor.dtype, device=tensor.device)
    _column[(batch,)](
        torch.view_as_real(tensor), torch.view_as_real(masses_of), uniform, torch.view_as_real(out),
        units, masses_of.shape[1], count, UNITS=triton.next_power_of_2(units),
        HEIGHT=triton.next_power_of_2(masses_of.shape[1]), COUNT=triton.next_power_of_2(count), num_warps=4,
    )  # fmt: skip
    return out


def state(amplitudes: Tensor, table: Tensor, uniform: Tensor, x: Tensor, missing: Tensor) -> Tensor:
    """Draw states by |amplitude|² where they are missing, into ``x``; ℓ at what there is then, of norm 1.

    Args:
        amplitudes: (B, Q).
        table: ℓ at the states, (K, Q).
        uniform: (B,) in [0, 1), float64.
        x: (B,) float64, with any stride; written where ``missing``.
        missing: (B,) booleans, with any stride.

    Returns:
        (B, K).
    """
    batch, states = amplitudes.shape
    units = len(table)
    amplitudes, table = _plain(amplitudes), _plain(table)
    out = torch.empty(batch, units, dtype=table.dtype, device=table.device)
    _state[(batch,)](
        torch.view_as_real(amplitudes), torch.view_as_real(table), uniform, x, missing,
        torch.view_as_real(out), x.stride(0), missing.stride(0), states, units,
        STATES=triton.next_power_of_2(states), UNITS=triton.next_power_of_2(units), num_warps=4,
    )  # fmt: skip
    return out


def normalised(value: Tensor) -> Tensor:
    """Rows of norm 1, or zero, of any strides: (B, K)."""
    value = value.resolve_conj()
    batch, units = value.shape
    out = torch.empty(batch, units, dtype=value.dtype, device=value.device)
    _normalised[(batch,)](
        torch.view_as_real(value), torch.view_as_real(out), *value.stride(), units,
        UNITS=triton.next_power_of_2(units), num_warps=1 if units <= 256 else 4,
    )  # fmt: skip
    return out


def _plain(value: Tensor) -> Tensor:
    return value.resolve_conj().contiguous()


if triton is not None:

    @triton.jit
    def _pair(start, at, inside):
        return tl.load(start + 2 * at, inside, 0.0), tl.load(start + 2 * at + 1, inside, 0.0)

    @triton.jit
    def _drawn(masses, uniform, count):
        # the first index whose cumulative mass is beyond a share of all, as `draw_index` finds it
        cumulative = tl.cumsum(masses, axis=0)
        total = tl.max(cumulative, axis=0)
        below = (total.to(tl.int64, bitcast=True) - 1).to(tl.float64, bitcast=True)
        target = tl.minimum(uniform * total, tl.where(total > 0, below, 0.0))
        return tl.minimum(tl.sum((cumulative <= target).to(tl.int32), axis=0), count - 1)

    @triton.jit
    def _store_normalised(out, re, im, k, units):
        size = tl.sqrt(tl.sum(re * re + im * im, axis=0))
        factor = tl.where(size > 0, 1.0 / size, 0.0)
        tl.store(out + 2 * k, re * factor, k < units)
        tl.store(out + 2 * k + 1, im * factor, k < units)

    @triton.jit
    def _column(
        tensor, masses_of, uniform, out, units, height, count,
        UNITS: tl.constexpr, HEIGHT: tl.constexpr, COUNT: tl.constexpr,
    ):  # fmt: skip
        b = tl.program_id(0).to(tl.int64)
        row, j = tl.arange(0, HEIGHT)[:, None], tl.arange(0, COUNT)[None, :]
        re, im = _pair(masses_of + b * 2 * height * count, row * count + j, (row < height) & (j < count))
        masses = tl.sum((re * re + im * im).to(tl.float64), axis=0)
        drawn = _drawn(masses, tl.load(uniform + b), count)
        k = tl.arange(0, UNITS)
        re, im = _pair(tensor + b * 2 * units * count, k * count + drawn, k < units)
        _store_normalised(out + b * 2 * units, re, im, k, units)

    @triton.jit
    def _state(
        amplitudes, table, uniform, x, missing, out, of_x, of_missing, states, units,
        STATES: tl.constexpr, UNITS: tl.constexpr,
    ):  # fmt: skip
        b = tl.program_id(0).to(tl.int64)
        q, k = tl.arange(0, STATES), tl.arange(0, UNITS)
        re, im = _pair(amplitudes + b * 2 * states, q, q < states)
        drawn = _drawn((re * re + im * im).to(tl.float64), tl.load(uniform + b), states)
        lacks = tl.load(missing + b * of_missing) != 0
        known = tl.load(x + b * of_x)
        tl.store(x + b * of_x, drawn.to(tl.float64), lacks)
        at = tl.where(lacks, drawn.to(tl.int64), known.to(tl.int64))
        re, im = _pair(table, k * states + at, k < units)
        _store_normalised(out + b * 2 * units, re, im, k, units)

    @triton.jit
    def _normalised(value, out, down, along, units, UNITS: tl.constexpr):
        b = tl.program_id(0).to(tl.int64)
        k = tl.arange(0, UNITS)
        re, im = _pair(value + b * 2 * down, k * along, k < units)
        _store_normalised(out + b * 2 * units, re, im, k, units)
