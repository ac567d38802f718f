"""Units divided by powers of two of about their sizes: no product of weights leaves the range of floats.

With e_i the exponent of a unit, W_ij becomes W_ij 2^{e_j − e_i}, and e_i is the largest log₂ |W_ij| + e_j:
then every unit is about as large as its input functions. Powers of two change no digit.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import torch
from torch import Tensor

from squircuit.circuits.circuit import Circuit
from squircuit.circuits.layers import Input, Kronecker, Layer, Sum, copied
from squircuit.circuits.parameter import Constraint, Parameter

ODD = 200  #: exponents beyond which squares of several units together may leave the range of floats


def balanced_matrix(matrix: Tensor, below: Tensor) -> tuple[Tensor, Tensor]:
    """W_ij 2^{e_j − e_i} and e_i: (K1, K2) and (K1,), differentiable in W.

    Args:
        matrix: W.
        below: e_j, (K2,) float64.

    Example:
        >>> balanced_matrix(torch.tensor([[3e-200, 1e-200]], dtype=torch.float64), torch.zeros(2).double())[1]
        tensor([-662.], dtype=torch.float64)
    """
    sizes = (matrix.detach().abs().double().log2() + below).amax(dim=1)
    own = torch.where(sizes == -torch.inf, 0.0, sizes.ceil())
    return matrix * power_of_two(below - own.unsqueeze(1)).to(matrix.real.dtype), own


def power_of_two(exponents: Tensor) -> Tensor:
    """2^e, finite also of the largest e: that may be the factor of a weight that is zero."""
    return exponents.clamp(max=1000.0).exp2()


def product_exponents(layer: Layer, below: Mapping[Layer, Tensor]) -> Tensor:
    """The exponents of the units of a product layer: sums of those of its factors."""
    parts = [below[item] for item in layer.inputs]
    if isinstance(layer, Kronecker):
        return reduce(lambda a, b: (a.unsqueeze(1) + b).flatten(), parts)
    return torch.stack(parts).sum(dim=0)


def balanced(circuit: Circuit) -> Circuit:
    """A circuit in which every unit is a positive multiple of what it was, and about of size 1.

    What is zero, orthogonal or has disjoint supports stays so. Circuits whose units are of ordinary sizes are
    returned as they are.

    Args:
        circuit: with weights.

    Example:
        >>> import squircuit as sq
        >>> tiny = torch.full((1, 2), 1e-200, dtype=torch.float64)
        >>> inputs = [sq.Input(v, sq.Categorical(2), weight=tiny) for v in range(2)]
        >>> product = sq.Circuit(sq.Hadamard(inputs))
        >>> sq.evaluate(product, [[0, 0]]).item(), sq.evaluate(balanced(product), [[0, 0]]).abs().item() > 0.1
        (0j, True)
    """
    exponents = _exponents(circuit)
    if all(bool((each.abs() < ODD).all()) for each in exponents.values()):
        return circuit
    roots = circuit.rebuilt(lambda layer, inputs: _layer(circuit, layer, inputs, exponents))
    made = Circuit(roots, root_weights=circuit.root_weights, validate=circuit.validated)
    held = set(circuit.parameters.values())  # of families and roots, which are as they were
    return made.with_weights({n: circuit.value(p) for n, p in made.parameters.items() if p in held})


def _exponents(circuit: Circuit) -> dict[Layer, Tensor]:
    found: dict[Layer, Tensor] = {}
    for layer in circuit.layers:
        if not isinstance(layer, Input | Sum):
            found[layer] = product_exponents(layer, found)
            continue
        matrix = circuit.matrix(layer)
        if matrix is None:
            found[layer] = torch.zeros(layer.units, dtype=torch.float64)
        else:
            found[layer] = balanced_matrix(matrix, _below(layer, found))[1]
    return found


def _below(layer: Input | Sum, exponents: Mapping[Layer, Tensor]) -> Tensor:
    """The exponents of what the weights of a layer are multiplied with: (K2,)."""
    if isinstance(layer, Input):
        return torch.zeros(layer.family.size, dtype=torch.float64)
    return torch.cat([exponents[item] for item in layer.inputs])


def _layer(circuit: Circuit, layer: Layer, inputs: list[Layer], exponents: Mapping[Layer, Tensor]) -> Layer:
    """A layer over other inputs, with weights of its own."""
    if not isinstance(layer, Input | Sum):
        return copied(layer, inputs, {})
    matrix = circuit.matrix(layer)
    if matrix is None:
        return layer
    weight, _ = balanced_matrix(matrix, _below(layer, exponents))
    least = torch.finfo(matrix.dtype).tiny  # an edge stays one, however small beside others of its unit
    held = _fixed(torch.where((weight == 0) & (matrix != 0), least, weight))
    if isinstance(layer, Sum):
        return Sum(inputs, weight=held)
    return Input(layer.variables, layer.family, layer.units, held, 0, dict(layer.parameters))


def _fixed(value: Tensor) -> Parameter:
    value = value.detach()
    return Parameter(tuple(value.shape), Constraint.FIXED, value.is_complex(), value=value)
