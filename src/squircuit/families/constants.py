"""Fixed numbers of families as tensors, made once for each device: a CUDA graph cannot copy from the host."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from squircuit.families.compiler import opaque_to_compiler


def constant(numbers: float | tuple[float, ...], like: Tensor) -> Tensor:
    """The numbers as a tensor, () or (n,), in the dtype and on the device of ``like``.

    Example:
        >>> constant((0.5, 2.0), torch.zeros(()))
        tensor([0.5000, 2.0000])
    """
    return _constant(numbers, like.dtype, like.device)


@opaque_to_compiler  # traced through, the cache would be lost
@lru_cache(maxsize=4096)
def _constant(numbers: float | tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(mode=False):  # the result outlives the caller's mode
        return torch.tensor(numbers, dtype=dtype, device=device)
