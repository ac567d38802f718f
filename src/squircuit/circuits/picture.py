"""A picture of a circuit: a box for every layer, inputs at the bottom."""

from __future__ import annotations

from collections.abc import Sequence

from squircuit.circuits.layers import Input, Kronecker, Layer, Sum
from squircuit.circuits.structure import Structure
from squircuit.regions.svg import Node, draw_graph


def draw(circuit: Structure, names: Sequence[str] | None = None) -> str:
    """SVG text: Σ for sums, ⊗ and ⊙ for Kronecker and Hadamard products, x_i for inputs, with their units.

    Inputs are called x_i or, where they are given, by the names of their variables.

    Scalar circuits are drawn as in the literature, with + and ×.
    """
    index = {layer: i for i, layer in enumerate(circuit.layers)}
    levels = circuit.depths()
    label = _unit_label if circuit.is_scalar else _layer_label
    return draw_graph(
        [
            Node(
                label(layer, names), _kind(layer), tuple(index[item] for item in layer.inputs), levels[layer]
            )
            for layer in circuit.layers
        ]
    )


def _kind(layer: Layer) -> str:
    return layer.kind if isinstance(layer, Input | Sum) else "product"


def _layer_label(layer: Layer, names: Sequence[str] | None) -> str:
    units = f"{layer.units} unit" + ("s" if layer.units != 1 else "")
    if isinstance(layer, Input):
        return f"{_variables(layer, names)}\n{units}"
    symbol = "Σ" if isinstance(layer, Sum) else "⊗" if isinstance(layer, Kronecker) else "⊙"
    return f"{symbol}  {units}"


def _unit_label(layer: Layer, names: Sequence[str] | None) -> str:
    return _variables(layer, names) if isinstance(layer, Input) else "+" if isinstance(layer, Sum) else "×"


def _variables(layer: Input, names: Sequence[str] | None) -> str:
    """The variables of an input layer, the first and the last of many."""
    found = [f"x{v}" if names is None else names[v] for v in layer.variables]
    return " ".join(found) if len(found) <= 3 else f"{found[0]} … {found[-1]}"
