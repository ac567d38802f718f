"""Exact samples, given any evidence: no rejection, and no marginal for every variable."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from squircuit.errors import ParameterError, is_whole
from squircuit.execution.precision import tf32
from squircuit.execution.threads import SMALL, fitting_threads
from squircuit.families.base import largest_scale
from squircuit.families.quadrature import POINTS
from squircuit.inference.compile.compiled_circuit import Snapshot
from squircuit.inference.evidence import Evidence, distinct_masks, is_discrete, require_positive
from squircuit.inference.sampling.ancestral import Walk
from squircuit.inference.sampling.draws import InputDraws, draw_index
from squircuit.inference.sampling.square_roots import SquareRoots
from squircuit.inference.upward.batches import block_size
from squircuit.inference.upward.messages import Messages, log_total, messages
from squircuit.inference.upward.quadrature import breakpoints
from squircuit.progress import steps

MASKS = 3  #: with more masks than this, rows are walked together, all messages being matrices
MOST = 2**31  #: samples of one call


@tf32(False)
@fitting_threads(SMALL)
@torch.no_grad()
def sample(snapshot: Snapshot, evidence: Evidence, count: int, generator: torch.Generator | None) -> Tensor:
    """Samples of what each row lacks, given what it shows, by one depth-first walk.

    See :mod:`squircuit.inference.sampling.ancestral`: about as long as a likelihood of as many rows.

    Args:
        snapshot: of the model.
        evidence: m rows of positive probability.
        count: n, samples for each row.
        generator: of the uniform numbers; None is torch's own.

    Returns:
        (n, m, d): integers if all variables are discrete, else floats; observed entries as they were given.
    """
    snapshot = snapshot.detached()
    snapshot.require_single_alternatives(evidence.missing.any(dim=0))
    result = evidence.x.expand(count, -1, -1).clone().to(_dtype(snapshot, evidence))
    batches = _batches(snapshot, evidence)
    for rows in steps(batches, [len(rows) for rows in batches]):
        part = evidence.take(rows)
        found = messages(snapshot, part)
        if snapshot.real == torch.float32 and bool(found.doubtful.any()):
            found = messages(snapshot.doubled(), part)
        require_positive(log_total(found), rows)
        if bool(part.missing.any()):
            result[:, rows] = _drawn(found, part, count, generator).to(result.dtype)
    return result


def make_generator(
    seed: Any, generator: torch.Generator | None, device: torch.device
) -> torch.Generator | None:
    """The generator, or one with this seed."""
    if seed is None:
        if generator is not None and not isinstance(generator, torch.Generator):
            raise ParameterError(
                f"sample: generator must be a torch.Generator, got {generator!r}. Fix: pass one, or seed=0."
            )
        return generator
    if generator is not None:
        raise ParameterError("sample: got both seed= and generator=. Fix: pass one of them")
    if not is_whole(seed, 0, 2**63 - 1):
        raise ParameterError(
            f"sample: seed must be an integer from 0 to 2⁶³ − 1, got {seed!r}"
            ". Fix: pass such a number, or none."
        )
    return torch.Generator(device).manual_seed(int(seed))


def require_count(count: Any) -> None:
    """A number of samples: an integer ≥ 0."""
    if not is_whole(count, 0):
        raise ParameterError(
            f"sample: the number of samples must be an integer ≥ 0, got {count!r}"
            ". Fix: pass a whole number from 0."
        )
    if count > MOST:
        raise ParameterError(
            f"sample: {count} samples are more than fit. Fix: draw at most {MOST} at a time."
        )


def _batches(snapshot: Snapshot, evidence: Evidence) -> list[Tensor]:
    batches = [rows for _, rows in distinct_masks(evidence)]
    if len(batches) > MASKS and not snapshot.has_alternatives:
        return [torch.arange(len(evidence), device=evidence.x.device)]
    return batches


def _drawn(found: Messages, evidence: Evidence, count: int, generator: torch.Generator | None) -> Tensor:
    """(n, m, d) float64, in blocks of samples that keep intermediate results bounded."""
    block = max(1, block_size(evidence.x.device) // (len(evidence) * _entries(found.snapshot)))
    draws = InputDraws(found.snapshot)
    counts = [min(block, count - i) for i in range(0, count, block)]
    parts = [_block(found, draws, evidence, some, generator) for some in steps(counts, counts)]
    return torch.cat(parts) if parts else evidence.x.new_zeros(0, *evidence.x.shape)


def _entries(snapshot: Snapshot) -> int:
    """Numbers a sample in the largest intermediate result: columns of a weight, or ℓ at nodes of a variable.

    States are as many as weights have columns. Of units that are drawn alone only the panels are looked at.
    """
    widest = max((stack.shape[-1] for stack in snapshot.plan.stacks), default=1)
    for variable, domain in snapshot.circuit.domains.items():
        if not domain.is_discrete and snapshot.is_alone(variable):
            panels = 2 * len(breakpoints(snapshot, variable))
            alone = snapshot.has_units_alone(variable)
            units = max(snapshot.plan.pools)
            widest = max(widest, panels if alone else max(panels, units * max(units, POINTS)))
    return widest


def _block(
    found: Messages, draws: InputDraws, evidence: Evidence, count: int, generator: torch.Generator | None
) -> Tensor:
    rows = torch.arange(len(evidence), device=evidence.x.device).repeat(count)
    walk = Walk(SquareRoots(found, rows), draws, evidence.x.double()[rows], evidence.missing[rows], generator)
    number, unit = _root_units(found, rows, walk.uniform())
    for i, root in enumerate(found.snapshot.plan.roots):
        own = torch.nonzero(number == i).flatten()
        if len(own):
            part = walk.take(own)
            part.run(root, unit[own])
            walk.x[own] = part.x
    return walk.x.reshape(count, *evidence.x.shape)


def _root_units(found: Messages, rows: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Draw a root layer and a unit in it for each sample, by π_r R_rr: (B,) twice."""
    roots = found.root_squares()
    squares, scales = (torch.cat(parts, dim=1) for parts in zip(*roots, strict=True))
    terms = squares.clamp_min(0) * found.snapshot.root_shares
    largest = largest_scale(torch.where(terms > 0, scales, -torch.inf), dim=1).unsqueeze(1)
    masses = torch.where(terms > 0, terms * (scales - largest).exp(), 0.0)
    chosen = draw_index(masses[rows], uniform)
    ends = torch.tensor([d.shape[1] for d, _ in roots], device=chosen.device).cumsum(dim=0)
    number = torch.searchsorted(ends, chosen, right=True)
    return number, chosen - torch.where(number > 0, ends[number - 1], 0)


def _dtype(snapshot: Snapshot, evidence: Evidence) -> torch.dtype:
    """Integers if all variables are discrete; else at least the precision of model and evidence."""
    if is_discrete(snapshot.circuit):
        return torch.int64
    return torch.promote_types(snapshot.real, evidence.x.dtype)
