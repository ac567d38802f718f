"""Properties (U1) to (U4) of layers, and unitarity: the conditions under which Z = 1 (Thm. 2).

(U1) and (U3) are decided by the values of the weights; where these are not there yet, by what the
parameters are declared to be. Tied weights are no obstacle: the conditions speak of layers over the same
variable, so one parameter may serve layers over different ones.
"""

from __future__ import annotations

from itertools import combinations

import torch

from squircuit.circuits import Circuit, Constraint, Input, Layer, Parameter, Sum
from squircuit.circuits.circuit import require_circuit
from squircuit.circuits.layers import are_apart
from squircuit.circuits.root_layers import separated
from squircuit.circuits.semi_unitary import deviation
from squircuit.properties.basis import BLOCKS, closed_inner, input_pairs
from squircuit.properties.structure import is_decomposable, is_smooth
from squircuit.properties.verdict import Verdict
from squircuit.reference.tolerance import tolerance_for
from squircuit.regions.scope import describe


def satisfies_u1(circuit: Circuit, tolerance: float | None = None) -> Verdict:
    """(U1): input layers are orthonormal, and orthogonal over one variable. Cost O(Σ K²n)."""
    require_circuit("satisfies_u1", circuit)
    limit = tolerance_for(circuit, tolerance)
    doubts = []
    for a, b in input_pairs(circuit, circuit.scope):
        if a.scope != b.scope:  # functions of one variable of both do not make their products orthogonal
            reason = f"{BLOCKS} {describe(a.scope)} and {describe(b.scope)}"
            doubts.append(Verdict("U1", None, reason, circuit.where(a)))
            continue
        what = "orthonormal" if a is b else f"orthogonal to {circuit.name(b)}"
        if _has_values(circuit, a) and _has_values(circuit, b):
            expected = torch.eye(a.units) if a is b else torch.zeros(a.units, b.units)
            found = closed_inner(circuit, a, b)
            if isinstance(found, str):
                doubts.append(Verdict("U1", None, found, circuit.where(a)))
                continue
            error = (found - expected).abs().max().item()
            if error > limit:
                return Verdict(
                    "U1", False, f"its functions are not {what}, error {error:.3g}", circuit.where(a)
                )
        elif not (
            _is_declared_orthonormal(circuit, a, limit)
            if a is b
            else _are_declared_orthogonal(circuit, a, b, limit)
        ):
            reason = f"its functions are not declared {what}, and have no weights yet"
            doubts.append(Verdict("U1", None, reason, circuit.where(a)))
    return (
        doubts[0]
        if doubts
        else _holds("U1", "input layers are orthonormal and mutually orthogonal", circuit, limit)
    )


def _holds(name: str, reason: str, circuit: Circuit, limit: float) -> Verdict:
    how = f"(tolerance {limit:.2g})" if circuit.has_weights else "(declared)"
    return Verdict(name, True, f"{reason} {how}")


def _has_values(circuit: Circuit, layer: Input | Sum) -> bool:
    return all(circuit.known_value(p) is not None for p in layer.named_parameters().values())


def _is_declared_orthonormal(circuit: Circuit, layer: Input, limit: float) -> bool:
    """Orthonormal functions, mixed by nothing or by orthonormal rows; their place may be learnt."""
    if not layer.family.is_orthonormal or layer.weight is None:
        return layer.family.is_orthonormal
    return _has_orthonormal_rows(circuit, layer.weight, limit)


def _are_declared_orthogonal(circuit: Circuit, a: Input, b: Input, limit: float) -> bool:
    """Disjoint rows of one semi-unitary matrix over the same functions."""
    return are_apart(a, b) and a.weight is not None and _has_orthonormal_rows(circuit, a.weight, limit)


def _has_orthonormal_rows(circuit: Circuit, weight: Parameter, limit: float) -> bool:
    """Whether a weight is semi-unitary: by its value where that is known, else by its constraint."""
    value = circuit.known_value(weight)
    if value is None:
        return weight.constraint is Constraint.SEMI_UNITARY
    return deviation(value) <= limit


def satisfies_u2(circuit: Circuit) -> Verdict:
    """(U2): the inputs of every sum share no input layer over *some* variable. Cost O(layers²)."""
    require_circuit("satisfies_u2", circuit)
    return _layers_apart(circuit, "U2", every_variable=False)


