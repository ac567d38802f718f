"""A circuit to look at: a table with equal layers on one line, and a picture with a box for every layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from squircuit.circuits.layers import Input, Kronecker, Layer, Sum
from squircuit.circuits.structure import Structure
from squircuit.regions.svg import Node, draw_graph


def summary(circuit: Structure) -> str:
    """Layers by kind and shape, from the inputs to the root, with counts of layers and parameters.

    >>> from squircuit.circuits import build
    >>> from squircuit.families import Categorical
    >>> from squircuit.regions import quad_tree
    >>> print(build(quad_tree((4, 4)), Categorical(256), units=4).summary())
    kind      | layers | inputs        | units | weight  | constraint   | parameters
    ----------+--------+---------------+-------+---------+--------------+-----------
    input     |     16 | Categorical   |     4 | 4 × 256 | semi-unitary |     32,768
    kronecker |      4 | 4 × 4 × 4 × 4 |   256 |         |              |
    sum       |      4 | 256           |     4 | 4 × 256 | semi-unitary |      8,192
    kronecker |      1 | 4 × 4 × 4 × 4 |   256 |         |              |
    sum       |      1 | 256           |     1 | 1 × 256 | semi-unitary |        512
    16 variables, 26 layers, size 9,472, 41,472 real parameters (20,736 weights)
    """
    depths = circuit.depths()
    groups = Counter((depths[layer], *_row(layer)) for layer in circuit.layers)
    counted: set[object] = set()
    reals: Counter[tuple[object, ...]] = Counter()
    for layer in circuit.layers:
        for parameter in set(layer.named_parameters().values()) - counted:  # a tied one counts once
            counted.add(parameter)
            reals[(depths[layer], *_row(layer))] += parameter.num_reals
    rows = [
        (kind, f"{groups[key]:,}", inputs, units, weight, constraint, f"{reals[key]:,}" if weight else "")
        for key in groups
        for _, kind, inputs, units, weight, constraint in [key]
    ]
    head = ("kind", "layers", "inputs", "units", "weight", "constraint", "parameters")
    total = (
        f"{len(circuit.scope)} variables, {len(circuit.layers)} layers, size {circuit.size:,}, "
        f"{circuit.num_parameters():,} real parameters ({circuit.num_weights():,} weights)"
    )
    return table(head, rows, right={1, 3, 6}) + "\n" + total


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]], right: set[int]) -> str:
    """Plain text columns; those in ``right`` are aligned to the right."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]

    def line(row: tuple[str, ...]) -> str:
        cells = [
            c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
        ]
        return " | ".join(cells).rstrip()

    header = " | ".join(cell.ljust(width) for cell, width in zip(head, widths, strict=True)).rstrip()
    return "\n".join([header, "-+-".join("-" * width for width in widths), *(line(row) for row in rows)])


def _row(layer: Layer) -> tuple[str, str, str, str, str]:
    """Kind, inputs, units, weight and constraint of a layer, as text."""
    if isinstance(layer, Input):
        inputs = type(layer.family).__name__
    else:
        inputs = (" + " if isinstance(layer, Sum) else " × ").join(str(item.units) for item in layer.inputs)
    weight = layer.weight if isinstance(layer, Input | Sum) else None
    shape = " × ".join(map(str, weight.shape)) if weight is not None else ""
    return layer.kind, inputs, str(layer.units), shape, str(weight.constraint) if weight is not None else ""


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
