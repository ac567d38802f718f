"""Triton, which compiles the kernels, or None in its place on machines that have none.

Every file of kernels imports both names from here and defines its kernels only ``if triton is not None``; its
function ``usable`` then sends callers to the twin in plain torch.
"""

from __future__ import annotations

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:  # pragma: no cover - depends on the machine
    triton = tl = None

__all__ = ["can_serve", "tl", "triton"]


def can_serve(dtype: torch.dtype, *tensors: Tensor) -> bool:
    """There is Triton, and all tensors lie contiguously on CUDA devices, in this type.

    Example:
        >>> can_serve(torch.float32, torch.zeros(2))
        False
    """
    return triton is not None and all(t.is_cuda and t.dtype == dtype and t.is_contiguous() for t in tensors)
