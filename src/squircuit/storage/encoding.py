"""Tensors as safetensors holds them, complex ones as pairs of reals, and the checksum of all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from squircuit.errors import ParameterError


def encoded(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], list[str]]:
    """Real copies on the CPU, each in memory of its own, and the names of those that are pairs.

    Example:
        >>> plain, complex_names = encoded({"z": torch.tensor([1 + 2j]), "n": torch.tensor(3)})
        >>> plain["z"], complex_names
        (tensor([[1., 2.]]), ['z'])
    """
    complex_names = complex_of(tensors)
    return {name: _plain(value) for name, value in tensors.items()}, complex_names


def complex_of(tensors: Mapping[str, Tensor]) -> list[str]:
    """The names of the complex ones, once all are known to be tensors that can be stored."""
    for name, value in tensors.items():
        _require_tensor(name, value)
    return sorted(name for name, value in tensors.items() if value.is_complex())


def nbytes(value: Tensor) -> int:
    """Bytes of a tensor in a file."""
    return value.numel() * value.element_size()


def decoded(plain: Mapping[str, Tensor], complex_names: Iterable[str]) -> dict[str, Tensor]:
    """The tensors that were encoded."""
    pairs = frozenset(complex_names)
    return {name: torch.view_as_complex(value) if name in pairs else value for name, value in plain.items()}


def digest(notes: Mapping[str, str], plain: Mapping[str, Tensor]) -> str:
    """The SHA-256 of texts and of names, types, shapes and bytes of tensors."""
    total = hashlib.sha256(json.dumps(notes, sort_keys=True).encode())
    for name in sorted(plain):
        value = plain[name]
        total.update(json.dumps([name, str(value.dtype), list(value.shape)]).encode())
        total.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


def _plain(value: Tensor) -> Tensor:
    value = value.detach().resolve_conj().resolve_neg()
    real = torch.view_as_real(value) if value.is_complex() else value
    return torch.empty(real.shape, dtype=real.dtype).copy_(real)  # dense, and shared with nobody


def _require_tensor(name: str, value: object) -> None:
    if not isinstance(name, str) or not isinstance(value, Tensor):
        raise ParameterError(f"{name!r}: a file holds tensors by name, got {value!r}. Fix: pass a tensor.")
    if value.layout is not torch.strided or value.is_meta or value.is_quantized:
        raise ParameterError(
            f"{name!r}: a {value.layout} tensor on {value.device} cannot be stored. Fix: pass a dense one."
        )
