"""Which input functions a unit depends on: basis scopes, basis decomposability, regular orthogonality."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, product

import torch
from torch import Tensor

from squircuit.circuits import Circuit, Hadamard, Input, Layer, Sum
from squircuit.circuits.circuit import require_circuit
from squircuit.errors import StructureError
from squircuit.properties.structure import is_decomposable, is_smooth
from squircuit.properties.verdict import Verdict
from squircuit.reference.data import as_variables
from squircuit.reference.inner_product import inner_inputs
from squircuit.reference.tolerance import cosines, doubtful, input_sizes, norms_of, tolerance_for
from squircuit.regions.scope import Scope, describe

UNCLEAR = "some functions are too small beside the terms that they are made of: rounding hides their products"

BLOCKS = "decided for input layers over the same integrated variables only, not for those over"
UNITS_LIMIT = 1 << 16
"""Layers with more units than this are not gone through unit by unit."""

BasisScope = dict[int, frozenset[tuple[Input, int]]]  # variable -> input units (layer, row)


def basis_scopes(circuit: Circuit) -> Iterator[tuple[Layer, list[BasisScope]]]:
    """The basis scope of every unit of every layer, layer by layer (Def. "Basis scope").

    An edge of weight zero is no edge; without values, all edges count.
    """
    known: dict[Layer, list[BasisScope]] = {}
    for layer in circuit.layers:
        known[layer] = _layer_scopes(circuit, layer, known)
        yield layer, known[layer]


def _layer_scopes(circuit: Circuit, layer: Layer, known: dict[Layer, list[BasisScope]]) -> list[BasisScope]:
    if isinstance(layer, Input):
        return [dict.fromkeys(layer.variables, frozenset({(layer, row)})) for row in range(layer.units)]
    inputs = [known[item] for item in layer.inputs]
    if isinstance(layer, Sum):
        units = [unit for scopes in inputs for unit in scopes]
        edges = sum_edges(circuit, layer)
        rows, which = torch.unique(edges, dim=0, return_inverse=True)  # units with equal edges share the work
        merged = [_union([units[i] for i in row.nonzero().flatten().tolist()]) for row in rows]
        return [merged[i] for i in which.tolist()]
    combine = zip(*inputs, strict=True) if isinstance(layer, Hadamard) else product(*inputs)
    return [_union(units) for units in combine]


def sum_edges(circuit: Circuit, layer: Sum) -> Tensor:
    """Boolean (K1, K2): which inputs each unit of a sum uses, those of non-zero weight."""
    if not circuit.has_weights:
        return torch.ones(layer.weight.shape, dtype=torch.bool)
    return circuit.value(layer.weight) != 0


def _union(scopes: Iterable[BasisScope]) -> BasisScope:
    merged: BasisScope = {}
    for scope in scopes:
        for variable, units in scope.items():
            merged[variable] = merged.get(variable, frozenset()) | units
    return merged


def is_basis_decomposable(circuit: Circuit, over: Iterable[int] | None = None) -> Verdict:
    """Every sum unit's inputs depend on disjoint sets of input functions of some variable.

    Def. "Basis decomposability": ∃X ∈ scope(n) ∀i≠j: B_X(i) ∩ B_X(j) = ∅. With ``over`` = Z, X must lie
    in Z and only sums whose scope meets Z count (Def. "Z-basis decomposability"). Decided by the graph
    and the zeros of the weights; stops at the first sum that fails. Cost O(edges · input functions).
    """
    require_circuit("is_basis_decomposable", circuit)
    over = None if over is None else frozenset(over)  # an iterator can be read only once
    chosen = as_variables(circuit, over)
    name = _named("basis decomposable", over, chosen)
    smooth = is_smooth(circuit)
    if not smooth:
        return Verdict(name, False, f"not smooth: {smooth.reason}", smooth.where)
    large = too_large(circuit, name)
    if large is not None:
        return large
    known: dict[Layer, list[BasisScope]] = {}
    for layer, scopes in basis_scopes(circuit):
        known[layer] = scopes
        if isinstance(layer, Sum) and layer.scope & chosen:
            failure = _sum_failure(circuit, layer, [u for i in layer.inputs for u in known[i]], chosen)
            if failure:
                return Verdict(name, False, failure, circuit.where(layer))
    return Verdict(name, True, "every sum splits the input functions of some variable among its inputs")


def too_large(circuit: Circuit, name: str) -> Verdict | None:
    """Say "not decided" where a layer has too many units to go through: a text can ask for 8⁹."""
    for layer in circuit.layers:
        if layer.units > UNITS_LIMIT:
            reason = f"it has {layer.units} units, too many to go through one by one"
            return Verdict(name, None, reason, circuit.where(layer))
    return None


def _sum_failure(circuit: Circuit, layer: Sum, units: list[BasisScope], chosen: Scope) -> str:
    """Why some unit of a sum is not basis decomposable; empty where all are."""
    for unit, edges in enumerate(sum_edges(circuit, layer)):
        used = [units[i] for i in edges.nonzero().flatten().tolist()]
        if not any(_disjoint(used, variable) for variable in layer.scope & chosen):
            return f"unit {unit}: for each variable two of its {len(used)} inputs share an input function"
    return ""


def _disjoint(units: list[BasisScope], variable: int) -> bool:
    seen: set[tuple[Input, int]] = set()
    for unit in units:
        used = unit.get(variable, frozenset())  # a unit whose weights are all zero depends on nothing
        if not seen.isdisjoint(used):
            return False
        seen |= used
    return True


def is_regular_orthogonal(
    circuit: Circuit, over: Iterable[int] | None = None, tolerance: float | None = None
) -> Verdict:
    """Basis decomposable, and all input units over one variable are pairwise orthogonal.

    Def. "Regular orthogonality" and its Z-form. Implies orthogonality (Thm. "regular orthogonality is
    sufficient"), at the price of a graph walk and of the inner products of input functions.
    """
    require_circuit("is_regular_orthogonal", circuit)
    over = None if over is None else frozenset(over)  # an iterator can be read only once
    chosen = as_variables(circuit, over)
    name = _named("regular orthogonal", over, chosen)
    for verdict in (is_smooth(circuit), is_decomposable(circuit), is_basis_decomposable(circuit, over)):
        if not verdict:
            return Verdict(name, verdict.holds, f"not {verdict.name}: {verdict.reason}", verdict.where)
    if not circuit.has_weights:
        return Verdict(name, None, "the circuit has no weights yet; call circuit.initialise(seed=…)")
    return _inputs_orthogonal(circuit, chosen, name, tolerance_for(circuit, tolerance))


def _inputs_orthogonal(circuit: Circuit, chosen: Scope, name: str, tolerance: float) -> Verdict:
    unclear = ""
    for a, b in input_pairs(circuit, chosen):
        if a.scope != b.scope or not a.scope <= chosen:
            reason = f"{BLOCKS} {describe(a.scope)} and {describe(b.scope)}"
            return Verdict(name, None, reason, circuit.where(a))
        inner = closed_inner(circuit, a, b)
        if isinstance(inner, str):
            return Verdict(name, None, inner, circuit.where(a))
        norms, others = (norms_of(inner_inputs(circuit, i, circuit, i)[None]) for i in (a, b))
        overlap = cosines(inner[None], norms, others)[0]
        doubts = doubtful(norms, others, input_sizes(circuit, a), input_sizes(circuit, b), tolerance)[0]
        if a is b:
            overlap, doubts = overlap.fill_diagonal_(0), doubts.fill_diagonal_(False)
        unclear = circuit.where(a) if doubts.any() and not unclear else unclear
        overlap = torch.where(doubts, 0.0, overlap)
        if overlap.max() > tolerance:
            i, j = divmod(int(overlap.argmax()), b.units)
            cosine = f"normalised inner product {overlap.max():.3g}"
            reason = f"unit {i} and unit {j} of {circuit.name(b)} have {cosine}"
            return Verdict(name, False, reason, circuit.where(a))
    if unclear:
        return Verdict(name, None, UNCLEAR, unclear)
    return Verdict(name, True, f"input functions of a variable are orthogonal (tolerance {tolerance:.2g})")


def closed_inner(circuit: Circuit, a: Input, b: Input) -> Tensor | str:
    """Inner products of the functions of two input layers, (K, J), or why they have no closed form."""
    try:
        return inner_inputs(circuit, a, circuit, b)
    except StructureError as error:  # of blocks in two orders or coordinates, or beside other functions
        return f"the inner products with {circuit.name(b)} have no closed form: {error.reason}"


def input_pairs(circuit: Circuit, variables: Scope) -> Iterator[tuple[Input, Input]]:
    """Every input layer over one of ``variables`` with itself, and with each other over one of the same."""
    by_variable: dict[int, list[Input]] = {}
    for layer in circuit.inputs:
        for variable in layer.variables:
            by_variable.setdefault(variable, []).append(layer)
    pairs: dict[tuple[Input, Input], None] = {}  # those of blocks have several variables in common
    for variable in sorted(variables):
        layers = by_variable[variable]
        pairs |= dict.fromkeys((layer, layer) for layer in layers)
        pairs |= dict.fromkeys(combinations(layers, 2))
    yield from pairs


def _named(name: str, over: Iterable[int] | None, chosen: Scope) -> str:
    """The property's name, with the Z of its Z-form."""
    return name if over is None else f"{describe(chosen)}-{name}"
