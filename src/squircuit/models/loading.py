"""Models from files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import torch
from torch import Tensor

from squircuit import storage
from squircuit.circuits import Circuit
from squircuit.data import Schema
from squircuit.errors import FormatError, ParameterError, SquircuitError
from squircuit.models.saving import KIND, LOGITS, STRUCTURE, decompressed
from squircuit.models.squared_circuit import SquaredCircuit


def load(path: str | PathLike[str], device: torch.device | str | int | None = None) -> SquaredCircuit:
    """The model that ``model.save(path)`` wrote: the same structure, weights, precision, schema and notes.

    Its answers are the same bit by bit on the same machine. It is in evaluation mode: ``model.train()`` to
    go on training it in a loop of your own.

    Args:
        path: of the file.
        device: where the weights go; default the CPU.

    Raises:
        FormatError: that names the file, what is wrong and the fix. A damaged file is never loaded.

    Example:
        >>> import tempfile, squircuit as sq
        >>> model = sq.SquaredCircuit(sq.build(sq.regions.linear(3), sq.Categorical(2), units=2))
        >>> file = tempfile.mkdtemp() + "/model.safetensors"
        >>> model.save(file, notes={"trained": "not at all"})
        >>> again = load(file)
        >>> again.notes, torch.equal(again.log_prob([[0, 1, 0]]), model.log_prob([[0, 1, 0]]))
        ({'trained': 'not at all'}, True)
    """
    place = _device(device)
    tensors, document = storage.read(path, KIND)
    try:
        return _model(tensors, document).to(place).eval()
    except (SquircuitError, LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        reason = f"the entry {error} is missing" if isinstance(error, KeyError) else str(error)
        raise FormatError(
            f"{path}: not a valid model: {reason.rstrip('.')}. Fix: save it again with model.save(path)."
        ) from error


def _model(tensors: Mapping[str, Tensor], document: Mapping[str, Any]) -> SquaredCircuit:
    text = decompressed(tensors[STRUCTURE], document["structure_bytes"])
    circuit = Circuit.from_json(text.decode())
    real = {"float32": torch.float32, "float64": torch.float64}[document["dtype"]]
    weights = _unstacked(circuit, tensors, document["weights"], real)
    logits = _root_logits(circuit, tensors, real)
    if logits is not None:
        weights |= {circuit.parameter_name(circuit.root_weights): logits.softmax(dim=0)}  # type: ignore[arg-type]
    model = SquaredCircuit(circuit.with_weights(weights), dtype=real)
    if logits is not None:
        model.get_parameter(LOGITS).data.copy_(logits)
    schema, shape = document["schema"], document["shape"]
    model.schema = None if schema is None else Schema.from_dict(schema)
    model.shape = None if shape is None else tuple(shape)
    model.notes = dict(document["notes"])
    return model


def _unstacked(
    circuit: Circuit, tensors: Mapping[str, Tensor], members: Mapping[str, Sequence[str]], real: torch.dtype
) -> dict[str, Tensor]:
    """The values of the circuit's parameters from the tensors that hold several each."""
    values: dict[str, Tensor] = {}
    for stack, names in members.items():
        for number, name in enumerate(names):
            parameter = circuit.parameters[name]
            dtype = real.to_complex() if parameter.is_complex else real
            _require(tensors, stack, (len(names), *parameter.shape), dtype)
            values[name] = tensors[stack][number]
    simplex = circuit.root_weights
    for name, parameter in circuit.parameters.items():
        if name not in values and parameter is not simplex:
            raise FormatError(f"no tensor holds the parameter {name!r}")
    return values


def _root_logits(circuit: Circuit, tensors: Mapping[str, Tensor], real: torch.dtype) -> Tensor | None:
    if circuit.root_weights is None:
        return None
    _require(tensors, LOGITS, (circuit.num_roots,), real)
    return tensors[LOGITS]


def _require(tensors: Mapping[str, Tensor], name: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    if name not in tensors:
        raise FormatError(f"the tensor {name!r} is missing")
    found = tensors[name]
    if tuple(found.shape) != shape or found.dtype != dtype:
        raise FormatError(
            f"the tensor {name!r} has shape {tuple(found.shape)} of {found.dtype}, "
            f"expected {shape} of {dtype}"
        )


def _device(device: torch.device | str | int | None) -> torch.device:
    try:
        place = torch.device("cpu" if device is None else device)
        torch.empty(0, device=place)
    except (RuntimeError, TypeError, AssertionError) as error:
        here = "'cpu' or 'cuda'" if torch.cuda.is_available() else "'cpu'"
        raise ParameterError(
            f"device={device!r} is not there ({str(error).splitlines()[0]}). Fix: pass {here}."
        ) from error
    return place
