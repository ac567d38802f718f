"""Orthogonality: the inputs of a sum are orthogonal functions, over all variables or over some."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from squircuit.circuits import Circuit, Sum
from squircuit.circuits.order import postorder
from squircuit.errors import StructureError
from squircuit.properties.basis import is_regular_orthogonal, sum_edges
from squircuit.properties.points import POINTS_LIMIT, grid, quadrature
from squircuit.properties.structure import is_decomposable, is_smooth
from squircuit.properties.tolerance import tolerance_for
from squircuit.properties.unitary import is_unitary
from squircuit.properties.verdict import Verdict
from squircuit.reference.data import as_variables
from squircuit.reference.evaluate import evaluate_layers
from squircuit.reference.inner_product import PairGrams
from squircuit.regions.scope import Scope, describe

VANISHING = 1e-12  # a function this small next to the largest is zero at this value of the others

ENTRIES_LIMIT = 1 << 24  #: Gram matrices with more entries than this are not formed


def is_orthogonal(
    circuit: Circuit, over: Iterable[int] | None = None, tolerance: float | None = None
) -> Verdict:
    """The inputs of every sum unit are pairwise orthogonal functions (Def. "Orthogonality").

    With ``over`` = Z: orthogonal as functions of the variables in Z for *every* value of the others,
    at the sums whose scope meets Z (Def. "Z-orthogonality"). By inner products in closed form or
    quadrature, normalised by the functions' norms; the values of the others are enumerated, one random
    point standing for each piece of a continuous variable.

    "Not decided" where the inputs of a sum are not compatible, nothing makes their inner product vanish
    (computing it is #P-hard) and their states are too many to enumerate; or where there are too many
    values of the others, or units, to go through.
    """
    chosen = as_variables(circuit, over)
    name = "orthogonal" if over is None else f"{describe(chosen)}-orthogonal"
    for verdict in (is_smooth(circuit), is_decomposable(circuit)):
        if not verdict:
            return Verdict(name, False, f"not {verdict.name}: {verdict.reason}", verdict.where)
    verdict = (
        _by_inner_products(circuit, chosen, name, tolerance) if circuit.has_weights else _no_weights(name)
    )
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
    doubts = []
    for layer in sums:
        verdict = _check_sum(circuit, layer, chosen, name, limit)
        if verdict.holds is False:
            return verdict
        if verdict.holds is None:
            doubts.append(verdict)
    return (
        doubts[0]
        if doubts
        else Verdict(name, True, f"inputs of every sum are orthogonal (tolerance {limit:.2g})")
    )


def _check_sum(circuit: Circuit, layer: Sum, chosen: Scope, name: str, limit: float) -> Verdict:
    where = circuit.where(layer)
    rows, complete = grid(circuit, layer.scope - chosen)
    if len(rows) * layer.input_units**2 > ENTRIES_LIMIT:
        return Verdict(name, None, f"{layer.input_units} inputs are too many to compare", where)
    gram = _gram(circuit, layer, rows, chosen)
    if gram is None:
        reason = (
            "its inputs are not compatible, so their inner products are #P-hard, and too many to enumerate"
        )
        return Verdict(name, None, reason, where)
    edges = sum_edges(circuit, layer).double()
    cosines = _cosines(gram).amax(dim=0) * (edges.T @ edges > 0).fill_diagonal_(
        False
    )  # pairs that meet in a unit
    if cosines.max() > limit:
        i, j = divmod(int(cosines.argmax()), layer.input_units)
        return Verdict(
            name, False, f"inputs {i} and {j} have normalised inner product {cosines.max():.3g}", where
        )
    if not complete:
        reason = f"{len(layer.scope - chosen)} other variables have too many values to go through"
        return Verdict(name, None, reason, where)
    return Verdict(name, True)


def _gram(circuit: Circuit, layer: Sum, rows: Tensor, chosen: Scope) -> Tensor | None:
    """Inner products over ``chosen`` of all units of a sum's inputs, at every row: (n, H, H).

    By recursion where the inputs are compatible, by enumeration where they are not and that is feasible.
    """
    try:
        grams = PairGrams(circuit, circuit, rows, chosen)
        blocks = [torch.cat([grams(a, b) for b in layer.inputs], dim=2) for a in layer.inputs]
        return torch.cat(blocks, dim=1)
    except StructureError:
        return _enumerated_gram(circuit, layer, rows, chosen & layer.scope)


def _enumerated_gram(circuit: Circuit, layer: Sum, rows: Tensor, integrated: Scope) -> Tensor | None:
    rule = quadrature(circuit, integrated)
    if rule is None or len(rows) * len(rule[1]) > POINTS_LIMIT:
        return None
    points, weights = rule
    columns = sorted(integrated)
    everywhere = rows.repeat_interleave(len(points), dim=0)
    everywhere[:, columns] = points[:, columns].repeat(len(rows), 1)
    values = evaluate_layers(circuit, everywhere, postorder(layer.inputs, lambda item: item.inputs))
    units = torch.cat([values[item] for item in layer.inputs], dim=1).reshape(len(rows), len(points), -1)
    return torch.einsum("nmh,nmk,m->nhk", units, units.conj(), weights.to(units.dtype))


def _cosines(gram: Tensor) -> Tensor:
    """|⟨i, j⟩| / (‖i‖ ‖j‖) for all units i, j: (n, H, H)."""
    gram = gram.abs()
    norms = gram.diagonal(dim1=1, dim2=2).sqrt()  # (n, H)
    norms = norms * (norms > VANISHING * norms.max())
    scale = norms.unsqueeze(1) * norms.unsqueeze(2)
    return torch.where(scale > 0, gram / scale, 0.0)
