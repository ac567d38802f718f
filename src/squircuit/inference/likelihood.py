"""log p(y) of any observed variables Y, the others marginalised, for rows that lack different variables."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from squircuit.execution.log_scales import log_sum
from squircuit.execution.precision import recomputed, tf32
from squircuit.inference.compile.compiled_circuit import Snapshot
from squircuit.inference.evidence import (
    Evidence,
    distinct_masks,
    is_discrete,
    nothing_observed,
    require_positive,
)
from squircuit.inference.normalisation import require_density
from squircuit.inference.upward.batches import batches, blocks, is_mixed, mixed_blocks
from squircuit.inference.upward.inputs import InputMessages
from squircuit.inference.upward.messages import Messages, log_total, log_totals, messages
from squircuit.inference.upward.mixed import MixedMessages
from squircuit.inference.upward.unit_scales import log_totals_by_unit, needs_unit_scales, without_unit_scales


@tf32(False)
def log_marginal(snapshot: Snapshot, evidence: Evidence, components: bool = False) -> Tensor:
    """log p(y) = log ∫ Σ_r π_r |c_r(y, z)|² dz − log Z of every row, Z being what that row lacks.

    Alg. Mar-Squared-Unitary (Thm. 3) on the folded plan; circuits whose weights are not normalised send
    Gram matrices where unitary ones send identities. Differentiable in the weights.

    Args:
        snapshot: of the model.
        evidence: n rows.
        components: log p(m, y) of each of the M circuits that are mixed.

    Returns:
        (n,), or (n, M); −inf where p(y) is zero.
    """
    if not len(evidence):
        return snapshot.root_shares.new_zeros((0, len(snapshot.components)) if components else 0)
    log_p, references = _log_marginal(snapshot, evidence, components)
    whole = references.sum(dim=1)
    return (log_p.double() + (whole.unsqueeze(1) if components else whole)).to(log_p.dtype)


@tf32(False)
def log_ratio(snapshot: Snapshot, evidence: Evidence, condition: Evidence) -> Tensor:
    """log p(y, z) − log p(z) of every row, exact also where both are of the size of −10¹²: (n,).

    Args:
        snapshot: of the model.
        evidence: n rows that show y and z.
        condition: the same rows, that show z; or m of which n is a multiple, and which repeat.
    """
    if not len(evidence):
        return snapshot.root_shares.new_zeros(0)
    exact = snapshot.doubled()
    (joint, above), (given, below) = (_log_marginal(exact, e, False) for e in (evidence, condition))
    require_positive(given, torch.arange(len(condition)))
    times = len(evidence) // len(condition)
    apart = (above - below.repeat(times, 1)).sum(dim=1)
    return (joint - given.repeat(times) + apart).to(snapshot.real)


def log_conditional(snapshot: Snapshot, evidence: Evidence, of: Tensor, given: Tensor) -> Tensor:
    """log p(x_of | x_given) = log p(x_of, x_given) − log p(x_given), all other variables marginalised.

    Args:
        snapshot: of the model.
        evidence: n rows; what they lack is neither in ``of`` nor in ``given``.
        of, given: booleans (n, d), disjoint.

    Returns:
        (n,).
    """
    shown, known = (Evidence(evidence.x, evidence.missing | ~which) for which in (of | given, given))
    return log_ratio(snapshot, shown, known)


def log_terms(snapshot: Snapshot, evidence: Evidence) -> Tensor:
    """log ∫ Σ_r π_r |c_r|² dz over the root units of each circuit that is mixed, not divided by Z: (n, M)."""
    terms, references = _log_totals(snapshot, evidence)
    return terms + references.sum(dim=1, keepdim=True)


def _log_marginal(snapshot: Snapshot, evidence: Evidence, components: bool) -> tuple[Tensor, Tensor]:
    """log p(y) without the references of the observed variables, (n,) or (n, M), and these, (n, d)."""
    log_p, references = _log_totals(snapshot, evidence)
    log_p = log_p if components else log_sum(log_p, dim=1)
    if not snapshot.is_normalised:
        log_z = _log_partition(snapshot)
        require_density(log_z)
        log_p = log_p - log_z
    return log_p, references


def _log_totals(snapshot: Snapshot, evidence: Evidence, together: bool = True) -> tuple[Tensor, Tensor]:
    """log p(m, y) of the circuits that are mixed, (n, M), not divided by Z, and the references, (n, d).

    Rows of which single precision, one scale a layer or a matrix in place of a vector may not hold the digits
    are computed once more, with more care.

    Args:
        together: rows of different masks may be computed together.
    """
    parts, references, doubtful, rows = zip(*_parts(snapshot, evidence, together), strict=True)
    order = torch.cat(rows).argsort()
    log_p, taken, doubts = (torch.cat(each)[order] for each in (parts, references, doubtful))
    shared = without_unit_scales(snapshot)
    far = needs_unit_scales(snapshot, evidence.x, evidence.missing, log_p.dtype, shared)
    zero = (log_p == -torch.inf).any(dim=1)
    if log_p.dtype == torch.float32:
        exact = snapshot.doubled()
        return recomputed(
            log_p, far | zero | doubts, lambda lost: _log_totals(exact, evidence.take(lost), together)[0]
        ), taken
    if together:
        log_p = recomputed(log_p, doubts, lambda lost: _log_totals(snapshot, evidence.take(lost), False)[0])
    if shared and not is_discrete(snapshot.circuit):  # nothing else is too small for a scale of its layer
        far |= zero
    return recomputed(log_p, far, lambda lost: _far(snapshot, evidence.take(lost), taken[lost])), taken


def _far(snapshot: Snapshot, evidence: Evidence, references: Tensor) -> Tensor:
    """log p(y) of rows whose units need a scale of their own, for each circuit that is mixed: (n, M)."""
    masks = list(distinct_masks(evidence))
    parts = [log_totals_by_unit(snapshot, evidence.x[rows], mask, references[rows]) for mask, rows in masks]
    return torch.cat(parts)[torch.cat([rows for _, rows in masks]).argsort()]


@tf32(False)
def log_integrals(snapshot: Snapshot) -> Tensor:
    """log ∫ Σ_r π_r |c_r|² over the root units r of each of the circuits that are mixed: (M,)."""
    return log_totals(messages(snapshot, nothing_observed(snapshot.circuit, snapshot.device)))[0]


def _log_partition(snapshot: Snapshot) -> Tensor:
    """log Z: nothing is observed."""
    return log_total(messages(snapshot, nothing_observed(snapshot.circuit, snapshot.device)))


def _parts(
    snapshot: Snapshot, evidence: Evidence, together: bool
) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """log p(m, y), references, whether digits are in doubt, and the rows, batch by batch."""
    if together and is_mixed(snapshot, evidence):
        for rows in mixed_blocks(snapshot, evidence):
            inputs = InputMessages(snapshot, evidence.x[rows], evidence.missing[rows])
            mixed = MixedMessages(inputs)
            yield log_totals(mixed), inputs.reference_table(), mixed.doubtful, rows
        return
    for batch in batches(snapshot, evidence, together):
        schedule = snapshot.schedule(evidence.missing[batch])
        for rows in blocks(batch, schedule):
            inputs = InputMessages(snapshot, evidence.x[rows], evidence.missing[rows])
            found = Messages(inputs, schedule)
            yield log_totals(found), inputs.reference_table(), found.doubtful, rows
