"""Circuits as JSON text: the structure, and on request the values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict

import torch
from torch import Tensor

from squircuit.circuits.layers import Hadamard, Input, Kronecker, Layer, Sum
from squircuit.circuits.parameter import Constraint, Parameter
from squircuit.errors import FormatError, SquircuitError
from squircuit.families.serialise import family_from_dict, family_to_dict

if TYPE_CHECKING:
    from squircuit.circuits.circuit import Circuit

FORMAT, VERSION = "squircuit.circuit", 1


class Arguments(TypedDict):
    """What :class:`Circuit` is made from."""

    roots: list[Layer]
    root_weights: Parameter | None
    validate: bool


def to_json(circuit: Circuit, *, weights: bool = False) -> str:
    """JSON text of a circuit.

    Args:
        circuit: the circuit.
        weights: include the values of all parameters, not only those that belong to the structure
            (fixed ones, initial shifts and scales). Exact, but large: for small circuits.

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
    values = circuit.weights if weights else kept
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
    try:
        document = json.loads(text)
    except (json.JSONDecodeError, TypeError, RecursionError) as error:
        raise FormatError(f"not JSON text: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FormatError(f'not a circuit: expected a JSON object with "format": "{FORMAT}"')
    if document.get("version") != VERSION:
        raise FormatError(
            f"version {document.get('version')!r} of {FORMAT} is not known; this is version {VERSION}"
        )
    try:
        return _read(document)
    except SquircuitError:
        raise
    except KeyError as error:
        raise FormatError(f"damaged circuit: the entry {error} is missing") from error
    except (TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise FormatError(f"damaged circuit: {error}") from error


def _read(document: Mapping[str, Any]) -> Arguments:
    parameters = {str(item["name"]): _parameter_from_dict(item) for item in document["parameters"]}
    layers: list[Layer] = []
    for position, item in enumerate(document["layers"]):
        layers.append(_layer_from_dict(position, item, layers, parameters))
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
    shape = tuple(item["shape"])
    value = None if item["value"] is None else _tensor(item["value"], shape)
    return Parameter(shape, Constraint(item["constraint"]), bool(item["complex"]), item["name"], value)


def _numbers(value: Tensor) -> dict[str, Any]:
    """Dtype and flat list of reals; Python writes floats so that they come back exactly."""
    flat = torch.view_as_real(value.resolve_conj()) if value.is_complex() else value
    return {"dtype": str(value.dtype).removeprefix("torch."), "data": flat.flatten().double().tolist()}


def _tensor(item: Mapping[str, Any], shape: tuple[int, ...]) -> Tensor:
    dtype = getattr(torch, item["dtype"])
    flat = torch.tensor(item["data"], dtype=dtype.to_real())
    return torch.view_as_complex(flat.reshape(*shape, 2)) if dtype.is_complex else flat.reshape(shape)


def _layer_to_dict(circuit: Circuit, layer: Layer, index: Mapping[Layer, int]) -> dict[str, Any]:
    if isinstance(layer, Input):
        return {
            "kind": "input",
            "variable": layer.variable,
            "family": family_to_dict(layer.family),
            "units": layer.units,
            "weight": None if layer.weight is None else circuit.parameter_name(layer.weight),
            "first_row": layer.first_row,
            "parameters": {n: circuit.parameter_name(p) for n, p in layer.parameters.items()},
        }
    common = {"kind": layer.kind, "inputs": [index[item] for item in layer.inputs]}
    return {**common, "weight": circuit.parameter_name(layer.weight)} if isinstance(layer, Sum) else common


def _layer_from_dict(
    position: int, item: Mapping[str, Any], layers: list[Layer], parameters: Mapping[str, Parameter]
) -> Layer:
    where = f"layer {position}"
    if item["kind"] == "input":
        weight = None if item["weight"] is None else _named(parameters, item["weight"], where)
        shared = {name: _named(parameters, p, where) for name, p in item["parameters"].items()}
        family = family_from_dict(item["family"])
        return Input(
            item["variable"], family, item["units"] if weight else None, weight, item["first_row"], shared
        )
    inputs = [_at(layers, i, where) for i in item["inputs"]]
    match item["kind"]:
        case "hadamard":
            return Hadamard(inputs)
        case "kronecker":
            return Kronecker(inputs)
        case "sum":
            return Sum(inputs, weight=_named(parameters, item["weight"], where))
    raise FormatError(
        f"{where}: unknown kind {item['kind']!r}; the kinds are input, hadamard, kronecker and sum"
    )


def _at(layers: list[Layer], index: int, where: str) -> Layer:
    if not isinstance(index, int) or not 0 <= index < len(layers):
        raise FormatError(
            f"{where} refers to layer {index!r}, which does not come before it: "
            "layers form a cycle or are missing"
        )
    return layers[index]


def _named(parameters: Mapping[str, Parameter], name: str, where: str) -> Parameter:
    if name not in parameters:
        raise FormatError(f"{where} refers to parameter {name!r}, which is not listed")
    return parameters[name]


def _check_all_used(layers: list[Layer], roots: list[Layer]) -> None:
    used = {item for layer in layers for item in layer.inputs} | set(roots)
    for position, layer in enumerate(layers):
        if layer not in used:
            raise FormatError(f"layer {position} ({layer.kind}) is dangling: no layer and no root uses it")
