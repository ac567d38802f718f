"""Circuits as JSON text: the structure, and on request the values."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, TypedDict

import torch
from torch import Tensor

from squircuit.circuits.layers import Hadamard, Input, Kronecker, Layer, Sum
from squircuit.circuits.parameter import Constraint, Parameter
from squircuit.circuits.structure import Structure
from squircuit.errors import FormatError, ParameterError, SquircuitError
from squircuit.families.base import Family
from squircuit.families.serialise import family_from_dict, family_to_dict
from squircuit.storage.documents import parsed
from squircuit.storage.words import one_line, quoted, without_fix

FORMAT, VERSION = "squircuit.circuit", 1
FIX = "pass the text of circuit.to_json(), or write it again"
DTYPES = {
    str(t).removeprefix("torch."): t
    for t in (torch.float32, torch.float64, torch.complex64, torch.complex128)
}
MOST_UNITS = 2**40
"""Units of a layer and entries of a parameter: more fit into no machine."""
MOST_VARIABLES = 2**24
MOST_AXES = 8
MOST_SCOPES = 2**26
"""Variables in the scopes of all layers together, which each layer holds as a set."""
FEW, SPARSE = 4096, 8
"""Brackets that any text may have, and the characters for each further one; circuits have 45."""


class Arguments(TypedDict):
    """What a circuit is made from."""

    roots: list[Layer]
    root_weights: Parameter | None
    validate: bool


def to_json(circuit: Structure, weights: Mapping[str, Tensor] | None = None) -> str:
    """JSON text of a circuit.

    Args:
        circuit: the circuit.
        weights: the values of all parameters, where they are wanted. Default those that belong to the
            structure: fixed ones, initial shifts and scales.

    Example:
        >>> from squircuit.circuits import Circuit, Input, Sum
        >>> from squircuit.families import Categorical
        >>> text = Circuit(Sum(Input(0, Categorical(2)))).to_json()
        >>> Circuit.from_json(text)
        Circuit(1 variables, 2 layers, 1 root units, 4 parameters)
    """
    index = {layer: i for i, layer in enumerate(circuit.layers)}
    of_families = {p for layer in circuit.inputs for p in layer.parameters.values()}
    kept = {n: p.value for n, p in circuit.parameters.items() if p in of_families or _is_fixed(p)}
    values = kept if weights is None else weights
    document = {
        "format": FORMAT,
        "version": VERSION,
        "parameters": [_parameter_to_dict(n, p, values.get(n)) for n, p in circuit.parameters.items()],
        "layers": [_layer_to_dict(circuit, layer, index) for layer in circuit.layers],
        "roots": [index[root] for root in circuit.roots],
        "root_weights": None
        if circuit.root_weights is None
        else circuit.parameter_name(circuit.root_weights),
        "validate": circuit.validated,
    }
    return json.dumps(document)


def from_json(text: str) -> Arguments:
    """The arguments of the circuit that :func:`to_json` wrote; FormatError for any other text."""
    _require_sparse(text)
    document = parsed(text, "circuit", FIX)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise _wrong(f'not a circuit: expected a JSON object with "format": "{FORMAT}"')
    if document.get("version") != VERSION or isinstance(document["version"], bool):
        raise _wrong(
            f"version {quoted(document.get('version'))} of {FORMAT} is not known; this is version {VERSION}"
        )
    try:
        return _read(document)
    except ParameterError as error:
        raise _wrong(f"damaged circuit: {without_fix(error)}") from error
    except SquircuitError:
        raise
    except KeyError as error:
        raise _wrong(f"damaged circuit: the entry {one_line(error)} is missing") from error
    except Exception as error:  # anybody may have written the text, and layers raise what suits them
        raise _wrong(f"damaged circuit: {one_line(error)}") from error


def _require_sparse(text: str) -> None:
    """Refuse a text of brackets: each is an object of Python, which takes twenty times its place."""
    if isinstance(text, str) and text.count("[") + text.count("{") > FEW + len(text) // SPARSE:
        raise _wrong("not a circuit: more brackets than text")


def _wrong(reason: str) -> FormatError:
    return FormatError(f"{reason}. Fix: {FIX}.")


def _read(document: Mapping[str, Any]) -> Arguments:
    parameters = {str(item["name"]): _parameter_from_dict(item) for item in document["parameters"]}
    layers: list[Layer] = []
    entries = 0
    for position, item in enumerate(document["layers"]):
        layers.append(_layer_from_dict(position, item, layers, parameters))
        entries += len(layers[-1].scope)
        if entries > MOST_SCOPES:
            raise _wrong(
                f"layer {position}: the scopes of all layers have more than {MOST_SCOPES:,} variables"
            )
    roots = [_at(layers, i, "roots") for i in document["roots"]]
    _check_all_used(layers, roots)
    name = document["root_weights"]
    pi = None if name is None else _named(parameters, name, "roots")
    return {"roots": roots, "root_weights": pi, "validate": bool(document.get("validate", True))}


def _is_fixed(parameter: Parameter) -> bool:
    return parameter.constraint is Constraint.FIXED


def _parameter_to_dict(name: str, parameter: Parameter, value: Tensor | None) -> dict[str, Any]:
    return {
        "name": name,
        "shape": list(parameter.shape),
        "constraint": str(parameter.constraint),
        "complex": parameter.is_complex,
        "value": None if value is None else _numbers(value),
    }


def _parameter_from_dict(item: Mapping[str, Any]) -> Parameter:
    where = f"parameter {str(item['name'])[:60]!r}"
    shape = tuple(_whole(side, f"{where}: a side of its shape", 1) for side in item["shape"])
    if math.prod(shape[:MOST_AXES]) > MOST_UNITS or len(shape) > MOST_AXES:
        raise _wrong(f"{where}: the shape {quoted(shape)} has more than {MOST_UNITS:,} entries")
    value = None if item["value"] is None else _tensor(item["value"], shape)
    return Parameter(shape, Constraint(item["constraint"]), bool(item["complex"]), str(item["name"]), value)


def _whole(value: Any, what: str, least: int = 0, most: int = MOST_UNITS) -> int:
    """A whole number of JSON: true, 2.0 and Infinity are none."""
    if type(value) is not int or not least <= value <= most:
        raise _wrong(f"{what} is {quoted(value)}, expected a whole number from {least} to {most:,}")
    return value


def _numbers(value: Tensor) -> dict[str, Any]:
    """Dtype and flat list of reals; Python writes floats so that they come back exactly."""
    flat = torch.view_as_real(value.resolve_conj()) if value.is_complex() else value
    return {"dtype": str(value.dtype).removeprefix("torch."), "data": flat.flatten().double().tolist()}


def _tensor(item: Mapping[str, Any], shape: tuple[int, ...]) -> Tensor:
    dtype = DTYPES[item["dtype"]]
    flat = torch.tensor(item["data"], dtype=dtype.to_real())
    return torch.view_as_complex(flat.reshape(*shape, 2)) if dtype.is_complex else flat.reshape(shape)


def _layer_to_dict(circuit: Structure, layer: Layer, index: Mapping[Layer, int]) -> dict[str, Any]:
    if isinstance(layer, Input):
        return {
            "kind": "input",
            **_variables_to_dict(layer),
            "family": family_to_dict(layer.family),
            "units": layer.units,
            "weight": None if layer.weight is None else circuit.parameter_name(layer.weight),
            "first_row": layer.first_row,
            "parameters": {n: circuit.parameter_name(p) for n, p in layer.parameters.items()},
        }
    common = {"kind": layer.kind, "inputs": [index[item] for item in layer.inputs]}
    return {**common, "weight": circuit.parameter_name(layer.weight)} if isinstance(layer, Sum) else common


def _variables_to_dict(layer: Input) -> dict[str, Any]:
    """One variable by itself, as ever since the first files; those of a block in a list."""
    if isinstance(layer.family, Family):
        return {"variable": layer.variable}
    return {"variables": list(layer.variables)}


def _variables_from_dict(where: str, item: Mapping[str, Any]) -> int | list[int]:
    if "variables" not in item:
        return _whole(item["variable"], f"{where}: its variable", most=MOST_VARIABLES)
    return [_whole(v, f"{where}: one of its variables", most=MOST_VARIABLES) for v in item["variables"]]


def _layer_from_dict(
    position: int, item: Mapping[str, Any], layers: list[Layer], parameters: Mapping[str, Parameter]
) -> Layer:
    where = f"layer {position}"
    if item["kind"] == "input":
        return _input_from_dict(where, item, parameters)
    inputs = [_at(layers, i, where) for i in item["inputs"]]
    match item["kind"]:
        case "hadamard":
            return Hadamard(inputs)
        case "kronecker":
            _require_width(where, inputs)
            return Kronecker(inputs)
        case "sum":
            return Sum(inputs, weight=_named(parameters, item["weight"], where))
    raise _wrong(
        f"{where}: unknown kind {quoted(item['kind'])}; the kinds are input, hadamard, kronecker and sum"
    )


def _input_from_dict(where: str, item: Mapping[str, Any], parameters: Mapping[str, Parameter]) -> Input:
    weight = None if item["weight"] is None else _named(parameters, item["weight"], where)
    shared = {name: _named(parameters, p, where) for name, p in item["parameters"].items()}
    variables = _variables_from_dict(where, item)
    units = _whole(item["units"], f"{where}: its number of units", 1)
    first_row = _whole(item["first_row"], f"{where}: its first row")
    family = family_from_dict(item["family"])
    return Input(variables, family, None if weight is None else units, weight, first_row, shared)


def _require_width(where: str, inputs: list[Layer]) -> None:
    """Refuse products that squares of squares make wider than any number."""
    width = 1
    for layer in inputs:
        width *= layer.units
        if width > MOST_UNITS:
            raise _wrong(f"{where}: a Kronecker product of more than {MOST_UNITS:,} units")


def _at(layers: list[Layer], index: int, where: str) -> Layer:
    if type(index) is not int or not 0 <= index < len(layers):
        raise _wrong(
            f"{where} refers to layer {quoted(index)}, which does not come before it: "
            "layers form a cycle or are missing"
        )
    return layers[index]


def _named(parameters: Mapping[str, Parameter], name: str, where: str) -> Parameter:
    if not isinstance(name, str) or name not in parameters:
        raise _wrong(f"{where} refers to parameter {quoted(name)}, which is not listed")
    return parameters[name]


def _check_all_used(layers: list[Layer], roots: list[Layer]) -> None:
    used = {item for layer in layers for item in layer.inputs} | set(roots)
    for position, layer in enumerate(layers):
        if layer not in used:
            raise _wrong(f"layer {position} ({layer.kind}) is dangling: no layer and no root uses it")
