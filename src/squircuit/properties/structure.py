"""Properties of the graph alone: smooth, decomposable, compatible, structured-decomposable."""

from __future__ import annotations

from collections.abc import Iterator

from squircuit.circuits import Circuit, Input, Layer, Sum
from squircuit.circuits.circuit import require_circuit
from squircuit.circuits.validation import overlapping_products, uneven_sums
from squircuit.errors import StructureError
from squircuit.properties.verdict import Verdict
from squircuit.regions.scope import Scope, describe

Split = frozenset[Scope]


def is_smooth(circuit: Circuit) -> Verdict:
    """All inputs of every sum depend on the same variables (Def. 2). Cost O(|c|)."""
    require_circuit("is_smooth", circuit)
    return _first_failure(
        circuit, "smooth", uneven_sums(circuit.layers), "the inputs of every sum have equal scopes"
    )


def is_decomposable(circuit: Circuit) -> Verdict:
    """The inputs of every product depend on disjoint sets of variables (Def. 2). Cost O(|c|)."""
    require_circuit("is_decomposable", circuit)
    return _first_failure(
        circuit,
        "decomposable",
        overlapping_products(circuit.layers),
        "the inputs of every product have disjoint scopes",
    )


def are_compatible(a: Circuit, b: Circuit) -> Verdict:
    """Products of ``a`` and ``b`` with the same scope split it in the same way (Def. 4).

    The definition also asks that products of input functions can be integrated: they can, for any two
    families over one domain, so the domains must agree. Cost O(layers · variables).
    """
    require_circuit("are_compatible", a, b)
    return _compatible("compatible", a, b)


def is_structured_decomposable(circuit: Circuit) -> Verdict:
    """Compatible with itself: all products over one scope split it in one way (§2). Cost as above."""
    require_circuit("is_structured_decomposable", circuit)
    return _compatible("structured-decomposable", circuit, circuit)


def _compatible(name: str, a: Circuit, b: Circuit) -> Verdict:
    for circuit in (a, b):
        for verdict in (is_smooth(circuit), is_decomposable(circuit)):
            if not verdict:
                return Verdict(name, False, f"not {verdict.name}: {verdict.reason}", verdict.where)
    for variable in sorted(a.scope & b.scope):
        mine, other = a.domains[variable], b.domains[variable]
        if mine != other:
            reason = f"it has the domains {mine.describe()} and {other.describe()}"
            return Verdict(name, False, reason, f"variable {variable}")
    return _one_split_each(name, a, b)


def _one_split_each(name: str, a: Circuit, b: Circuit) -> Verdict:
    splits: dict[Scope, tuple[Split, str]] = {}
    for layer in _products(a):
        splits.setdefault(layer.scope, (_split(layer), a.where(layer)))
    for circuit in (a, b):
        for layer in _products(circuit):
            split, first = splits.get(layer.scope, (_split(layer), ""))
            if split != _split(layer):
                reason = f"it splits its scope into {_show(_split(layer))}, but {first} into {_show(split)}"
                return Verdict(name, False, reason, circuit.where(layer))
    return Verdict(name, True, "products over one scope split it in one way")


def _products(circuit: Circuit) -> Iterator[Layer]:
    """The layers that split a scope, and blocks, which keep it whole; a product of one input does neither."""
    return (layer for layer in circuit.layers if not isinstance(layer, Sum) and _is_of_several(layer))


def _is_of_several(layer: Layer) -> bool:
    return len(layer.variables if isinstance(layer, Input) else layer.inputs) > 1


def _split(layer: Layer) -> Split:
    """Into which parts a product splits its scope; a block is one part."""
    return frozenset(item.scope for item in layer.inputs) or frozenset({layer.scope})


def _show(split: Split) -> str:
    return " ".join(describe(scope) for scope in sorted(split, key=sorted))


def _first_failure(
    circuit: Circuit, name: str, failures: Iterator[tuple[Layer, StructureError]], reason: str
) -> Verdict:
    for layer, failure in failures:
        return Verdict(name, False, failure.reason, circuit.where(layer))
    return Verdict(name, True, reason)
