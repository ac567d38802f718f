"""The value of every layer, from inputs to roots; and the integral of a circuit (not of its square)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from squircuit.circuits import Circuit, Hadamard, Input, Layer, Sum
from squircuit.circuits.circuit import require_circuit
from squircuit.families import BlockFamily
from squircuit.reference.data import as_data, as_variables, observed_data, require_valid
from squircuit.regions.scope import Scope


def evaluate(circuit: Circuit, x: Any) -> Tensor:
    """c(x) of every root unit, in time O(|c|) a sample (§2 of the paper).

    Args:
        circuit: a circuit with weights.
        x: data (n, d).

    Returns:
        (n, R) complex128.

    Example:
        >>> from squircuit.families import Categorical
        >>> circuit = Circuit(Sum(Input(0, Categorical(2)), weight=torch.tensor([[0.6, 0.8j]])))
        >>> evaluate(circuit, [[0], [1]]).abs().square().flatten()
        tensor([0.3600, 0.6400], dtype=torch.float64)
    """
    require_circuit("evaluate", circuit)
    values = evaluate_layers(circuit, as_data(circuit, x), circuit.layers)
    return torch.cat([values[root] for root in circuit.roots], dim=1)


def evaluate_layers(circuit: Circuit, x: Tensor, layers: Iterable[Layer]) -> dict[Layer, Tensor]:
    """The outputs (n, K) of ``layers``, which come in topological order with all their inputs."""
    return forward(
        layers,
        at_input=lambda layer: evaluate_input(circuit, layer, layer.columns(x)),
        weight=lambda layer: weight_of(circuit, layer),
    )


def forward(
    layers: Iterable[Layer],
    at_input: Callable[[Input], Tensor],
    weight: Callable[[Sum], Tensor],
    known: Mapping[Layer, Tensor] | None = None,
) -> dict[Layer, Tensor]:
    """One pass of sums and products over ``layers``, each (n, K), whatever is fed in at the inputs.

    Args:
        layers: in topological order, with all their inputs (or those in ``known``).
        at_input: the value of an input layer.
        weight: the matrix of a sum layer.
        known: layers whose values are given: they are not computed.
    """
    values: dict[Layer, Tensor] = dict(known or {})
    for layer in layers:
        if layer in values:
            continue
        inputs = [values[item] for item in layer.inputs]
        if isinstance(layer, Input):
            values[layer] = at_input(layer)
        elif isinstance(layer, Sum):
            values[layer] = torch.cat(inputs, dim=1) @ weight(layer).T
        else:
            values[layer] = reduce(torch.mul if isinstance(layer, Hadamard) else kronecker_rows, inputs)
    return values


def evaluate_input(circuit: Circuit, layer: Input, columns: Tensor) -> Tensor:
    """ℓ(x) = W φ(x) for the layer's column (n,) of data, or columns (n, D): (n, K) complex128."""
    columns = columns.double() if columns.is_floating_point() else columns
    functions = layer.family.evaluate(columns, circuit.family_values(layer)).to(torch.complex128)
    return functions @ input_weight(circuit, layer).T


def input_weight(circuit: Circuit, layer: Input) -> Tensor:
    """The mixing matrix of an input layer, the identity where it has none: (K, n) complex128."""
    matrix = circuit.matrix(layer)
    return torch.eye(layer.units, dtype=torch.complex128) if matrix is None else matrix.to(torch.complex128)


def weight_of(circuit: Circuit, layer: Sum) -> Tensor:
    """The weight of a sum layer: (K1, K2) complex128."""
    return circuit.value(layer.weight).to(torch.complex128)


def weight_blocks(circuit: Circuit, layer: Sum) -> list[Tensor]:
    """W = [W₁ … W_N]: the columns of a sum's weight that belong to each of its inputs, (K1, K_i) each."""
    return list(torch.split(weight_of(circuit, layer), [item.units for item in layer.inputs], dim=1))


def kronecker(a: Tensor, b: Tensor) -> Tensor:
    """The Kronecker product of two matrices; torch.kron (2.13) fails on some with a side of one."""
    return torch.einsum("ij,kl->ikjl", a, b).reshape(len(a) * len(b), -1)


def kronecker_rows(a: Tensor, b: Tensor) -> Tensor:
    """Kronecker product of the rows: (n, K1), (n, K2) → (n, K1·K2), the index of ``a`` slowest."""
    return (a.unsqueeze(2) * b.unsqueeze(1)).flatten(1)


def integrate(circuit: Circuit, x: Any = None, over: Iterable[int] | None = None) -> Tensor:
    """∫ c(y, z) dz over the variables ``over`` (default: all), in time O(|c|) (§2, Def. 2).

    Args:
        circuit: smooth and decomposable, with weights. To integrate |c|², pass ``square(c)``.
        x: data (n, d); the columns of integrated variables are ignored. Not needed to integrate all.
        over: the variables to integrate out.

    Returns:
        (n, R) complex128; n = 1 where there is no data.

    Example:
        >>> from squircuit.circuits import Sum
        >>> from squircuit.families import Categorical
        >>> circuit = Circuit(Sum(Input(0, Categorical(3)), weight=torch.tensor([[1.0, 2.0, 3.0]])))
        >>> integrate(circuit).item()
        (6+0j)
    """
    require_circuit("integrate", circuit)
    integrated = as_variables(circuit, over)
    require_valid(circuit)
    data = observed_data(circuit, x, integrated)
    values = forward(
        circuit.layers,
        at_input=lambda layer: _input(circuit, layer, data, integrated),
        weight=lambda layer: weight_of(circuit, layer),
    )
    return torch.cat([values[root] for root in circuit.roots], dim=1)


def _input(circuit: Circuit, layer: Input, data: Tensor, integrated: Scope) -> Tensor:
    values, weight = circuit.family_values(layer), input_weight(circuit, layer)
    if not layer.scope & integrated:
        return evaluate_input(circuit, layer, layer.columns(data))
    if layer.scope <= integrated:
        totals = layer.family.integrals(values).to(torch.complex128)
        return (weight @ totals).expand(len(data), -1)
    assert isinstance(layer.family, BlockFamily)  # others are over one variable
    observed = [variable not in integrated for variable in layer.variables]
    parts = layer.family.partial_integrals(layer.columns(data), observed, values)
    return parts.to(torch.complex128) @ weight.T
