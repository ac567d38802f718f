"""Integrals of the circuit itself (not of its square), by one pass over the layers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from squircuit.circuits import Circuit, Input
from squircuit.circuits.require_circuit import require_circuit
from squircuit.families import BlockFamily
from squircuit.reference.data import as_variables, observed_data, require_valid
from squircuit.reference.evaluate import evaluate_input, forward, input_weight, weight_of
from squircuit.regions.scope import Scope


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
