"""How close to zero counts as zero."""

from __future__ import annotations

import math

import torch

from squircuit.circuits import Circuit


def tolerance_for(circuit: Circuit, tolerance: float | None) -> float:
    """The given tolerance, or √ε of the least precise weight: 1.5e-8 in double, 3.5e-4 in single."""
    if tolerance is not None:
        return tolerance
    epsilons = (
        [torch.finfo(value.dtype).eps for value in circuit.weights.values()] if circuit.has_weights else []
    )
    return math.sqrt(max(epsilons, default=torch.finfo(torch.float64).eps))
