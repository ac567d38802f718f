"""Orthogonality: the inputs of a sum are orthogonal functions, over all variables or over some."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from squircuit.circuits import Circuit, Kronecker, Layer, Sum
from squircuit.circuits.balance import balanced
from squircuit.circuits.circuit import require_circuit
from squircuit.circuits.postorder import postorder
from squircuit.errors import StructureError
from squircuit.properties.basis import BLOCKS, UNCLEAR, is_regular_orthogonal, sum_edges, too_large
from squircuit.properties.points import POINTS_LIMIT, blocks, grid, quadrature
from squircuit.properties.structure import is_decomposable, is_smooth
from squircuit.properties.unitary import is_unitary
from squircuit.properties.verdict import Verdict
from squircuit.reference.data import as_variables
from squircuit.reference.evaluate import evaluate_layers
from squircuit.reference.inner_product import PairGrams
from squircuit.reference.tolerance import cosines, doubtful, magnitudes, norms_of, tolerance_for
from squircuit.regions.scope import Scope, describe

ENTRIES_LIMIT = 1 << 20  #: Gram matrices with more entries than this are not formed


def is_orthogonal(
    circuit: Circuit, over: Iterable[int] | None = None, tolerance: float | None = None
) -> Verdict:
    """The inputs of every sum unit are pairwise orthogonal functions (Def. "Orthogonality").

    With ``over`` = Z: orthogonal as functions of the variables in Z for *every* value of the others,
    at the sums whose scope meets Z (Def. "Z-orthogonality"). By inner products in closed form or
    quadrature, normalised by the functions' norms; the values of the others are enumerated, one random
    point standing for each piece of a continuous variable.

    Cost: the inner products of all pairs of inputs of each sum, O(L² S²) where the circuit is structured,
    for each value of the others. "Not decided" where the inputs of a sum are not compatible, nothing makes
    their inner product vanish (computing it is #P-hard) and their states are too many to enumerate; or where
    there are too many values of the others, or units, to go through.
    """
    require_circuit("is_orthogonal", circuit)
    over = None if over is None else frozenset(over)  # an iterator can be read only once
    chosen = as_variables(circuit, over)
    name = "orthogonal" if over is None else f"{describe(chosen)}-orthogonal"
    for verdict in (is_smooth(circuit), is_decomposable(circuit)):
        if not verdict:
            return Verdict(name, False, f"not {verdict.name}: {verdict.reason}", verdict.where)
    cut = [layer for layer in blocks(circuit) if not layer.scope <= chosen]  # of these there are no points
    if cut:
        return Verdict(name, None, f"{BLOCKS} {describe(cut[0].scope)}", circuit.where(cut[0]))
    if circuit.has_weights:
        scaled = circuit if too_large(circuit, name) else balanced(circuit)  # a tiny function is not zero
        verdict = _by_inner_products(scaled, chosen, name, tolerance)
    else:
        verdict = _no_weights(name)
    return verdict if verdict.holds is not None else _by_theorem(circuit, over, verdict)


def _no_weights(name: str) -> Verdict:
    return Verdict(name, None, "the circuit has no weights yet; call circuit.initialise(seed=…)")


def _by_theorem(circuit: Circuit, over: Iterable[int] | None, undecided: Verdict) -> Verdict:
    """Regular orthogonality implies orthogonality, over any Z; unitarity does over all variables (Thm. 2)."""
    if over is None and is_unitary(circuit):
        return Verdict(undecided.name, True, "the circuit is unitary (Thm. 2)")
    if circuit.has_weights and is_regular_orthogonal(circuit, over):
        return Verdict(undecided.name, True, "the circuit is regular orthogonal")
    return undecided


def _by_inner_products(circuit: Circuit, chosen: Scope, name: str, tolerance: float | None) -> Verdict:
    limit = tolerance_for(circuit, tolerance)
    sums = (layer for layer in circuit.sums if layer.scope & chosen)
    everything = _Measures(circuit, None, chosen) if chosen == circuit.scope else None  # one for all sums
    doubts = []
    for layer in sums:
        verdict = _check_sum(circuit, layer, chosen, name, limit, everything)
        if verdict.holds is False:
            return verdict
        if verdict.holds is None:
            doubts.append(verdict)
    if doubts:
        return doubts[0]
    return Verdict(name, True, f"inputs of every sum are orthogonal (tolerance {limit:.2g})")


class _Measures:
    """Inner products of units, and what their norms would be if no terms cancelled, remembered once computed.

    Args:
        circuit: with weights.
        rows: (n, d), values of the variables that are not integrated; None where all are.
        over: the variables that are.
    """

    def __init__(self, circuit: Circuit, rows: Tensor | None, over: Scope) -> None:
        self.grams = PairGrams(circuit, circuit, rows, over)
        self._sizes: dict[Layer, Tensor] = {}

    def sizes(self, layers: tuple[Layer, ...]) -> Tensor:
        """What the norms of all units of some layers would be: (n, H)."""
        known, grams = self._sizes, self.grams
        order = postorder(layers, lambda item: () if item in known else item.inputs)
        below = {item: known[item] for item in order if item in known}
        known.update(magnitudes(grams.a, order, grams.data, grams.over, below))
        return torch.cat([known[item] for item in layers], dim=1)


@dataclass(frozen=True)
class _Compared:
    """How much units of some layers overlap, at every row.

    Args:
        layers: whose units are compared.
        overlaps: cosines (n, H, H) of units that meet, 0 where they are in doubt.
        doubts: which cosines rounding may have moved, booleans (n, H, H).
        is_there: whether some unit is certainly not zero: (n,).
        is_zero: whether all units are certainly zero: (n,).
    """

    layers: tuple[Layer, ...]
    overlaps: Tensor
    doubts: Tensor
    is_there: Tensor
    is_zero: Tensor


def _check_sum(
    circuit: Circuit, layer: Sum, chosen: Scope, name: str, limit: float, everything: _Measures | None
) -> Verdict:
    where = circuit.where(layer)
    rows, complete = grid(circuit, layer.scope - chosen)
    edges = sum_edges(circuit, layer)
    groups = _independent_groups(layer, edges)
    if len(rows) * max(sum(item.units for item in group) for group in groups) ** 2 > ENTRIES_LIMIT:
        return Verdict(name, None, f"{layer.input_units} inputs are too many to compare", where)
    measures = everything or _Measures(circuit, rows, chosen)
    compared = []
    for group in groups:
        found = _compare(measures, group, _meeting(edges, layer, group), rows, limit)
        if found is None:
            reason = "inner products of incompatible inputs are #P-hard, and these have too many states"
            return Verdict(name, None, reason, where)
        compared.append(found)
    unclear = False
    for found in compared:
        # units of a factor that overlap make products that do, unless another factor is zero
        others = [other for other in compared if other is not found]
        sure = _all([other.is_there for other in others], rows)
        possible = _all([~other.is_zero for other in others], rows)
        worst = (found.overlaps * sure).amax(dim=0)
        if worst.max() > limit:
            i, j = divmod(int(worst.argmax()), len(worst))
            of = f" of {circuit.name(found.layers[0])}, which it multiplies," if len(compared) > 1 else ""
            reason = f"inputs {i} and {j}{of} have normalised inner product {worst.max():.3g}"
            return Verdict(name, False, reason, where)
        unclear = unclear or bool(((found.doubts | (found.overlaps > limit)) & possible).any())
    if unclear:
        return Verdict(name, None, UNCLEAR, where)
    if not complete:
        reason = f"{len(layer.scope - chosen)} other variables have too many values to go through"
        return Verdict(name, None, reason, where)
    return Verdict(name, True)


def _independent_groups(layer: Sum, edges: Tensor) -> list[tuple[Layer, ...]]:
    """Layers whose units must be pairwise orthogonal, each group by itself, for the sum's inputs to be.

    The inputs themselves; but a Kronecker product of which all units are used is orthogonal if and only if
    each of its factors is (none of them being zero): the cosine of two products is the product of cosines.
    """
    (first, *others) = layer.inputs
    if isinstance(first, Kronecker) and not others and bool(edges.all()):
        return [(item,) for item in first.inputs]
    return [layer.inputs]


def _all(conditions: list[Tensor], rows: Tensor) -> Tensor:
    """Whether all of some conditions (n,) hold, by row: booleans (n, 1, 1)."""
    return torch.stack([torch.ones(len(rows), dtype=torch.bool), *conditions]).all(dim=0).reshape(-1, 1, 1)


def _meeting(edges: Tensor, layer: Sum, group: tuple[Layer, ...]) -> Tensor:
    """Which pairs of distinct units meet in a unit of the sum: boolean (H, H)."""
    if group == layer.inputs:
        used = edges.double()
        return (used.T @ used > 0).fill_diagonal_(False)
    return ~torch.eye(group[0].units, dtype=torch.bool)


def _compare(
    measures: _Measures, layers: tuple[Layer, ...], meet: Tensor, rows: Tensor, limit: float
) -> _Compared | None:
    """The overlaps of units that meet; None where their inner products are out of reach."""
    sizes = measures.sizes(layers)
    possible = (sizes != 0).any(dim=0)  # units without any term are zero, and orthogonal to all others
    meet = meet & possible & possible.unsqueeze(1)
    gram = _gram(measures.grams, layers, meet, rows)
    if gram is None:
        return None
    norms = norms_of(gram)
    doubts = doubtful(norms, norms, sizes, sizes, limit)
    overlaps = torch.where(doubts, 0.0, cosines(gram, norms, norms)) * meet
    is_there = (~doubts.diagonal(dim1=1, dim2=2) & (norms > 0)).any(dim=1)
    return _Compared(layers, overlaps, doubts & meet, is_there, (sizes == 0).all(dim=1))


def _gram(grams: PairGrams, layers: tuple[Layer, ...], meet: Tensor, rows: Tensor) -> Tensor | None:
    """Inner products of all units of some layers, at every row: (n, H, H); 0 of layers that do not meet.

    By recursion where the inputs are compatible, by enumeration where they are not and that is feasible.
    """
    widths = [item.units for item in layers]
    parts = torch.split(meet, widths)
    used = [bool(part.any()) or len(layers) == 1 for part in parts]

    def block(i: int, j: int) -> Tensor:
        a, b = layers[i], layers[j]
        pairs = torch.split(parts[i], widths, dim=1)[j]
        if (i == j and used[i]) or bool(pairs.any()):
            return grams(a, b)
        return torch.zeros(len(rows), a.units, b.units, dtype=torch.complex128)

    try:
        count = range(len(layers))
        return torch.cat([torch.cat([block(i, j) for j in count], dim=2) for i in count], dim=1)
    except StructureError:
        return _enumerated_gram(grams.a, layers, rows, grams.over & layers[0].scope)


def _enumerated_gram(
    circuit: Circuit, layers: tuple[Layer, ...], rows: Tensor, integrated: Scope
) -> Tensor | None:
    rule = quadrature(circuit, integrated)
    if rule is None or len(rows) * len(rule[1]) > POINTS_LIMIT:
        return None
    points, weights = rule
    columns = sorted(integrated)
    everywhere = rows.repeat_interleave(len(points), dim=0)
    everywhere[:, columns] = points[:, columns].repeat(len(rows), 1)
    values = evaluate_layers(circuit, everywhere, postorder(layers, lambda item: item.inputs))
    units = torch.cat([values[item] for item in layers], dim=1).reshape(len(rows), len(points), -1)
    return torch.einsum("nmh,nmk,m->nhk", units, units.conj(), weights.to(units.dtype))
