"""Models from files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import torch
from torch import Tensor

from squircuit import storage
from squircuit.circuits import Circuit
from squircuit.data import Schema
from squircuit.errors import FormatError, ParameterError
from squircuit.models.saving import KIND, MOST_STRUCTURE, STRUCTURE, decompressed
from squircuit.models.squared_circuit import SquaredCircuit
from squircuit.models.weights import LOGITS
from squircuit.storage.words import one_line, without_fix

MOST_AXES = 64
"""The most axes of an array of NumPy, and so of an image."""


def load(path: str | PathLike[str], device: torch.device | str | int | None = None) -> SquaredCircuit:
    """The model that ``model.save(path)`` wrote: the same structure, weights, precision, schema and notes.

    Its answers are the same bit by bit on the same machine. It is in evaluation mode: ``model.train()`` to
    go on training it in a loop of your own.

    Weights are read a part of the file at a time, checked, and go to the device at once: beside them no more
    than a part of a file in parts has to fit into main memory.

    Args:
        path: of the file; its parts, where it has some, are in the same folder.
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
    content = storage.Content(path, KIND)
    try:
        return _model(content, place).eval()
    except (
        Exception
    ) as error:  # anybody may have written the file, and the parts of a model raise what suits them
        if isinstance(error, FormatError) and str(error).startswith(str(path)):
            raise
        reason = (
            f"the entry {one_line(error)} is missing" if isinstance(error, KeyError) else without_fix(error)
        )
        raise FormatError(
            f"{path}: not a valid model: {reason}. Fix: save it again with model.save(path)."
        ) from error


def _model(content: storage.Content, device: torch.device) -> SquaredCircuit:
    document = content.document
    circuit = _circuit(content)
    real = {"float32": torch.float32, "float64": torch.float64}[document["dtype"]]
    _require_forms(circuit, content, document["weights"], real)
    schema, shape = _schema(circuit, document), _shape(circuit, document)
    model = SquaredCircuit(circuit.with_weights(_without_memory(circuit)), dtype=real)
    model.schema, model.shape, model.notes = schema, shape, _notes(document["notes"])
    model.make_room(device)
    for tensor, first, entries in content.pieces(device):
        if tensor == LOGITS:
            model.get_parameter(LOGITS).data[first : first + len(entries)] = entries
        elif tensor != STRUCTURE:
            for name, value in zip(document["weights"][tensor][first:], entries, strict=False):
                model.fill(name, circuit.parameters[name].checked(value))
    if circuit.root_weights is not None:
        circuit.root_weights.checked(model.get_parameter(LOGITS).detach().softmax(dim=0))
    return model


def _without_memory(circuit: Circuit) -> dict[str, Tensor]:
    """Values for all parameters that are to be filled in; root weights are uniform until then."""
    weights = {
        name: torch.empty(p.shape, dtype=torch.complex128 if p.is_complex else torch.float64, device="meta")
        for name, p in circuit.parameters.items()
    }
    if circuit.root_weights is not None:
        shares = torch.full((circuit.num_roots,), 1 / circuit.num_roots, dtype=torch.float64)
        weights[circuit.parameter_name(circuit.root_weights)] = shares
    return weights


def _circuit(content: storage.Content) -> Circuit:
    """The structure, the only tensor that is read before all others have been looked at."""
    form = content.forms[STRUCTURE]
    if form.dtype != torch.uint8 or len(form.shape) != 1 or form.shape[0] > MOST_STRUCTURE:
        raise FormatError(
            f"its structure has shape {form.shape} of {form.dtype}, expected (n,) of bytes"
            ". Fix: save the model again."
        )
    text = decompressed(content.tensor(STRUCTURE))
    size = content.document["structure_bytes"]
    if type(size) is not int or size != len(text):
        raise FormatError(
            f"its structure has {len(text)} bytes, expected {size!r}. Fix: save the model again."
        )
    return Circuit.from_json(text.decode())


def _require_forms(
    circuit: Circuit, content: storage.Content, members: Mapping[str, Sequence[str]], real: torch.dtype
) -> None:
    """Every tensor is there as the structure says, and no other: else nothing is read."""
    forms, simplex = content.forms, circuit.root_weights
    held = {name: stack for stack, names in members.items() for name in names}
    for name, stack in held.items():
        parameter = circuit.parameters[name]
        dtype = real.to_complex() if parameter.is_complex else real
        _require(forms, stack, (len(members[stack]), *parameter.shape), dtype)
    for name, parameter in circuit.parameters.items():
        if name not in held and parameter is not simplex:
            raise FormatError(f"no tensor holds the parameter {name!r}. Fix: save the model again.")
    if simplex is not None:
        _require(forms, LOGITS, (circuit.num_roots,), real)
    known = {STRUCTURE, *members, *([] if simplex is None else [LOGITS])}
    for name in forms:
        if name not in known:
            raise FormatError(
                f"the tensor {name!r} belongs to nothing in the structure. Fix: save the model again."
            )


def _require(
    forms: Mapping[str, storage.Form], name: str, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    if name not in forms:
        raise FormatError(f"the tensor {name!r} is missing. Fix: save the model again.")
    if forms[name] != (shape, dtype):
        found = forms[name]
        raise FormatError(
            f"the tensor {name!r} has shape {found.shape} of {found.dtype}, expected {shape} of {dtype}"
            ". Fix: save the model again."
        )


def _schema(circuit: Circuit, document: Mapping[str, Any]) -> Schema | None:
    if document["schema"] is None:
        return None
    schema = Schema.from_dict(document["schema"])
    if len(schema.columns) != circuit.num_variables:
        raise FormatError(
            f"its schema has {len(schema.columns)} columns, the circuit {circuit.num_variables} variables"
            ". Fix: save the model again."
        )
    return schema


def _shape(circuit: Circuit, document: Mapping[str, Any]) -> tuple[int, ...] | None:
    shape = document["shape"]
    if shape is None:
        return None
    d = circuit.num_variables
    if not isinstance(shape, list) or any(type(side) is not int or not 1 <= side <= d for side in shape):
        raise FormatError(
            f"its shape is {shape!r}, expected a list of whole numbers. Fix: save the model again."
        )
    if len(shape) > MOST_AXES or math.prod(shape) != d:
        raise FormatError(
            f"its shape is {shape!r}, the circuit has {d} variables. Fix: save the model again."
        )
    return tuple(shape)


def _notes(found: Any) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise FormatError(f"its notes are {found!r}, expected a mapping. Fix: save the model again.")
    return found


def _device(device: torch.device | str | int | None) -> torch.device:
    try:
        place = torch.device("cpu" if device is None else device)
        torch.empty(0, device=place)
    except (RuntimeError, TypeError, AssertionError) as error:
        here = "'cpu' or 'cuda'" if torch.cuda.is_available() else "'cpu'"
        raise ParameterError(
            f"device={device!r} is not there ({one_line(error)}). Fix: pass {here}."
        ) from error
    return place
