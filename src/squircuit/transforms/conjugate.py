"""The complex conjugate of a circuit."""

from __future__ import annotations

from squircuit.circuits import Circuit, Input, Layer, Parameter
from squircuit.circuits.circuit import require_circuit
from squircuit.circuits.layers import copied


def conjugate(circuit: Circuit) -> Circuit:
    """c* with c*(x) = c(x)*: conjugate input functions and weights (§2; App. A.5).

    Structure, names and ties stay, so every property does. Works without weights, too. Cost O(|c|).

    >>> import torch
    >>> from squircuit.families import Fourier
    >>> from squircuit.reference import evaluate
    >>> from squircuit.circuits import Sum
    >>> c = Circuit(Sum(Input(0, Fourier(3, period=1.0)), units=1)).initialise(seed=0)
    >>> bool(torch.allclose(evaluate(conjugate(c), [[0.3]]), evaluate(c, [[0.3]]).conj()))
    True
    """
    require_circuit("conjugate", circuit)
    parameters = {p: _conjugated(circuit, name, p) for name, p in circuit.parameters.items()}

    def conjugated(layer: Layer, inputs: list[Layer]) -> Layer:
        family = layer.family.conjugate() if isinstance(layer, Input) else None
        return copied(layer, inputs, parameters, family)

    pi = None if circuit.root_weights is None else parameters[circuit.root_weights]
    return Circuit(circuit.rebuilt(conjugated), root_weights=pi, validate=circuit.validated)


def _conjugated(circuit: Circuit, name: str, parameter: Parameter) -> Parameter:
    value = circuit.weights[name] if circuit.has_weights else parameter.value
    value = value if value is None else value.conj().resolve_conj()
    return Parameter(parameter.shape, parameter.constraint, parameter.is_complex, name, value)
