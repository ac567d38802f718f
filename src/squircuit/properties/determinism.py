"""Determinism: the inputs of a sum are never non-zero together."""

from __future__ import annotations

from functools import reduce

import torch
from torch import Tensor

from squircuit.circuits import Circuit, Hadamard, Input, Layer, Sum
from squircuit.circuits.balance import balanced
from squircuit.circuits.circuit import require_circuit
from squircuit.circuits.postorder import postorder
from squircuit.properties.basis import sum_edges, too_large
from squircuit.properties.points import blocks, grid, representatives
from squircuit.properties.structure import is_smooth
from squircuit.properties.verdict import Verdict
from squircuit.reference.evaluate import evaluate_input, evaluate_layers

ROUNDING = 1e-12  # relative to the largest value of a unit: what is below may be rounding, unless it is 0

Supports = dict[int, Tensor]  # variable -> (K, m) boolean over its representatives


def is_deterministic(circuit: Circuit) -> Verdict:
    """The inputs of every sum unit have pairwise disjoint supports (Def. 3), almost everywhere.

    Decided exactly on all states of the scope where those are few, continuous variables being
    represented by a point in each piece. For larger scopes: a point at which two inputs are non-zero
    refutes; inputs that depend on functions with disjoint supports of one variable (regular
    selectivity, §3.1) prove; otherwise the verdict is "not decided" (the question is #P-hard). Cost: one
    evaluation of the circuit at 2^14 points at most for each sum.
    """
    require_circuit("is_deterministic", circuit)
    if not circuit.has_weights:
        return Verdict(
            "deterministic", None, "the circuit has no weights yet; call circuit.initialise(seed=…)"
        )
    smooth = is_smooth(circuit)
    if not smooth:
        return Verdict(
            "deterministic", None, f"decided for smooth circuits only: {smooth.reason}", smooth.where
        )
    large = too_large(circuit, "deterministic")
    if large is not None:
        return large
    for block in blocks(circuit) if circuit.sums else ():
        reason = "decided for input functions of one variable only, not for those of several"
        return Verdict("deterministic", None, reason, circuit.where(block))
    circuit = balanced(circuit)  # a product of tiny weights is not zero
    undecided: list[Sum] = []
    for layer in circuit.sums:
        rows, complete = grid(circuit, layer.scope)
        together, perhaps = _inputs_at_once(circuit, layer, rows)
        if together.max() >= 2:
            witness = _common_point(layer, rows, together)
            return Verdict("deterministic", False, witness, circuit.where(layer))
        if not complete or perhaps.max() >= 2:
            undecided.append(layer)
    return _by_supports(circuit, undecided)


def _inputs_at_once(circuit: Circuit, layer: Sum, rows: Tensor) -> tuple[Tensor, Tensor]:
    """How many inputs of each unit are certainly, and how many are perhaps, non-zero at a row: (n, K) twice.

    Each input is compared with its own largest value: how small it is beside others does not matter, since a
    weight above may be as large.
    """
    below = postorder(layer.inputs, lambda item: item.inputs)
    outputs = evaluate_layers(circuit, rows, below)
    values = torch.cat([outputs[item] for item in layer.inputs], dim=1).abs()  # (n, H)
    edges = sum_edges(circuit, layer).double().T
    certain = values > ROUNDING * values.amax(dim=0)
    return certain.double() @ edges, (values != 0).double() @ edges


def _common_point(layer: Sum, rows: Tensor, together: Tensor) -> str:
    """A row at which two inputs of one unit are non-zero, in words."""
    row, unit = divmod(int(together.argmax()), layer.units)
    point = {v: round(rows[row, v].item(), 3) for v in sorted(layer.scope)[:8]}
    return f"{int(together.max())} inputs of unit {unit} are non-zero at {point}"


def _by_supports(circuit: Circuit, undecided: list[Sum]) -> Verdict:
    """Prove what enumeration could not, from the supports of the input functions."""
    supports = _supports(circuit) if undecided else {}
    for layer in undecided:
        edges = sum_edges(circuit, layer)
        if not all(_separated(layer, supports, unit) for unit in edges):
            reason = "its scope has too many states to enumerate, or values that may be zero or rounding"
            return Verdict("deterministic", None, reason, circuit.where(layer))
    return Verdict("deterministic", True, "inputs of every sum have disjoint supports")


def _separated(layer: Sum, supports: dict[Layer, Supports], edges: Tensor) -> bool:
    """Whether for some variable no value is in the support of two inputs."""
    for variable in layer.scope:
        stacked = torch.cat([supports[item][variable] for item in layer.inputs])[edges]
        if stacked.sum(dim=0).max() <= 1:
            return True
    return False


def _supports(circuit: Circuit) -> dict[Layer, Supports]:
    """The values of every variable outside which a unit is certainly zero, for every unit."""
    known: dict[Layer, Supports] = {}
    for layer in circuit.layers:
        if isinstance(layer, Input):
            values = evaluate_input(circuit, layer, representatives(circuit, layer.variable)).abs().T
            known[layer] = {layer.variable: values != 0}
        elif isinstance(layer, Sum):
            edges = sum_edges(circuit, layer).double()
            inputs = [known[item] for item in layer.inputs]
            known[layer] = {v: edges @ torch.cat([i[v] for i in inputs]).double() > 0 for v in layer.scope}
        else:
            known[layer] = _product_supports(layer, [known[item] for item in layer.inputs])
    return known


def _product_supports(layer: Layer, inputs: list[Supports]) -> Supports:
    if isinstance(layer, Hadamard):
        return {v: rows for item in inputs for v, rows in item.items()}
    widths = [item.units for item in layer.inputs]
    indices = torch.cartesian_prod(*map(torch.arange, widths)).reshape(
        -1, len(widths)
    )  # unit -> unit of each input
    parts = [{v: rows[indices[:, i]] for v, rows in item.items()} for i, item in enumerate(inputs)]
    return reduce(lambda a, b: {**a, **b}, parts)
