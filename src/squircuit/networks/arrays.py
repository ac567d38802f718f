"""Arrays that users pass: numpy arrays or tensors, of finite numbers, with no empty side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np
import torch
from torch import Tensor

from squircuit.errors import ParameterError, is_whole


def as_tensor(array: Any, where: str) -> Tensor:
    """``array`` as a floating or complex tensor; integers become float64. One clear error otherwise.

    Arrays that are not tensors are copied, so that a later change of theirs does not change a circuit.

    Example:
        >>> as_tensor([[1, 2]], "site 0")
        tensor([[1., 2.]], dtype=torch.float64)
    """
    tensor = array.resolve_conj() if isinstance(array, Tensor) else _from_numpy(array, where)
    if not tensor.is_floating_point() and not tensor.is_complex():
        tensor = tensor.double()
    if 0 in tensor.shape:
        raise ParameterError(
            f"{where}: every side of shape {tuple(tensor.shape)} must be ≥ 1. Fix: leave such an array out."
        )
    if not bool(torch.isfinite(tensor).all()):
        raise ParameterError(
            f"{where}: the tensor of shape {tuple(tensor.shape)} holds NaN or infinity"
            ". Fix: pass finite numbers."
        )
    return tensor


def as_tensors(arrays: Any, kind: str) -> list[Tensor]:
    """:func:`as_tensor` of every item; messages speak of "site 0 of …" where ``kind`` is "site {} of …"."""
    if not isinstance(arrays, Sequence | np.ndarray | Tensor) or isinstance(arrays, str):
        raise ParameterError(
            f"{kind.format('j')}: expected a list of arrays, got {type(arrays).__name__}. Fix: pass a list."
        )
    return [as_tensor(array, kind.format(j)) for j, array in enumerate(arrays)]


def common_dtype(tensors: list[Tensor]) -> torch.dtype:
    """Double precision, complex where any of the tensors is: real networks stay real."""
    return torch.complex128 if any(tensor.is_complex() for tensor in tensors) else torch.float64


def is_index(value: Any) -> TypeGuard[int]:
    """Whether a value counts as an integer from 0: ints and numpy integers do, ``True`` and ``3.0`` do not.

    Example:
        >>> is_index(3), is_index(np.int64(3)), is_index(True), is_index(-1)
        (True, True, False, False)
    """
    return is_whole(value, 0)


def _from_numpy(array: Any, where: str) -> Tensor:
    try:
        return torch.tensor(np.array(array, order="C"))
    except (TypeError, ValueError, RuntimeError) as error:
        raise ParameterError(
            f"{where}: expected an array of numbers, got {type(array).__name__}: {error}"
            ". Fix: pass an array or a tensor."
        ) from error
