"""Any circuit with orthonormal input functions → one with semi-unitary weights (Alg. Unitarize)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor

from squircuit.circuits import Circuit, Constraint, Hadamard, Input, Kronecker, Layer, Parameter, Sum
from squircuit.errors import ParameterError, StructureError
from squircuit.reference.evaluate import input_weight, kronecker_rows, weight_blocks

EXACT = 1e-12  # an input weight this close to semi-unitary is kept as it is


class Unitarised(NamedTuple):
    """The result of :func:`unitarise`: c' = β c."""

    circuit: Circuit
    beta: float


class _Factored(NamedTuple):
    """ℓ = R ℓ': what is left of a layer once its weights have been made semi-unitary."""

    layer: Layer
    rest: Tensor  # R, (K, K')


def unitarise(circuit: Circuit, weights: Mapping[str, Tensor] | None = None) -> Unitarised:
    """Make all weights semi-unitary without changing the function, up to a factor: c' = β c, β > 0.

    Alg. Unitarize (App. "Enforcing (Semi-)Unitary Parameters is Efficient"): from the inputs to the root,
    V† = QR at every sum, Q† stays, R† goes up; Hadamard products become Kronecker products by the
    face-splitting product R₁ • R₂, and an identity sum is put between consecutive products, so that
    sizes stay polynomial. Input weights that are not semi-unitary are treated like sums. Cost O(L K⁴).

    If the circuit satisfies (U1) across layers and (U2), c' is unitary and β = Z^(-1/2). Ties between
    weights are lost. With several roots, p ∝ Σ_r π_r |c_r|² is kept up to the factor β²: the roots and
    their weights π come from a singular value decomposition in place of the last QR.

    Args:
        circuit: smooth and decomposable, with orthonormal families.
        weights: values to use instead of the circuit's own.

    Example:
        >>> from squircuit.families import Categorical
        >>> c = Circuit(Sum(Input(0, Categorical(2)), weight=torch.tensor([[3.0, 4.0j]])))
        >>> unitarise(c).beta
        0.2
    """
    circuit = circuit if weights is None else circuit.with_weights(weights)
    done: dict[Layer, _Factored] = {}
    used = {item for layer in circuit.layers for item in layer.inputs}
    for layer in circuit.layers:
        if layer in used:
            done[layer] = _factor(circuit, layer, done)
    return _roots(circuit, [_stacked(circuit, root, done) for root in circuit.roots])


def _factor(circuit: Circuit, layer: Layer, done: Mapping[Layer, _Factored]) -> _Factored:
    if isinstance(layer, Input):
        return _input(circuit, layer)
    if isinstance(layer, Sum):
        return _orthonormalised(*_sum(circuit, layer, done))
    return _product(layer, done)


def _input(circuit: Circuit, layer: Input) -> _Factored:
    """Case (i): orthonormal functions stay; W φ with any other W is factored like a sum."""
    if not layer.family.is_orthonormal:
        raise StructureError(
            "orthonormal (U1)",
            circuit.where(layer),
            f"the functions of {type(layer.family).__name__} are not orthonormal",
            "use an orthonormal family; Orthonormalised makes one of any",
        )
    matrix = input_weight(circuit, layer)
    rest = torch.eye(layer.units, dtype=torch.complex128)
    if layer.weight is not None and (matrix @ matrix.mH - rest).abs().max() > EXACT:
        matrix, rest = _semi_unitary(matrix)
    weight = None if layer.weight is None else _parameter(matrix)
    values = circuit.family_values(layer)
    shared = {
        n: Parameter(p.shape, p.constraint, False, value=values[n]) for n, p in layer.parameters.items()
    }
    return _Factored(Input(layer.variable, layer.family, weight=weight, parameters=shared), rest)


