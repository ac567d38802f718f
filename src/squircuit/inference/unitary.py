"""Any marginal of a squared unitary circuit, in its plain recursive form (Alg. Mar-Squared-Unitary)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from squircuit.circuits import Circuit, Input, Layer, Sum
from squircuit.circuits.circuit import require_circuit
from squircuit.circuits.layers import factors, is_product
from squircuit.circuits.postorder import postorder
from squircuit.errors import StructureError
from squircuit.properties import is_unitary, require, satisfies_u4
from squircuit.reference.data import as_variables, observed_data
from squircuit.reference.evaluate import evaluate_layers, weight_blocks
from squircuit.reference.inner_product import PairGrams, multiply_grams
from squircuit.regions.scope import Scope


def marginal(circuit: Circuit, x: Any = None, over: Iterable[int] | None = None) -> Tensor:
    """p(y) = ∫ Σ_r π_r |c_r(y, z)|² dz over any variables ``over`` = Z of a circuit with (U1)–(U4).

    Alg. Mar-Squared-Unitary (Thm. 3): R = ∫ ℓ ℓᴴ dz is the identity for layers inside Z (they are skipped),
    r rᴴ for layers that do not touch Z, Σ_i W_i R_i W_iᴴ at a sum (cross terms vanish by U4) and the product
    of the inputs' matrices at a product. Time O(|φ_Y ∖ φ_Z| S + |φ_Y ∩ φ_Z| S²), with φ_V the layers that
    depend on a variable of V and S the size of the largest. Circuits need not be structured-decomposable.

    Args:
        circuit: with (U1)–(U4) and weights.
        x: data (n, d) for the variables that stay; the other columns are ignored.
        over: Z; default all variables, whose marginal is 1.

    Returns:
        (n,) float64.

    Example:
        >>> from squircuit.circuits import build
        >>> from squircuit.families import Categorical
        >>> from squircuit.regions import balanced_tree
        >>> c = build(balanced_tree(4), Categorical(2), units=2).initialise(seed=0)
        >>> marginal(c, [[0, 0, 0, 0], [1, 0, 0, 0]], over=[1, 2, 3]).sum().item()
        1.0...
    """
    require_circuit("marginal", circuit)
    require(is_unitary(circuit), "use squircuit.inference.marginal, or unitarise the circuit first")
    require(satisfies_u4(circuit), "use squircuit.inference.marginal")
    integrated = as_variables(circuit, over)
    data = observed_data(circuit, x, integrated)
    matrices = _matrices(circuit, data, integrated)
    diagonals = [matrices[root].diagonal(dim1=1, dim2=2).real for root in circuit.roots]
    return torch.cat(diagonals, dim=1) @ circuit.root_shares


def _matrices(circuit: Circuit, data: Tensor, integrated: Scope) -> dict[Layer, Tensor]:
    """R of the roots, of every layer that depends on both kinds of variables, and of what these need."""

    def is_mixed(layer: Layer) -> bool:
        return bool(layer.scope & integrated) and not layer.scope <= integrated

    needed = postorder(circuit.roots, lambda layer: _operands(layer) if is_mixed(layer) else ())
    observed = [layer for layer in needed if not layer.scope & integrated]
    values = evaluate_layers(circuit, data, postorder(observed, lambda layer: layer.inputs))
    matrices: dict[Layer, Tensor] = {}
    for layer in needed:
        if layer.scope <= integrated:
            identity = torch.eye(layer.units, dtype=torch.complex128)
            matrices[layer] = identity.expand(len(data), -1, -1)
        elif not is_mixed(layer):
            matrices[layer] = values[layer].unsqueeze(2) * values[layer].unsqueeze(1).conj()
        elif isinstance(layer, Input):  # a block of which some is observed
            matrices[layer] = PairGrams(circuit, circuit, data, integrated)(layer, layer)
        elif isinstance(layer, Sum):
            _require_no_cross_terms(circuit, layer, integrated)
            matrices[layer] = _sum(circuit, layer, matrices)
        else:
            matrices[layer] = multiply_grams(layer, layer, [matrices[item] for item in layer.inputs])
    return matrices


def _operands(layer: Layer) -> tuple[Layer, ...]:
    """What R of a layer is made from: a sum reaches through its products, whose R is never formed."""
    if not isinstance(layer, Sum):
        return layer.inputs
    return tuple(below for item in layer.inputs for below in factors(item))


def _require_no_cross_terms(circuit: Circuit, layer: Sum, integrated: Scope) -> None:
    """Inputs of a sum are orthogonal over a variable or a block inside Z, not over a part of a block."""
    layers: list[Layer] = postorder(layer.inputs, lambda item: item.inputs)
    below = [item for item in layers if isinstance(item, Input)]
    cut = {v for item in below if not set(item.variables) <= set(integrated) for v in item.variables}
    if len(layer.inputs) > 1 and not set(layer.scope & integrated) - cut:
        raise StructureError(
            "orthogonal over what is integrated",
            circuit.where(layer),
            "a part of every block below this sum of several inputs is observed, so that cross terms count",
            "give the block one input layer that has all of its functions, and sum over that",
        )


def _sum(circuit: Circuit, layer: Sum, matrices: dict[Layer, Tensor]) -> Tensor:
    """Σ_i W_i R_i W_iᴴ."""
    total = torch.zeros(1, layer.units, layer.units, dtype=torch.complex128)
    for item, weight in zip(layer.inputs, weight_blocks(circuit, layer), strict=True):
        if is_product(item):
            half = multiply_grams(item, item, [matrices[below] for below in item.inputs], weight)
        else:
            half = weight @ matrices[item]
        total = total + half @ weight.mH
    return total
