"""Where TF32 may serve: in the products of a training step, never in Grams, evaluation or log Z."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def tf32(allowed: bool) -> Iterator[None]:
    """TF32 in matrix products on or off, whatever the global setting, which is put back."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
