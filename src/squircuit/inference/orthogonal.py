"""Marginals of |c|² in linear time for orthogonal circuits (Alg. Mar-Ortho-Dec)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from squircuit.circuits import Circuit, Input
from squircuit.circuits.circuit import require_circuit
from squircuit.properties import is_orthogonal, is_regular_orthogonal, require
from squircuit.reference.data import as_variables, observed_data
from squircuit.reference.evaluate import evaluate_layers, forward, input_weight, weight_of


def marginal(
    circuit: Circuit, x: Any = None, over: Iterable[int] | None = None, *, assume_orthogonal: bool = False
) -> Tensor:
    """∫ Σ_r π_r |c_r(y, z)|² dz over the variables ``over`` = Z, for Z-orthogonal circuits.

    Alg. Mar-Ortho-Dec and its lemma: the cross terms of every sum vanish, so one pass with |w|² in place
    of w suffices: O(|c|), also for circuits that are not structured-decomposable.

    Args:
        circuit: Z-orthogonal, with weights; scalar or layered.
        x: data (n, d) for the variables that stay; not needed where ``over`` is everything.
        over: Z; default all variables, which gives the partition function (Thm. 1).
        assume_orthogonal: skip the check of Z-orthogonality, which costs more than the answer.

    Returns:
        (n,) float64.

    Example:
        >>> from squircuit.circuits import Sum
        >>> from squircuit.families import Hermite
        >>> c = Circuit(Sum(Input(0, Hermite(2)), weight=torch.tensor([[3.0, 4.0]])))
        >>> marginal(c).item()
        25.0
    """
    require_circuit("marginal", circuit)
    over = None if over is None else frozenset(over)  # an iterator can be read only once
    integrated = as_variables(circuit, over)
    if not assume_orthogonal and not is_regular_orthogonal(circuit, over):
        require(
            is_orthogonal(circuit, over), "use squircuit.inference.marginal, which needs no orthogonality"
        )
    data = observed_data(circuit, x, integrated)
    untouched = evaluate_layers(
        circuit, data, [layer for layer in circuit.layers if not layer.scope & integrated]
    )
    values = forward(
        circuit.layers,
        at_input=lambda layer: _norms(circuit, layer).expand(len(data), -1),
        weight=lambda layer: weight_of(circuit, layer).abs().square(),
        known={layer: value.abs().square() for layer, value in untouched.items()},
    )
    return torch.cat([values[root] for root in circuit.roots], dim=1) @ circuit.root_shares


def partition(circuit: Circuit, *, assume_orthogonal: bool = False) -> float:
    """Z = ∫ Σ_r π_r |c_r(x)|² dx of an orthogonal circuit in O(|c|) (Thm. 1)."""
    require_circuit("partition", circuit)
    return marginal(circuit, assume_orthogonal=assume_orthogonal).item()


def _norms(circuit: Circuit, layer: Input) -> Tensor:
    """∫ |f_k|² of every function of an input layer: (K,)."""
    weight = input_weight(circuit, layer)
    gram = layer.family.gram(circuit.family_values(layer)).to(torch.complex128)
    return (weight @ gram @ weight.mH).diagonal().real
