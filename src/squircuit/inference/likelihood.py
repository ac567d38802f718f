"""log p(y) of any observed variables Y, the others marginalised, for rows that lack different variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from squircuit.errors import DataError, ParameterError
from squircuit.execution.precision import past_underflow, tf32
from squircuit.inference.evidence import Evidence, distinct_masks, nothing_observed
from squircuit.inference.leaves import Leaves
from squircuit.inference.messages import Messages, block_size
from squircuit.inference.nodes import Nodes
from squircuit.inference.schedule import Form, Forms, Schedule
from squircuit.inference.snapshot import Snapshot

STEP_COST = {"cpu": 2e6, "cuda": 1e9}  #: what starting a step costs, in multiplications


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
    total = log_totals if components else log_total
    if not len(evidence):
        return snapshot.mixture.new_zeros((0, len(snapshot.components)) if components else 0)
    log_p, references = _log_marginal(snapshot, evidence, total)
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
        return snapshot.mixture.new_zeros(0)
    exact = snapshot.doubled()
    (joint, above), (given, below) = (_log_marginal(exact, e, log_total) for e in (evidence, condition))
    require_positive(given, torch.arange(len(condition)))
    times = len(evidence) // len(condition)
    apart = (above - below.repeat(times, 1)).sum(dim=1)
    return (joint - given.repeat(times) + apart).to(snapshot.mixture.dtype)


def require_positive(log_p: Tensor, rows: Tensor) -> None:
    """Refuse to condition on what cannot happen."""
    if bool((log_p == -torch.inf).any()):
        row = int(rows[int(torch.nonzero(log_p == -torch.inf)[0])])
        raise DataError(
            f"row {row}: the evidence has probability zero, so nothing is conditional on it. Fix: check the "
            "observed values, or mark some as missing; where all are missing, the model is 0 everywhere"
        )


def _log_marginal(
    snapshot: Snapshot, evidence: Evidence, total: Callable[[Messages], Tensor]
) -> tuple[Tensor, Tensor]:
    """log p(y) without the references of the observed variables, (n,) or (n, M), and these, (n, d)."""
    parts, references, rows = zip(*_parts(snapshot, evidence, total), strict=True)
    order = torch.cat(rows).argsort()
    log_p = torch.cat(parts)[order]
    if not snapshot.is_normalised:
        log_z = _log_partition(snapshot)
        require_density(log_z)
        log_p = log_p - log_z
    if snapshot.mixture.dtype == torch.float32:
        log_p = past_underflow(
            log_p, lambda lost: _log_marginal(snapshot.doubled(), evidence.take(lost), total)[0]
        )
    return log_p, torch.cat(references)[order]


def require_density(log_z: Tensor) -> None:
    """Refuse a circuit that has no density, with log Z of one or several parts."""
    if not bool((log_z > -torch.inf).any()) or not bool((log_z < torch.inf).all()):
        raise ParameterError(
            f"log Z is {log_z.flatten()[0].item()}, so there is no density: the circuit is 0 "
            "everywhere, or weights are too large or no numbers. Fix: go back to earlier weights, or train "
            "with a smaller lr."
        )


def forms_of(snapshot: Snapshot, missing: Tensor, weighted: frozenset[int] = frozenset()) -> Forms:
    """How input layers hold their messages, for rows (n, d) that lack some variables.

    Weighted variables are matrices, or open where sums have several inputs: there the last variable that is
    missing below a sum sees their interference.
    """
    absent = Form.IDENTITY if snapshot.is_normalised else Form.MATRIX
    all_missing, some_missing = missing.all(dim=0).tolist(), missing.any(dim=0).tolist()
    weighted_form = Form.OPEN if snapshot.has_alternatives else Form.WEIGHTED
    return tuple(
        weighted_form if v in weighted else absent if all_of else Form.MATRIX if some else Form.VECTOR
        for v, (all_of, some) in enumerate(zip(all_missing, some_missing, strict=True))
    )


def batches(snapshot: Snapshot, evidence: Evidence) -> Iterator[Tensor]:
    """Rows to be computed together: those of one mask, or all where there are too many masks.

    A step for rows of different masks holds matrices where each mask alone may have vectors or identities,
    but it is one step instead of one a mask.
    """
    masks = list(distinct_masks(evidence))
    together = torch.arange(len(evidence), device=evidence.x.device)
    if len(masks) > 1 and not snapshot.has_alternatives and _is_cheaper_together(snapshot, evidence, masks):
        masks = [(evidence.missing[0], together)]
    for _, rows in masks:
        yield rows


def blocks(rows: Tensor, schedule: Schedule, entries: int = 1) -> Iterator[Tensor]:
    """Rows in blocks for which intermediate results stay bounded."""
    return iter(torch.split(rows, max(1, block_size(rows.device) // max(schedule.entries(), entries))))


def messages(snapshot: Snapshot, evidence: Evidence, nodes: Nodes | None = None) -> Messages:
    """All messages upwards for rows that lack the same variables (or, without alternatives, any)."""
    weighted = frozenset() if nodes is None else frozenset(nodes.rows)
    schedule = snapshot.schedules(forms_of(snapshot, evidence.missing, weighted))
    return Messages(Leaves(snapshot, evidence.x, evidence.missing, nodes), schedule)


def log_total(found: Messages) -> Tensor:
    """log of the total of some messages, −inf where it is zero: (B,)."""
    return _log_of(*found.total())


def log_totals(found: Messages) -> Tensor:
    """The same of each of the circuits that are mixed: (B, M)."""
    return _log_of(*found.totals())


def _log_of(total: Tensor, scale: Tensor) -> Tensor:
    positive = (total > 0) & (scale > -torch.inf)
    logarithm = torch.where(positive, total, 1.0).log() + torch.where(positive, scale, 0.0)
    return torch.where(positive, logarithm, -torch.inf)


@tf32(False)
def log_integrals(snapshot: Snapshot) -> Tensor:
    """log ∫ Σ_r π_r |c_r|² over the root units r of each of the circuits that are mixed: (M,)."""
    return log_totals(messages(snapshot, nothing_observed(snapshot.circuit, snapshot.device)))[0]


def _log_partition(snapshot: Snapshot) -> Tensor:
    """log Z: nothing is observed."""
    return log_total(messages(snapshot, nothing_observed(snapshot.circuit, snapshot.device)))


def _parts(
    snapshot: Snapshot, evidence: Evidence, total: Callable[[Messages], Tensor]
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    for batch in batches(snapshot, evidence):
        schedule = snapshot.schedules(forms_of(snapshot, evidence.missing[batch]))
        for rows in blocks(batch, schedule):
            leaves = Leaves(snapshot, evidence.x[rows], evidence.missing[rows])
            yield total(Messages(leaves, schedule)), leaves.reference_table(), rows


def _is_cheaper_together(snapshot: Snapshot, evidence: Evidence, masks: list[tuple[Tensor, Tensor]]) -> bool:
    """By the number of multiplications and of steps, taking the first mask for a typical one."""
    alone = snapshot.schedules(forms_of(snapshot, masks[0][0].unsqueeze(0)))
    joint = snapshot.schedules(forms_of(snapshot, evidence.missing))
    step = STEP_COST.get(evidence.x.device.type, STEP_COST["cuda"])
    apart = alone.operations() * len(evidence) + step * len(masks) * len(alone.steps)
    return joint.operations() * len(evidence) + step * len(joint.steps) < apart
