"""Any circuit with orthonormal input functions → one with semi-unitary weights (Alg. Unitarize)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple, final

import torch
from torch import Tensor

from squircuit.circuits import Circuit, Constraint, Hadamard, Input, Kronecker, Layer, Parameter, Sum
from squircuit.circuits.circuit import require_circuit
from squircuit.circuits.layers import have_same_functions
from squircuit.errors import ParameterError, StructureError
from squircuit.reference.evaluate import input_weight, kronecker, kronecker_rows, weight_blocks

EXACT = 1e-12  # an input weight this close to semi-unitary is kept as it is
RANK = 1e-13  # singular values below this, relative to the largest, are zero


@final
@dataclass(frozen=True)
class Unitarised:
    """The result of :func:`unitarise`: c' = β c.

    Args:
        circuit: c', with semi-unitary weights.
        log_beta: log β; finite also where β itself is out of floating-point range.
    """

    circuit: Circuit
    log_beta: float

    @property
    def beta(self) -> float:
        """β = Z^(-1/2) if the circuit satisfies (U1) and (U2)."""
        return math.exp(self.log_beta)


class _Factored(NamedTuple):
    """ℓ = 2^e R ℓ': what is left of a layer once its weights have been made semi-unitary.

    The power of two keeps R near 1: products of hundreds of matrices leave the range of floats.
    """

    layer: Layer
    rest: Tensor  # R, (K, K')
    exponent: int = 0


def unitarise(circuit: Circuit, weights: Mapping[str, Tensor] | None = None) -> Unitarised:
    """Make all weights semi-unitary without changing the function, up to a factor: c' = β c, β > 0.

    Alg. Unitarize (App. "Enforcing (Semi-)Unitary Parameters is Efficient"): from the inputs to the root,
    V† = QR at every sum, Q† stays, R† goes up; Hadamard products become Kronecker products by the
    face-splitting product R₁ • R₂, and an identity sum is put between consecutive products, so that
    sizes stay polynomial. Input weights are treated like sums. Cost O(L K⁴).

    If functions of different input layers over a variable are orthogonal and (U2) holds, then c' is unitary
    and β = Z^(-1/2). Real circuits stay real. Ties between weights are lost. With several roots,
    p ∝ Σ_r π_r |c_r|² is kept up to the factor β²: the roots and their weights π come from a singular value
    decomposition in place of the last QR.

    Args:
        circuit: smooth and decomposable, with orthonormal families.
        weights: values to use instead of the circuit's own.

    Example:
        >>> from squircuit.families import Categorical
        >>> c = Circuit(Sum(Input(0, Categorical(2)), weight=torch.tensor([[3.0, 4.0j]])))
        >>> round(unitarise(c).beta, 12)
        0.2
    """
    require_circuit("unitarise", circuit)
    circuit = circuit if weights is None else circuit.with_weights(weights)
    done: dict[Layer, _Factored] = dict(_inputs(circuit))
    used = {item for layer in circuit.layers for item in layer.inputs}
    for layer in circuit.layers:
        if layer in used and layer not in done:
            done[layer] = _factor(circuit, layer, done)
    return _roots(circuit, [_stacked(circuit, root, done) for root in circuit.roots])


def _inputs(circuit: Circuit) -> Iterator[tuple[Layer, _Factored]]:
    """Case (i): orthonormal functions stay; W φ with any other W is factored like a sum.

    Layers over one variable that come out mutually orthogonal are blocks of one semi-unitary matrix.
    """
    held = {p for layer in circuit.inputs for p in layer.parameters.values()}
    learnt = {p: Parameter(p.shape, p.constraint, False, value=circuit.value(p)) for p in held}
    groups: dict[tuple[int, ...], list[Input]] = {}
    for layer in circuit.inputs:
        _require_orthonormal(circuit, layer)
        groups.setdefault(layer.variables, []).append(layer)
    for layers in groups.values():
        factors = [_row_space(input_weight(circuit, layer)) for layer in layers]
        same = all(have_same_functions(layer, layers[0]) for layer in layers)
        stacked = torch.cat([q for q, _ in factors]) if same else None
        shared = None if stacked is None or not _is_semi_unitary(stacked) else _parameter(circuit, stacked)
        first_row = 0
        for layer, (q, rest) in zip(layers, factors, strict=True):
            weight, row = (_parameter(circuit, q), 0) if shared is None else (shared, first_row)
            yield layer, _Factored(_new_input(layer, learnt, weight, row, len(q)), rest)
            first_row += len(q)


def _new_input(
    layer: Input, learnt: Mapping[Parameter, Parameter], weight: Parameter, first_row: int, units: int
) -> Input:
    places = {role: learnt[p] for role, p in layer.parameters.items()}
    if layer.weight is None:
        return Input(layer.variables, layer.family, parameters=places)
    return Input(layer.variables, layer.family, units, weight, first_row, places)


def _require_orthonormal(circuit: Circuit, layer: Input) -> None:
    if not layer.family.is_orthonormal:
        raise StructureError(
            "orthonormal (U1)",
            circuit.where(layer),
            f"the functions of {type(layer.family).__name__} are not orthonormal",
            "use an orthonormal family; Orthonormalised makes one of any",
        )


def _row_space(weight: Tensor) -> tuple[Tensor, Tensor]:
    """W = R Q with rows of Q an orthonormal basis of exactly the row space of W (at least one row)."""
    if _is_semi_unitary(weight):
        return weight, torch.eye(len(weight), dtype=weight.dtype)
    # rows of length 1, so that a small row beside large ones is not taken for rounding of theirs
    lengths = torch.linalg.vector_norm(weight, dim=1, keepdim=True)
    u, s, q = torch.linalg.svd(weight / torch.where(lengths > 0, lengths, 1.0), full_matrices=False)
    rank = max(1, int((s > RANK * s[0]).sum()))
    return q[:rank], lengths * u[:, :rank] * s[:rank]


def _is_semi_unitary(weight: Tensor) -> bool:
    identity = torch.eye(len(weight), dtype=weight.dtype)
    return bool((weight @ weight.mH - identity).abs().max() <= EXACT)


def _factor(circuit: Circuit, layer: Layer, done: Mapping[Layer, _Factored]) -> _Factored:
    if isinstance(layer, Sum):
        return _orthonormalised(circuit, *_sum(circuit, layer, done))
    return _product(circuit, layer, done)


def _sum(circuit: Circuit, layer: Sum, done: Mapping[Layer, _Factored]) -> tuple[list[Layer], Tensor, int]:
    """Case (ii): W [ℓ₁ … ℓ_N] = 2^e V [ℓ'₁ … ℓ'_N] with V = [W₁R₁ … W_N R_N]."""
    inputs = [done[item] for item in layer.inputs]
    exponent = max(item.exponent for item in inputs)
    parts = [
        w @ item.rest * 2.0 ** (item.exponent - exponent)
        for w, item in zip(weight_blocks(circuit, layer), inputs, strict=True)
    ]
    return [item.layer for item in inputs], torch.cat(parts, dim=1), exponent


def _product(circuit: Circuit, layer: Layer, done: Mapping[Layer, _Factored]) -> _Factored:
    """Cases (iii) and (iv): ⊗ of the inputs, with R₁ • R₂ for Hadamard and R₁ ⊗ R₂ for Kronecker layers."""
    inputs = [_interleaved(circuit, item, done[item]) for item in layer.inputs]
    combine = kronecker_rows if isinstance(layer, Hadamard) else kronecker
    rest = reduce(combine, [item.rest for item in inputs])
    return _Factored(Kronecker([i.layer for i in inputs]), rest, sum(i.exponent for i in inputs))


def _interleaved(circuit: Circuit, layer: Layer, factored: _Factored) -> _Factored:
    """An identity sum above a product that is the input of a product, factored at once: keeps R small."""
    if isinstance(layer, Hadamard | Kronecker):
        return _orthonormalised(circuit, [factored.layer], factored.rest, factored.exponent)
    return factored


def _orthonormalised(circuit: Circuit, layers: list[Layer], v: Tensor, exponent: int) -> _Factored:
    """V [ℓ'₁ … ] = R† (Q† [ℓ'₁ …]) with V† = QR, for V wide or tall."""
    q, r = torch.linalg.qr(v.mH)
    if len(v) == 1 and bool(v.any()):  # small entries beside large ones keep all their digits
        r = torch.linalg.vector_norm(v).reshape(1, 1).to(v.dtype)
        q = v.mH / r
    shift = _exponent(r)
    return _Factored(Sum(layers, weight=_parameter(circuit, q.mH)), r.mH * 2.0**-shift, exponent + shift)


def _exponent(matrix: Tensor) -> int:
    """e with 2^(e-1) ≤ the largest entry < 2^e; 0 for a zero matrix."""
    return math.frexp(float(matrix.abs().max()))[1]


def _stacked(
    circuit: Circuit, root: Layer, done: Mapping[Layer, _Factored]
) -> tuple[list[Layer], Tensor, int]:
    if isinstance(root, Sum):
        return _sum(circuit, root, done)
    factored = done[root] if root in done else _factor(circuit, root, done)
    return [factored.layer], factored.rest, factored.exponent


def _roots(circuit: Circuit, stacks: list[tuple[list[Layer], Tensor, int]]) -> Unitarised:
    """Case (v): with one root V = r q and β = 1/r; with several, √π V = U S Q and the roots become Q."""
    layers, v, exponent = _joined(stacks)
    if circuit.num_roots > 1:
        v = circuit.root_shares.sqrt().unsqueeze(1) * v
    total = float(torch.linalg.vector_norm(v))
    if total == 0:
        raise ParameterError(
            "unitarise: the circuit is zero everywhere, so it has no normalised form. Fix: check the weights."
        )
    log_beta = -math.log(total) - exponent * math.log(2)
    if circuit.num_roots == 1:
        return Unitarised(Circuit(Sum(layers, weight=_parameter(circuit, v / total))), log_beta)
    _, s, q = torch.linalg.svd(v, full_matrices=False)
    pi = Parameter((len(s),), Constraint.SIMPLEX, is_complex=False, value=(s / total).square())
    return Unitarised(Circuit(Sum(layers, weight=_parameter(circuit, q)), root_weights=pi), log_beta)


def _joined(stacks: list[tuple[list[Layer], Tensor, int]]) -> tuple[list[Layer], Tensor, int]:
    """One matrix over the distinct layers below all roots."""
    layers = list(dict.fromkeys(layer for stack, _, _ in stacks for layer in stack))
    exponent = max(e for _, _, e in stacks)
    starts, width = {}, 0
    for layer in layers:
        starts[layer], width = width, width + layer.units
    rows = []
    for stack, v, e in stacks:
        row = torch.zeros(len(v), width, dtype=torch.complex128)
        blocks = torch.split(v * 2.0 ** (e - exponent), [layer.units for layer in stack], dim=1)
        for layer, block in zip(stack, blocks, strict=True):
            row[:, starts[layer] : starts[layer] + layer.units] += block
        rows.append(row)
    return layers, torch.cat(rows), exponent


def _parameter(circuit: Circuit, value: Tensor) -> Parameter:
    """A semi-unitary parameter; real where all weights of the circuit are."""
    if not any(p.is_complex for p in circuit.parameters.values()):
        value = value.real
    return Parameter(tuple(value.shape), is_complex=value.is_complex(), value=value)