def _sum(circuit: Circuit, layer: Sum, done: Mapping[Layer, _Factored]) -> tuple[list[Layer], Tensor]:
    """Case (ii): W [ℓ₁ … ℓ_N] = V [ℓ'₁ … ℓ'_N] with V = [W₁R₁ … W_N R_N]."""
    blocks = weight_blocks(circuit, layer)
    inputs = [done[item] for item in layer.inputs]
    return [i.layer for i in inputs], torch.cat(
        [w @ i.rest for w, i in zip(blocks, inputs, strict=True)], dim=1
    )


def _product(layer: Layer, done: Mapping[Layer, _Factored]) -> _Factored:
    """Cases (iii) and (iv): ⊗ of the inputs, with R₁ • R₂ for Hadamard and R₁ ⊗ R₂ for Kronecker layers."""
    inputs = [_interleaved(item, done[item]) for item in layer.inputs]
    combine = kronecker_rows if isinstance(layer, Hadamard) else torch.kron
    return _Factored(Kronecker([i.layer for i in inputs]), reduce(combine, [i.rest for i in inputs]))


def _interleaved(layer: Layer, factored: _Factored) -> _Factored:
    """An identity sum above a product that is the input of a product, factored at once: keeps R small."""
    if isinstance(layer, Hadamard | Kronecker):
        return _orthonormalised([factored.layer], factored.rest)
    return factored


def _orthonormalised(layers: list[Layer], v: Tensor) -> _Factored:
    """V [ℓ'₁ … ] = R† (Q† [ℓ'₁ …]) with V† = QR, for V wide or tall."""
    q, rest = _semi_unitary(v)
    return _Factored(Sum(layers, weight=_parameter(q)), rest)


def _semi_unitary(v: Tensor) -> tuple[Tensor, Tensor]:
    """V = L Q with orthonormal rows of Q and a non-negative diagonal of L."""
    q, r = torch.linalg.qr(v.mH)
    diagonal = r.diagonal()
    phase = torch.where(diagonal == 0, torch.ones_like(diagonal), diagonal.sgn())
    return (q * phase).mH.contiguous(), (phase.conj().unsqueeze(1) * r).mH


def _stacked(circuit: Circuit, root: Layer, done: Mapping[Layer, _Factored]) -> tuple[list[Layer], Tensor]:
    if isinstance(root, Sum):
        return _sum(circuit, root, done)
    factored = _factor(circuit, root, done)
    return [factored.layer], factored.rest


def _roots(circuit: Circuit, stacks: list[tuple[list[Layer], Tensor]]) -> Unitarised:
    """Case (v): with one root V = r q and β = 1/r; with several, √π V = U S Q and the roots become Q."""
    layers, v = _joined(stacks)
    if circuit.num_roots > 1:
        v = circuit.mixture.sqrt().unsqueeze(1) * v
    total = float(torch.linalg.vector_norm(v))
    if total == 0:
        raise ParameterError("unitarise: the circuit is zero everywhere, so it has no normalised form")
    if circuit.num_roots == 1:
        return Unitarised(Circuit(Sum(layers, weight=_parameter(v / total))), 1 / total)
    _, s, q = torch.linalg.svd(v, full_matrices=False)
    pi = Parameter((len(s),), Constraint.SIMPLEX, is_complex=False, value=(s / total).square())
    return Unitarised(Circuit(Sum(layers, weight=_parameter(q)), root_weights=pi), 1 / total)


def _joined(stacks: list[tuple[list[Layer], Tensor]]) -> tuple[list[Layer], Tensor]:
    """One matrix over the distinct layers below all roots."""
    layers = list(dict.fromkeys(layer for stack, _ in stacks for layer in stack))
    starts, width = {}, 0
    for layer in layers:
        starts[layer], width = width, width + layer.units
    rows = []
    for stack, v in stacks:
        row = torch.zeros(len(v), width, dtype=torch.complex128)
        for layer, block in zip(stack, torch.split(v, [layer.units for layer in stack], dim=1), strict=True):
            row[:, starts[layer] : starts[layer] + layer.units] += block
        rows.append(row)
    return layers, torch.cat(rows)


def _parameter(value: Tensor) -> Parameter:
    return Parameter(tuple(value.shape), Constraint.SEMI_UNITARY, value=value)
