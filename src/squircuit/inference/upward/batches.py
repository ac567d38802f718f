"""Which rows are computed together, and how many at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from squircuit.inference.compile.compiled_circuit import Snapshot
from squircuit.inference.compile.schedule import Schedule
from squircuit.inference.evidence import Evidence, distinct_masks
from squircuit.progress import steps

BLOCK = {"cpu": 2**21, "cuda": 2**26}  #: numbers in one intermediate result; larger ones are cut
STEP_COST = {"cpu": 2e6, "cuda": 1e9}  #: what starting a step costs, in multiplications


def batches(snapshot: Snapshot, evidence: Evidence, together: bool = True) -> Iterator[Tensor]:
    """Rows to be computed together: those of one mask, or all where there are too many masks.

    A step for rows of different masks holds matrices where each mask alone may have vectors or identities,
    but it is one step instead of one a mask.
    """
    masks = list(distinct_masks(evidence))
    joins = together and len(masks) > 1 and not snapshot.has_alternatives
    if joins and _is_cheaper_together(snapshot, evidence, masks):
        masks = [(evidence.missing[0], torch.arange(len(evidence), device=evidence.x.device))]
    for _, rows in masks:
        yield rows


def is_mixed(snapshot: Snapshot, evidence: Evidence) -> bool:
    """There are so many masks that rows are best computed by :mod:`squircuit.inference.upward.mixed`.

    That has three steps a layer whatever the masks, and vectors of rows that need none. Where gradients are
    wanted it serves always: ways differ in gradients away from the manifold, and the gradient of a row must
    not depend on the masks of the rows beside it, of which several processes have a part each.
    """
    if not snapshot.is_tree_of_sums or evidence.missing.stride(0) == 0:
        return False
    if torch.is_grad_enabled() and any(stack.requires_grad for stack in snapshot.stacks):
        return True
    packed = np.ascontiguousarray(np.packbits(evidence.missing.cpu().numpy(), axis=1))
    masks = len(np.unique(packed.view(np.dtype((np.void, packed.shape[1])))))
    shown = snapshot.schedule(torch.zeros_like(evidence.missing[:1]))
    step = STEP_COST.get(evidence.x.device.type, STEP_COST["cuda"])
    apart = step * (masks - 1) * len(shown.steps)
    return apart > shown.operations() * len(evidence) + 3 * step * len(snapshot.schedules.layers)


def mixed_blocks(snapshot: Snapshot, evidence: Evidence) -> Iterator[Tensor]:
    """Rows in blocks for which intermediate results of mixed messages stay bounded."""
    rows = torch.arange(len(evidence), device=evidence.x.device)
    widest = max((stack.shape[0] * stack.shape[1] for stack in snapshot.plan.stacks), default=1)
    size = max(1, block_size(rows.device) // max(widest, 1))
    sizes = [min(size, len(rows) - start) for start in range(0, len(rows), size)]
    return steps(torch.split(rows, size), sizes)


def blocks(rows: Tensor, schedule: Schedule, entries: int = 1) -> Iterator[Tensor]:
    """Rows in blocks for which intermediate results stay bounded."""
    return iter(torch.split(rows, max(1, block_size(rows.device) // max(schedule.entries(), entries))))


def block_size(device: torch.device) -> int:
    """How many numbers an intermediate result may have: what suits caches, or keeps a GPU busy."""
    return BLOCK.get(device.type, BLOCK["cuda"])


def _is_cheaper_together(snapshot: Snapshot, evidence: Evidence, masks: list[tuple[Tensor, Tensor]]) -> bool:
    """Whether joint steps cost less, the first mask being taken for a typical one."""
    alone = snapshot.schedule(masks[0][0].unsqueeze(0))
    joint = snapshot.schedule(evidence.missing)
    step = STEP_COST.get(evidence.x.device.type, STEP_COST["cuda"])
    apart = alone.operations() * len(evidence) + step * len(masks) * len(alone.steps)
    return joint.operations() * len(evidence) + step * len(joint.steps) < apart
