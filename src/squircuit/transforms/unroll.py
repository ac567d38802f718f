"""From layers to units."""

from __future__ import annotations

from itertools import product

import torch

from squircuit.circuits import Circuit, Hadamard, Input, Layer, Parameter, Sum
from squircuit.circuits.circuit import require_circuit
from squircuit.circuits.scalar import product_unit, sum_unit
from squircuit.reference.evaluate import input_weight


def unroll(circuit: Circuit) -> Circuit:
    """The scalar circuit of a layered one: a unit for every unit of every layer (§4 of the paper).

    A sum layer with weight W ∈ ℂ^{K1×K2} becomes K1 sums of K2 inputs, less those of weight zero
    (Def. 1 has none). Values and root weights stay. Cost O(|c|), in Python objects: for small circuits.

    >>> from squircuit.circuits import Kronecker
    >>> from squircuit.families import Categorical
    >>> x, y = Input(0, Categorical(2), units=2), Input(1, Categorical(2), units=2)
    >>> unroll(Circuit(Sum(Kronecker([x, y]), units=1)).initialise(seed=0))
    Circuit(2 variables, 9 layers, 1 root units, 24 parameters)
    """
    require_circuit("unroll", circuit)
    units: dict[Layer, list[Layer]] = {}
    shared: dict[Parameter, Parameter] = {}
    for layer in circuit.layers:
        units[layer] = _units(circuit, layer, [units[item] for item in layer.inputs], shared)
    pi = circuit.root_weights
    pi = None if pi is None else Parameter(pi.shape, pi.constraint, False, value=circuit.root_shares)
    return Circuit(
        [u for root in circuit.roots for u in units[root]], root_weights=pi, validate=circuit.validated
    )


def _units(
    circuit: Circuit, layer: Layer, inputs: list[list[Layer]], shared: dict[Parameter, Parameter]
) -> list[Layer]:
    if isinstance(layer, Input):
        return _input_units(circuit, layer, shared)
    if isinstance(layer, Sum):
        flat = [unit for item in inputs for unit in item]
        return [_sum(flat, row) for row in circuit.value(layer.weight)]
    combined = zip(*inputs, strict=True) if isinstance(layer, Hadamard) else product(*inputs)
    return [product_unit(item) for item in combined]


def _input_units(circuit: Circuit, layer: Input, shared: dict[Parameter, Parameter]) -> list[Layer]:
    for p in layer.parameters.values():
        shared.setdefault(p, Parameter(p.shape, p.constraint, p.is_complex, value=circuit.value(p)))
    family = {name: shared[p] for name, p in layer.parameters.items()}
    matrix = input_weight(circuit, layer)
    if layer.weight is None or not layer.weight.is_complex:
        matrix = matrix.real
    return [
        Input(layer.variables, layer.family, weight=row.unsqueeze(0), parameters=family) for row in matrix
    ]


def _sum(inputs: list[Layer], row: torch.Tensor) -> Layer:
    edges = row.nonzero().flatten().tolist() or range(len(inputs))
    return sum_unit([inputs[i] for i in edges], torch.stack([row[i] for i in edges]))
