"""The complex conjugate of a circuit."""

from __future__ import annotations

from squircuit.circuits import Circuit, Input, Layer, Parameter, Sum
from squircuit.circuits.require_circuit import require_circuit


def conjugate(circuit: Circuit) -> Circuit:
    """c* with c*(x) = c(x)*: conjugate input functions and weights (§2; App. A.5).

    Structure, names and ties stay, so every property does. Works without weights, too. Cost O(|c|).

    >>> import torch
    >>> from squircuit.families import Fourier
    >>> from squircuit.reference import evaluate
    >>> c = Circuit(Sum(Input(0, Fourier(3, period=1.0)), units=1)).initialise(seed=0)
    >>> bool(torch.allclose(evaluate(conjugate(c), [[0.3]]), evaluate(c, [[0.3]]).conj()))
    True
    """
    require_circuit("conjugate", circuit)
    parameters = {p: _conjugated(circuit, name, p) for name, p in circuit.parameters.items()}
    layers: dict[Layer, Layer] = {}
    for layer in circuit.layers:
        layers[layer] = _layer(layer, [layers[item] for item in layer.inputs], parameters)
    pi = None if circuit.root_weights is None else parameters[circuit.root_weights]
    return Circuit([layers[root] for root in circuit.roots], root_weights=pi, validate=circuit.validated)


def _conjugated(circuit: Circuit, name: str, parameter: Parameter) -> Parameter:
    value = circuit.weights[name] if circuit.has_weights else parameter.value
    value = value if value is None else value.conj().resolve_conj()
    return Parameter(parameter.shape, parameter.constraint, parameter.is_complex, name, value)


def _layer(layer: Layer, inputs: list[Layer], parameters: dict[Parameter, Parameter]) -> Layer:
    if isinstance(layer, Input):
        weight = None if layer.weight is None else parameters[layer.weight]
        shared = {name: parameters[p] for name, p in layer.parameters.items()}
        units = None if weight is None else layer.units
        return Input(layer.variables, layer.family.conjugate(), units, weight, layer.first_row, shared)
    if isinstance(layer, Sum):
        return Sum(inputs, weight=parameters[layer.weight])
    return type(layer)(inputs)  # type: ignore[call-arg]
