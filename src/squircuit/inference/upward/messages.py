"""Messages upwards: R = ∫ ℓ ℓᴴ of every layer that a query needs, all layers of a step together.

Vectors where all is observed, matrices where some of it is; see :mod:`squircuit.inference.compile.schedule`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, partial
from typing import final

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from squircuit.execution.plan import Branch, InputGroup, SumGroup
from squircuit.inference.compile.compiled_circuit import Snapshot
from squircuit.inference.compile.schedule import Form, Schedule, Source, Step
from squircuit.inference.evidence import Evidence
from squircuit.inference.upward import contraction
from squircuit.inference.upward.batches import block_size
from squircuit.inference.upward.inputs import InputMessages
from squircuit.inference.upward.quadrature import Nodes
from squircuit.inference.upward.scaled_message import Message, added, joined, largest_scale, ratio, rescaled

CANCELLED = {torch.float32: 1e-5, torch.float64: 1e-11}
"""A share of the terms of a matrix below which too few of its digits are left."""


@final
class Messages:
    """The messages of one schedule for one batch of rows.

    Args:
        leaves: the input layers for these rows.
        schedule: made for the variables that these rows lack.
    """

    def __init__(self, leaves: InputMessages, schedule: Schedule) -> None:
        self.leaves, self.schedule = leaves, schedule
        self.snapshot = leaves.snapshot
        self.found: list[Message] = []
        self.doubtful = torch.zeros(len(leaves.x), dtype=torch.bool, device=leaves.x.device)
        """Rows in which terms of a matrix have cancelled so far that few digits are left."""
        for step in schedule.steps:
            self.found.append(self._inputs(step) if isinstance(step.group, InputGroup) else self._inner(step))

    def total(self) -> tuple[Tensor, Tensor]:
        """Σ_r π_r R_rr over the root units as t and s with t·e^s: (B,) each."""
        totals, scales = self.totals()
        largest = largest_scale(torch.where(totals == 0, -torch.inf, scales), dim=1)
        return (totals * ratio(scales, largest.unsqueeze(1))).sum(dim=1), largest

    def totals(self) -> tuple[Tensor, Tensor]:
        """The same of each of the M circuits that are mixed: (B, M) each."""
        diagonals, scales = self.diagonals()
        units = list(self.snapshot.components)
        mixture = torch.split(self.snapshot.mixture, units)
        parts = [diagonal @ pi for diagonal, pi in zip(diagonals, mixture, strict=True)]
        return torch.stack(parts, dim=1), torch.stack(scales, dim=1)

    def diagonals(self) -> tuple[list[Tensor], list[Tensor]]:
        """R_rr of every root layer, (B, R) each, and their log-scales, (B,) each."""
        found = [self._diagonal(width, source) for width, source in self._roots()]
        lacking = self.snapshot.log_scales or (0.0,) * len(found)
        scales = [scale + 2 * more for (_, scale), more in zip(found, lacking, strict=True)]
        return [diagonal for diagonal, _ in found], scales

    def matrix(self, source: Source) -> Message:
        """A factor's message as a matrix (not for identities)."""
        message = self.read(source)
        if source.form is Form.VECTOR:
            return Message(contraction.outer(message.value), 2 * message.scale)
        return self._closed(source, message) if source.form is Form.OPEN else message

    def read(self, source: Source) -> Message:
        """A factor's message as it is held."""
        parts = [self._part(step, rows) for step, rows in source.parts]
        value, scale = parts[0] if len(parts) == 1 else joined(parts)
        if source.order is None:
            return Message(value, scale)
        order = self.schedule.index(source.order, value.device)
        return Message(value.index_select(0, order), scale.index_select(0, order))

    def _part(self, step: int, rows: range | tuple[int, ...]) -> Message:
        value, scale = self.found[step]
        if isinstance(rows, range):
            return Message(value[rows.start : rows.stop], scale[rows.start : rows.stop])
        index = self.schedule.index(rows, value.device)
        return Message(value.index_select(0, index), scale.index_select(0, index))

    def _roots(self) -> list[tuple[int, Source]]:
        widths = [width for width, _ in self.snapshot.plan.roots]
        return list(zip(widths, self.schedule.roots, strict=True))

    def _diagonal(self, width: int, source: Source) -> tuple[Tensor, Tensor]:
        """R_rr of a root layer: (B, R), and its scale, (B,)."""
        rows = len(self.leaves.x)
        if source.form is Form.IDENTITY:
            like = self.snapshot.mixture
            return like.new_ones(rows, width), like.new_zeros(rows)
        if source.form is Form.VECTOR:
            value, scale = self.read(source)
            return (value[0] * value[0].conj()).real.T, 2 * scale[0]
        value, scale = self.matrix(source)
        return value[0].diagonal(dim1=1, dim2=2).real.expand(rows, -1), scale[0].expand(rows)

    # ------------------------------------------------------------------ one step

    def _inputs(self, step: Step) -> Message:
        group = step.group
        assert isinstance(group, InputGroup)
        if step.form in (Form.MATRIX, Form.WEIGHTED):
            return self.leaves.matrices(group, step.folds, step.form is Form.WEIGHTED)
        make = self.leaves.open if step.form is Form.OPEN else self.leaves.vectors
        return make(group, step.folds)

    def _inner(self, step: Step) -> Message:
        compute = self._matrix if step.form is Form.MATRIX else self._vector
        parts = [
            compute(step, branch, sources)
            for branch, sources in zip(step.branches, step.sources, strict=True)
        ]
        is_matrix = step.form is Form.MATRIX
        if len(parts) > 1:
            parts = [added(parts, matrix=is_matrix, through_zeros=self._learns)]
        value, scale = parts[0]
        message = rescaled(value, matrix=is_matrix, scale=scale)
        if is_matrix and isinstance(step.group, SumGroup):
            self._doubt(step, message.scale - scale)
        return message

    @torch.no_grad()
    def _doubt(self, step: Step, shrunk: Tensor) -> None:
        """Where W R Wᴴ is much smaller than W and R are.

        R is a square, so rounding takes twice as many of its digits as of a vector's.

        Args:
            shrunk: log of the largest entry of W R Wᴴ, R having one of 1: (F, B or 1).
        """
        size = torch.cat([self._weight(step, branch) for branch in step.branches], dim=2)
        largest = torch.linalg.vector_norm(size, dim=2).amax(dim=1, keepdim=True).log()  # (F or 1, 1)
        limit = math.log(CANCELLED[self.snapshot.mixture.dtype])
        self.doubtful |= (shrunk - 2 * largest < limit).any(dim=0)

    def _vector(self, step: Step, branch: Branch, sources: tuple[Source, ...]) -> Message:
        """W (r₁ ⊗ … ⊗ r_N), with every vector repeated for the nodes where the step is open."""
        parts = [self._repeated(step, source) for source in sources]
        factors = [part.value for part in parts]
        scale = torch.stack([part.scale for part in parts]).sum(dim=0)
        if not isinstance(step.group, SumGroup):
            is_hadamard = branch.kind == "hadamard"
            combine = contraction.entrywise if is_hadamard else contraction.kronecker
            return Message(combine(factors), scale)
        weight = self._weight(step, branch)
        return Message(contraction.weigh_vector(branch.kind, weight, factors), scale)

    def _repeated(self, step: Step, source: Source) -> Message:
        value, scale = self.read(source)
        if step.form is Form.OPEN and source.form is Form.VECTOR:
            assert self.leaves.nodes is not None
            count = self.leaves.nodes.points.shape[1]
            return Message(value.repeat_interleave(count, dim=2), scale.repeat_interleave(count, dim=1))
        return Message(value, scale)

    def _matrix(self, step: Step, branch: Branch, sources: tuple[Source, ...]) -> Message:
        """W (R₁ ⊗ … ⊗ R_N) Wᴴ, or with ⊙."""
        vectors: dict[int, Tensor] = {}
        matrices: dict[int, Tensor] = {}
        scales = [self.snapshot.mixture.new_zeros(len(step.folds), 1)]
        for i, source in enumerate(sources):
            if source.form is Form.VECTOR:
                vectors[i], scale = self.read(source)
                scales.append(2 * scale)
            elif source.form is not Form.IDENTITY:
                matrices[i], scale = self.matrix(source)
                scales.append(scale)
        total = scales[0]
        for scale in scales[1:]:
            total = total + scale
        return Message(self._weighed(step, branch, vectors, matrices), total)

    def _weighed(
        self, step: Step, branch: Branch, vectors: dict[int, Tensor], matrices: dict[int, Tensor]
    ) -> Tensor:
        if not isinstance(step.group, SumGroup):
            return self._product(step, branch, vectors, matrices)
        weight = self._weight(step, branch)
        if branch.kind != "kronecker":
            has_identity = len(vectors) + len(matrices) < len(branch.widths)
            return contraction.weigh_entrywise(
                weight, list(vectors.values()), list(matrices.values()), has_identity
            )

        def block(part: slice) -> Tensor:
            return contraction.weigh_matrices(
                weight if len(weight) == 1 else weight[part],
                branch.widths,
                {i: v[part] for i, v in vectors.items()},
                {i: m[part] for i, m in matrices.items()},
            )

        compute = partial(checkpoint, block, use_reentrant=False) if self._recomputes else block
        most = block_size(weight.device) // (step.entries() * len(self.leaves.x))
        return _in_blocks(compute, len(step.folds), max(1, most))

    @property
    def _recomputes(self) -> bool:
        """Intermediate results are computed again on the way down: kept, they would fill the memory."""
        return self.leaves.nodes is not None and torch.is_grad_enabled()

    def _product(
        self, step: Step, branch: Branch, vectors: dict[int, Tensor], matrices: dict[int, Tensor]
    ) -> Tensor:
        """R of a product that no sum follows: R₁ ⊗ … ⊗ R_N or R₁ ⊙ … ⊙ R_N."""
        folds, snapshot = len(step.folds), self.snapshot
        whole = dict(matrices) | {i: contraction.outer(v) for i, v in vectors.items()}
        for i, width in enumerate(branch.widths):
            if i not in whole:
                identity = torch.eye(width, dtype=snapshot.dtype, device=snapshot.device)
                whole[i] = identity.expand(folds, 1, -1, -1)
        ordered = [whole[i] for i in range(len(branch.widths))]
        is_kronecker = branch.kind == "kronecker"
        return (contraction.kronecker_matrices if is_kronecker else contraction.entrywise)(ordered)

    def _weight(self, step: Step, branch: Branch) -> Tensor:
        """The columns of a branch, of the folds of a step: (F or 1, K, K2)."""
        assert isinstance(step.group, SumGroup)
        use = step.group.weight
        weight = self.snapshot.network.weight(self.snapshot.stacks, use)
        if len(step.folds) < step.group.folds and not use.is_tied:
            folds = step.folds
            if isinstance(folds, range):
                weight = weight[folds.start : folds.stop]
            else:
                weight = weight.index_select(0, self.schedule.index(folds, weight.device))
        start, stop = branch.columns
        return weight if (start, stop) == (0, weight.shape[2]) else weight[:, :, start:stop]

    @cached_property
    def _learns(self) -> bool:
        """Gradients of the weights are wanted, and not only those of the weights of nodes."""
        return torch.is_grad_enabled() and any(stack.requires_grad for stack in self.snapshot.stacks)

    def _closed(self, source: Source, message: Message) -> Message:
        """Σ_q ω_q r_q r_qᴴ of an open vector: (F, K, B·Q) → (F, B, K, K)."""
        weights = self.leaves.node_weights(source.variables)  # (F, B or 1, Q)
        folds, units, _ = message.value.shape
        count = weights.shape[2]
        value = message.value.reshape(folds, units, -1, count).transpose(1, 2)  # (F, B, K, Q)
        counted = message.counted().reshape(folds, -1, count)
        largest = largest_scale(counted, dim=2)
        scale = message.scale.reshape(counted.shape) if self._learns else counted
        factor = (weights * ratio(2 * scale, 2 * largest.unsqueeze(2))).to(value.real.dtype)
        return Message((value * factor.unsqueeze(2)) @ value.mH, 2 * largest)


def messages(snapshot: Snapshot, evidence: Evidence, nodes: Nodes | None = None) -> Messages:
    """All messages upwards for rows that lack the same variables (or, without alternatives, any)."""
    weighted = frozenset() if nodes is None else frozenset(nodes.rows)
    schedule = snapshot.schedule(evidence.missing, weighted)
    return Messages(InputMessages(snapshot, evidence.x, evidence.missing, nodes), schedule)


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


def _in_blocks(compute: Callable[[slice], Tensor], folds: int, block: int) -> Tensor:
    """A computation over all folds, so many at a time."""
    if block >= folds:
        return compute(slice(0, folds))
    return torch.cat([compute(slice(i, min(i + block, folds))) for i in range(0, folds, block)])
