"""Where TF32 and flushed denormals may serve, in training steps and nowhere else, and where double must."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


@contextmanager
def tf32(allowed: bool) -> Iterator[None]:
    """TF32 in matrix products on or off, whatever the global setting, which is put back."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


@contextmanager
def flushed_denormals() -> Iterator[None]:
    """Let a CPU count numbers too small for their exponent as 0; the setting of before is put back.

    Gradients of the roots that have no share in a row are such numbers, and each costs a hundred cycles.
    """
    before = torch.tensor([1e-40]).mul(1).item() == 0  # torch has no function that tells
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def double(value: Tensor) -> Tensor:
    """Convert a tensor to double precision, real or complex."""
    return value.to(torch.complex128 if value.is_complex() else torch.float64)


def recomputed(log_p: Tensor, lost: Tensor, again: Callable[[Tensor], Tensor]) -> Tensor:
    """Logarithms with some rows computed once more, with more care.

    Args:
        log_p: (n,), or (n, M) for the terms of a sum.
        lost: which rows, booleans (n,).
        again: indices of rows → their values.

    Example:
        >>> recomputed(torch.zeros(3), torch.tensor([True, False, True]), lambda rows: rows + 0.5)
        tensor([0.5000, 0.0000, 2.5000])
    """
    rows = lost.nonzero()[:, 0]
    return log_p.index_put((rows,), again(rows).to(log_p.dtype)) if len(rows) else log_p
