"""Z and marginals of any squared circuit that allows them, by inner products of layers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from squircuit.circuits import Circuit
from squircuit.circuits.circuit import require_circuit
from squircuit.reference.inner_product import root_norms


def marginal(circuit: Circuit, x: Any = None, over: Iterable[int] | None = None) -> Tensor:
    """∫ Σ_r π_r |c_r(y, z)|² dz over the variables ``over`` (default: all), not normalised by Z.

    For every structured-decomposable circuit, unitary or not, and for others whose incompatible parts
    have orthogonal input functions. Cost O(L² S²) (App. "Tensorized Circuit Multiplication"); unitary
    circuits have a cheaper way, :func:`squircuit.inference.unitary.marginal`.

    Args:
        circuit: with weights.
        x: data (n, d) for the variables that stay.
        over: the variables to integrate out.

    Returns:
        (n,) float64.

    Example:
        >>> import torch
        >>> from squircuit.circuits import Input, Sum
        >>> from squircuit.families import Categorical
        >>> c = Circuit(Sum(Input(0, Categorical(2)), weight=torch.tensor([[3.0, 4.0]])))
        >>> marginal(c).item()
        25.0
    """
    require_circuit("marginal", circuit)
    return root_norms(circuit, x, over) @ circuit.root_shares


def partition(circuit: Circuit) -> float:
    """Z = ∫ Σ_r π_r |c_r(x)|² dx (§2), exact: the certificate that a model is normalised. Cost O(L² S²)."""
    require_circuit("partition", circuit)
    return marginal(circuit).item()