def satisfies_u4(circuit: Circuit) -> Verdict:
    """(U4): the inputs of every sum share no input layer over *any* variable. Cost O(layers²)."""
    require_circuit("satisfies_u4", circuit)
    return _layers_apart(circuit, "U4", every_variable=True)


def _layers_apart(circuit: Circuit, name: str, every_variable: bool) -> Verdict:
    below = _input_masks(circuit)
    over = dict.fromkeys(circuit.scope, 0)
    for i, item in enumerate(circuit.inputs):
        for variable in item.variables:
            over[variable] |= 1 << i
    for layer in circuit.sums:
        shared = 0
        for a, b in combinations(layer.inputs, 2):
            shared |= below[a] & below[b]
        clean = [v for v in layer.scope if not shared & over[v]] if shared else list(layer.scope)
        if shared and (every_variable or not clean):
            index = (shared & -shared).bit_length() - 1
            what = (
                "two of its inputs share" if every_variable else "for each variable two of its inputs share"
            )
            reason = f"{what} input layers, e.g. {circuit.where(circuit.inputs[index])}"
            return Verdict(name, False, reason, circuit.where(layer))
    over_which = "any variable" if every_variable else "some variable"
    return Verdict(name, True, f"the inputs of every sum share no input layer over {over_which}")


def _input_masks(circuit: Circuit) -> dict[Layer, int]:
    """The input layers below each layer, as bits: sets of thousands are compared in one operation."""
    masks: dict[Layer, int] = {layer: 1 << i for i, layer in enumerate(circuit.inputs)}
    for layer in circuit.layers:
        for item in layer.inputs:
            masks[layer] = masks.get(layer, 0) | masks[item]
    return masks


def satisfies_u3(circuit: Circuit, tolerance: float | None = None) -> Verdict:
    """(U3): every sum weight is semi-unitary, W Wᴴ = I. Cost O(Σ K1² K2)."""
    require_circuit("satisfies_u3", circuit)
    limit = tolerance_for(circuit, tolerance)
    doubts = []
    for layer in {layer.weight: layer for layer in circuit.sums}.values():
        if _has_values(circuit, layer):
            error = deviation(circuit.value(layer.weight))
            if error > limit:
                return Verdict("U3", False, f"W Wᴴ differs from I by {error:.3g}", circuit.where(layer))
        elif layer.weight.constraint is not Constraint.SEMI_UNITARY:
            reason = f"its weight is declared {layer.weight.constraint}, and has no value yet"
            doubts.append(Verdict("U3", None, reason, circuit.where(layer)))
    return doubts[0] if doubts else _holds("U3", "sum weights are semi-unitary", circuit, limit)


def is_unitary(circuit: Circuit, tolerance: float | None = None) -> Verdict:
    """Smooth, decomposable and (U1)–(U3): then p = |c|² is normalised, Z = 1 (Thm. 2).

    Z = Σ_r π_r ∫ |c_r|² has no products of different roots, so of a circuit with several root layers, such as
    a mixture of models, it is enough that the circuit of each has them.
    """
    require_circuit("is_unitary", circuit)
    verdict = _is_unitary(circuit, tolerance)
    if verdict or len(circuit.roots) == 1:
        return verdict
    if all(_is_unitary(part, tolerance) for part in separated(circuit)):
        return Verdict("unitary", True, "U1, U2 and U3 hold for the circuit of each root, so Z = 1")
    return verdict


def _is_unitary(circuit: Circuit, tolerance: float | None) -> Verdict:
    parts = (
        is_smooth(circuit),
        is_decomposable(circuit),
        satisfies_u1(circuit, tolerance),
        satisfies_u2(circuit),
        satisfies_u3(circuit, tolerance),
    )
    failed = [part for part in parts if part.holds is False] or [part for part in parts if not part]
    if failed:
        first = failed[0]
        answer = "is not decided" if first.holds is None else "fails"
        return Verdict("unitary", first.holds, f"{first.name} {answer}: {first.reason}", first.where)
    return Verdict("unitary", True, "U1, U2 and U3 hold, so Z = 1")
