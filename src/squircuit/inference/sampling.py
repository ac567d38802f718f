"""Exact samples, given any evidence: no rejection, and no marginal for every variable."""

from __future__ import annotations

import torch
from torch import Tensor

from squircuit.errors import ParameterError
from squircuit.inference.evidence import Evidence, is_discrete
from squircuit.inference.leaf_draws import Points
from squircuit.inference.likelihood import log_total, messages
from squircuit.inference.marginals import node_densities, require_positive
from squircuit.inference.messages import block_size
from squircuit.inference.snapshot import Snapshot
from squircuit.inference.walk import Walk

MASKS = 3  #: with more masks than this, rows are walked together, all messages being matrices


@torch.no_grad()
def sample(snapshot: Snapshot, evidence: Evidence, count: int, generator: torch.Generator | None) -> Tensor:
    """Samples of what each row lacks, given what it shows.

    Trees are walked once, depth first (:mod:`squircuit.inference.walk`): about as long as a likelihood of as
    many rows. Where sums have several inputs, the last missing variable below each of them sees their
    interference; there variables are drawn one after the other, each from its marginal.

    Args:
        snapshot: of the model.
        evidence: m rows of positive probability.
        count: n, samples for each row.
        generator: of the uniform numbers; None is torch's own.

    Returns:
        (n, m, d): integers if all variables are discrete, else floats; observed entries as they were given.
    """
    snapshot = snapshot.detached()
    result = evidence.x.expand(count, -1, -1).clone().to(_dtype(snapshot, evidence))
    for rows in _batches(snapshot, evidence):
        part = evidence.take(rows)
        if bool(part.missing.any()):
            draw = _one_by_one if snapshot.has_alternatives else _walked
            result[:, rows] = draw(snapshot, part, count, generator, rows).to(result.dtype)
        else:
            require_positive(log_total(messages(snapshot, part)), rows)
    return result


def make_generator(
    seed: int | None, generator: torch.Generator | None, device: torch.device
) -> torch.Generator | None:
    """The generator, or one with this seed."""
    if seed is None:
        return generator
    if generator is not None:
        raise ParameterError("sample: got both seed= and generator=. Fix: pass one of them")
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise ParameterError(f"sample: seed must be an integer, got {seed!r}")
    return torch.Generator(device).manual_seed(seed)


def require_count(count: int) -> None:
    """A number of samples: an integer ≥ 0."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise ParameterError(f"sample: the number of samples must be an integer ≥ 0, got {count!r}")


def draw_sequentially(
    snapshot: Snapshot, evidence: Evidence, generator: torch.Generator | None, first_row: Tensor
) -> Tensor:
    """One sample a row, variable by variable: x_v from p(x_v | observed and drawn so far). (B, d) float64.

    A marginal for every variable, so d times the work of a walk; but right for every circuit.
    """
    x, missing = evidence.x.double(), evidence.missing.clone()
    for v in [v for v in sorted(snapshot.circuit.scope) if bool(missing[:, v].any())]:
        points = Points.of(snapshot, v)
        for mask, rows in Evidence(x, missing).masks():
            if bool(mask[v]):
                part = Evidence(x[rows], missing[rows])
                density = node_densities(snapshot, part, points.nodes(v), first_row[rows])[0]
                x[rows, v] = points.draw(density, uniform(len(rows), generator, x.device))
                missing[rows, v] = False
    return x


def uniform(count: int, generator: torch.Generator | None, device: torch.device) -> Tensor:
    """Numbers in [0, 1): (count,) float64."""
    source = device if generator is None else generator.device
    return torch.rand(count, generator=generator, dtype=torch.float64, device=source).to(device)


def _batches(snapshot: Snapshot, evidence: Evidence) -> list[Tensor]:
    batches = [rows for _, rows in evidence.masks()]
    if len(batches) > MASKS and not snapshot.has_alternatives:
        return [torch.arange(len(evidence), device=evidence.x.device)]
    return batches


def _walked(
    snapshot: Snapshot, evidence: Evidence, count: int, generator: torch.Generator | None, rows: Tensor
) -> Tensor:
    """(n, m, d), in blocks of samples that keep intermediate results bounded."""
    found = messages(snapshot, evidence)
    require_positive(log_total(found), rows)
    block = max(1, block_size(rows.device) // (len(evidence) * _widest(snapshot)))
    parts = [
        Walk(snapshot, found, evidence, min(block, count - start), generator).samples()
        for start in range(0, count, block)
    ]
    return torch.cat(parts) if parts else evidence.x.new_zeros(0, *evidence.x.shape).double()


def _one_by_one(
    snapshot: Snapshot, evidence: Evidence, count: int, generator: torch.Generator | None, rows: Tensor
) -> Tensor:
    repeated = Evidence(evidence.x.repeat(count, 1), evidence.missing.repeat(count, 1))
    drawn = draw_sequentially(snapshot, repeated, generator, rows.repeat(count))
    return drawn.reshape(count, *evidence.x.shape)


def _dtype(snapshot: Snapshot, evidence: Evidence) -> torch.dtype:
    """Integers if all variables are discrete; else at least the precision of model and evidence."""
    if is_discrete(snapshot.circuit):
        return torch.int64
    return torch.promote_types(snapshot.mixture.dtype, evidence.x.dtype)


def _widest(snapshot: Snapshot) -> int:
    """The columns of the widest weight."""
    return max((stack.shape[-1] for stack in snapshot.plan.stacks), default=1)
