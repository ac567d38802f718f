"""How close to zero counts as zero, and when rounding leaves that open."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from squircuit.circuits import Circuit, Input, Layer
from squircuit.families import BlockFamily
from squircuit.reference.evaluate import forward, input_weight, weight_of
from squircuit.regions.scope import Scope

ROUNDING = 8 * torch.finfo(torch.float64).eps
"""Error of an inner product, as a share of what it would be if no terms cancelled."""


def tolerance_for(circuit: Circuit, tolerance: float | None = None) -> float:
    """The given tolerance, or √ε of the least precise weight: 1.5e-8 in double, 3.5e-4 in single."""
    if tolerance is not None:
        return tolerance
    values = (circuit.known_value(p) for p in circuit.parameters.values())
    epsilons = [torch.finfo(value.dtype).eps for value in values if value is not None]
    return math.sqrt(max(epsilons, default=torch.finfo(torch.float64).eps))


def cosines(gram: Tensor, norms: Tensor, other_norms: Tensor) -> Tensor:
    """|⟨i, j⟩| / (‖i‖ ‖j‖) from inner products (n, K, J) and norms (n, K), (n, J); 0 where one vanishes.

    Cosines do not depend on how large functions are, nor on the weights above them: the cross term of two
    functions is at most that share of their squares, whatever they are multiplied with.
    """
    scale = norms.unsqueeze(2) * other_norms.unsqueeze(1)
    return torch.where(scale > 0, gram.abs() / scale, 0.0)


def doubtful(norms: Tensor, other_norms: Tensor, sizes: Tensor, other_sizes: Tensor, limit: float) -> Tensor:
    """Which cosines rounding may have moved by more than a limit, booleans (n, K, J).

    An inner product is wrong by about ε a_i a_j, with a the size that functions would have if none of their
    terms cancelled. Functions without any term, of size 0, are exactly zero, and nothing is doubtful.

    Args:
        norms, other_norms: (n, K) and (n, J).
        sizes, other_sizes: a, see :func:`magnitudes`, likewise.
        limit: of the cosines.
    """
    error = ROUNDING * sizes.unsqueeze(2) * other_sizes.unsqueeze(1)
    allowed = limit * norms.unsqueeze(2) * other_norms.unsqueeze(1)
    return ~(error <= allowed)  # NaN, of numbers that overflowed, is doubtful, too


def norms_of(gram: Tensor) -> Tensor:
    """‖i‖ of every unit from its Gram matrices (n, K, K): (n, K)."""
    return gram.diagonal(dim1=1, dim2=2).real.clamp_min(0).sqrt()


def magnitudes(
    circuit: Circuit,
    layers: Iterable[Layer],
    rows: Tensor,
    over: Scope,
    known: Mapping[Layer, Tensor] | None = None,
) -> dict[Layer, Tensor]:
    """The norm that every unit would have if none of its terms cancelled, (n, K), for every layer.

    Args:
        circuit: with weights.
        layers: in topological order, with all their inputs.
        rows: (n, d), values of the variables that are not integrated.
        over: the variables that are.
        known: layers whose magnitudes are given.
    """
    return forward(
        layers,
        at_input=lambda layer: _input_sizes(circuit, layer, rows, over),
        weight=lambda layer: weight_of(circuit, layer).abs(),
        known=known,
    )


def input_sizes(circuit: Circuit, layer: Input) -> Tensor:
    """Σ_k |w_k| ‖φ_k‖ of every unit: (1, K)."""
    return _input_sizes(circuit, layer, torch.zeros(1, circuit.num_variables), layer.scope)


def _input_sizes(circuit: Circuit, layer: Input, rows: Tensor, over: Scope) -> Tensor:
    values = circuit.family_values(layer)
    if layer.scope <= over:
        sizes = layer.family.norms(values).sqrt().expand(len(rows), -1)
    elif not layer.scope & over:
        sizes = layer.family.evaluate(layer.columns(rows).double(), values).abs()
    else:
        assert isinstance(layer.family, BlockFamily)  # others are over one variable
        observed = [variable not in over for variable in layer.variables]
        sizes = (layer.family.log_squares(layer.columns(rows), observed, values) / 2).exp()
    return sizes.double() @ input_weight(circuit, layer).abs().T
