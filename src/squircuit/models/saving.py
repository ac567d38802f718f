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

if TYPE_CHECKING:
    from squircuit.models.squared_circuit import SquaredCircuit

KIND = "model"
STRUCTURE = "structure"  #: the tensor of bytes that holds the circuit
LOGITS = "root_logits"


def save(model: SquaredCircuit, path: str | PathLike[str], notes: Mapping[str, Any]) -> None:
    """Write a model; see :meth:`SquaredCircuit.save`."""
    _require_described(model)
    text = model.structure.to_json().encode()
    members = stacked_names(model)
    weights = {name: getattr(model, name).detach() for name in members}
    for name, value in weights.items():
        _require_finite(name, value)
    if model.structure.root_weights is not None:
        weights[LOGITS] = model.get_parameter(LOGITS).detach()
    document = {
        "dtype": str(model.precision).removeprefix("torch."),
        "unitary": model.is_unitary,
        "weights": members,
        "structure_bytes": len(text),
        "schema": None if model.schema is None else model.schema.to_dict(),
        "shape": None if model.shape is None else list(model.shape),
        "notes": _mapping(notes),
    }
    storage.write(path, weights | {STRUCTURE: compressed(text)}, document, KIND)


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
        >>> decompressed(compressed(b"0" * 1000), 1000) == b"0" * 1000
        True
    """
    return torch.from_numpy(np.frombuffer(bytearray(zlib.compress(text)), dtype=np.uint8))


def decompressed(data: Tensor, size: int) -> bytes:
    """The bytes, which are as many as is said: a small file cannot fill the memory."""
    try:
        text = zlib.decompressobj().decompress(data.numpy().tobytes(), size + 1)
    except (zlib.error, TypeError, ValueError, OverflowError) as error:
        raise FormatError(f"its structure is no zlib data ({error})") from error
    if len(text) != size:
        raise FormatError(f"its structure has {len(text)} bytes or more, expected {size}")
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
