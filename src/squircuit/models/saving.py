"""A model as a file: the circuit as JSON, the stacked weights as tensors. `loading` reads it."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from squircuit import storage
from squircuit.errors import FormatError, ParameterError
from squircuit.models.weights import LOGITS
from squircuit.storage.files import PART

if TYPE_CHECKING:
    from squircuit.models.squared_circuit import SquaredCircuit

KIND = "model"
STRUCTURE = "structure"  #: the tensor of bytes that holds the circuit
MOST_STRUCTURE = 2**29
"""Bytes of the JSON of a circuit: two million layers."""
SMALL_STRUCTURE = 2**25
"""Bytes that any file may hold; fixed weights of zeros and ones are short as zlib data."""
RATIO = 64
"""How many bytes each byte of zlib data may add to that."""


def save(
    model: SquaredCircuit, path: str | PathLike[str], notes: Mapping[str, Any], part_bytes: int = PART
) -> None:
    """Write a model; see :meth:`SquaredCircuit.save`."""
    _require_described(model)
    text = model.structure.to_json().encode()
    members = stacked_names(model)
    weights = {name: model.held(name).detach() for name in members}
    for name, value in weights.items():
        _require_finite(name, value)
    if model.structure.root_weights is not None:
        weights[LOGITS] = model.held(LOGITS).detach()
    document = {
        "dtype": str(model.precision).removeprefix("torch."),
        "unitary": model.is_unitary,
        "weights": members,
        "structure_bytes": len(text),
        "schema": None if model.schema is None else model.schema.to_dict(),
        "shape": None if model.shape is None else list(model.shape),
        "notes": _mapping(notes),
    }
    storage.write(path, weights | {STRUCTURE: compressed(text)}, document, KIND, part_bytes)


def stacked_names(model: SquaredCircuit) -> dict[str, list[str]]:
    """Which parameters of the circuit each tensor of the model holds, in order.

    With these names a file does not depend on how a release groups the layers.
    """
    names = {stack.name: list(stack.parameters) for stack in model.plan.stacks}
    for parameter, (stack, _) in model.learnt.items():
        names.setdefault(stack, []).append(parameter)
    return names


def compressed(text: bytes) -> Tensor:
    """Bytes as zlib data, (n,) of uint8: the JSON of a circuit over an image takes a twentieth of its size.

    Example:
        >>> decompressed(compressed(b"0" * 1000)) == b"0" * 1000
        True
    """
    packed = zlib.compress(text)
    if len(text) > most_bytes(len(packed)):
        raise FormatError(
            f"the structure of the model takes {len(text):,} bytes, and {most_bytes(len(packed)):,} are the "
            "most that a file may hold. Fix: build a circuit with fewer layers or fixed weights."
        )
    return torch.from_numpy(np.frombuffer(bytearray(packed), dtype=np.uint8))


def most_bytes(packed: int) -> int:
    """The most bytes that so many bytes of zlib data may become, whatever the file says of itself.

    The JSON of real circuits is 4 to 20 times as long as its zlib data, and zlib could make it 1,000 times.

    Example:
        >>> most_bytes(1_000_000) / 1e6, most_bytes(10**9) == MOST_STRUCTURE
        (97.554432, True)
    """
    return min(MOST_STRUCTURE, SMALL_STRUCTURE + RATIO * packed)


def decompressed(data: Tensor) -> bytes:
    """The bytes; no more memory is used than `most_bytes` allows, so that a small file cannot fill it."""
    packed, most = data.numpy().tobytes(), most_bytes(data.numel())
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(packed, most + 1)
    except zlib.error as error:
        raise FormatError(f"its structure is no zlib data ({error}). Fix: save the model again.") from error
    if len(text) > most:
        raise FormatError(
            f"its structure has more than {most:,} bytes, from {len(packed):,}. Fix: save the model again."
        )
    if not unpacker.eof:
        raise FormatError("its structure is no zlib data (it is cut off). Fix: save the model again.")
    return text


def _mapping(notes: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(notes, Mapping) or not all(isinstance(name, str) for name in notes):
        raise ParameterError(
            f"notes must be a mapping from texts, got {notes!r}. Fix: pass a dict such as {{'epochs': 20}}."
        )
    return dict(notes)


def _require_finite(name: str, value: Tensor) -> None:
    if not torch.isfinite(value).all():
        raise ParameterError(
            f"the weights {name!r} hold NaN or infinity, so the model is none. "
            "Fix: train again with a smaller learning rate, or save an earlier state."
        )


def _require_described(model: SquaredCircuit) -> None:
    """Schema and shape are of as many columns as the model has."""
    d = model.structure.num_variables
    if model.schema is not None and len(model.schema.columns) != d:
        raise ParameterError(
            f"model.schema has {len(model.schema.columns)} columns, the model {d} variables. "
            "Fix: set the schema of its table, or None."
        )
    if model.shape is not None and math.prod(model.shape) != d:
        raise ParameterError(
            f"model.shape is {model.shape}, the model has {d} variables. Fix: set the shape of its images, "
            "or None."
        )
