"""How close to zero counts as zero."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from squircuit.circuits import Circuit

VANISHING = 1e-7  # norms come from Gram matrices, which lose half of the digits


def tolerance_for(circuit: Circuit, tolerance: float | None = None) -> float:
    """The given tolerance, or √ε of the least precise weight: 1.5e-8 in double, 3.5e-4 in single."""
    if tolerance is not None:
        return tolerance
    values = (circuit.known_value(p) for p in circuit.parameters.values())
    epsilons = [torch.finfo(value.dtype).eps for value in values if value is not None]
    return math.sqrt(max(epsilons, default=torch.finfo(torch.float64).eps))


def cosines(gram: Tensor, norms: Tensor, other_norms: Tensor) -> Tensor:
    """|⟨i, j⟩| / (‖i‖ ‖j‖) from inner products (n, K, J) and norms (n, K), (n, J); 0 where one vanishes.

    A function whose norm is 1e-7 of the largest counts as vanishing: what is left of it is rounding.
    """
    norms, other_norms = (each * (each > VANISHING * each.max()) for each in (norms, other_norms))
    scale = norms.unsqueeze(2) * other_norms.unsqueeze(1)
    return torch.where(scale > 0, gram.abs() / scale, 0.0)


def norms_of(gram: Tensor) -> Tensor:
    """‖i‖ of every unit from its Gram matrices (n, K, K): (n, K)."""
    return gram.diagonal(dim1=1, dim2=2).real.clamp_min(0).sqrt()
