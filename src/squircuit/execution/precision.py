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
    """On a CPU, numbers too small for their exponent count as 0; the setting of before is put back.

    Gradients of the roots that have no share in a row are such numbers, and each costs a hundred cycles.
    """
    before = torch.tensor([1e-40]).mul(1).item() == 0  # torch has no function that tells
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def double(value: Tensor) -> Tensor:
    """To double precision, real or complex."""
    return value.to(torch.complex128 if value.is_complex() else torch.float64)


def past_underflow(log_p: Tensor, again: Callable[[Tensor], Tensor]) -> Tensor:
    """Rows of probability 0 once more in double precision: products of tiny factors vanish in single first.

    Args:
        log_p: (n,), or (n, M) for the terms of a sum.
        again: indices of rows → their log p in double precision.
    """
    zero = log_p == -torch.inf
    lost = (zero if zero.ndim == 1 else zero.any(dim=1)).nonzero()[:, 0]
    if log_p.dtype == torch.float64 or not len(lost):
        return log_p
    return log_p.index_put((lost,), again(lost).to(log_p.dtype))
