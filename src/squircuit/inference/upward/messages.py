"""Messages upwards: R = ∫ ℓ ℓᴴ of every layer that a query needs, all layers of a step together.

Vectors where all is observed, matrices where some of it is, and only their diagonals where those are enough;
see :mod:`squircuit.inference.compile.schedule`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property, partial, reduce
from typing import Protocol, final

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from squircuit.execution.log_scales import log_or_nothing
from squircuit.execution.plan import Branch, InputGroup, SumGroup
from squircuit.families.base import largest_scale
from squircuit.inference.compile.compiled_circuit import Snapshot
from squircuit.inference.compile.schedule import Form, Schedule, Source, Step
from squircuit.inference.evidence import Evidence
from squircuit.inference.upward import contraction
from squircuit.inference.upward.batches import block_size
from squircuit.inference.upward.gaussian_terms import Function
from squircuit.inference.upward.inputs import CANCELLED, InputMessages
from squircuit.inference.upward.quadrature import Nodes
from squircuit.inference.upward.scaled_message import (
    Message,
    added,
    joined,
    ratio,
    rescaled,
    rescaled_units,
    squared,
)

KEPT = 2**24
"""Numbers in intermediate results that are kept for the way down; more are computed again."""


@final
class Messages:
    """The messages of one schedule for one batch of rows.

    Args:
        inputs: what the input layers send for these rows.
        schedule: made for the variables that these rows lack.
    """

    def __init__(self, inputs: InputMessages, schedule: Schedule) -> None:
        self.inputs, self.schedule = inputs, schedule
        self.snapshot = inputs.snapshot
        self.found: list[Message] = []
        self.doubtful = torch.zeros(len(inputs.x), dtype=torch.bool, device=inputs.x.device)
        """Rows in which terms of a matrix have cancelled so far that few digits are left."""
        for step in schedule.steps:
            self.found.append(self._inputs(step) if isinstance(step.group, InputGroup) else self._inner(step))
        for doubts in inputs.doubts:
            self.doubtful |= doubts

    def root_squares(self) -> list[tuple[Tensor, Tensor]]:
        """∫ |c_r|² of the units of every root layer, (B, R), and their log-scales, (B, R)."""
        widths = [width for width, _ in self.snapshot.plan.roots]
        lacking = self.snapshot.log_scales or (0.0,) * len(widths)
        found = [self._root(width, s) for width, s in zip(widths, self.schedule.roots, strict=True)]
        return [(value, scale + 2 * more) for (value, scale), more in zip(found, lacking, strict=True)]

    def squares(self, source: Source) -> Message:
        """∫ |ℓ_k|² of a factor (not for identities)."""
        message = self.read(source)
        if source.form is Form.VECTOR:
            return squared(message)
        if source.form is Form.OPEN:
            return self._closed_squares(source, message)
        if source.form is Form.SQUARES:
            return message
        diagonals = message.value.diagonal(dim1=2, dim2=3).real.mT
        return rescaled_units(diagonals, message.scale.unsqueeze(1))

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

    def _root(self, width: int, source: Source) -> tuple[Tensor, Tensor]:
        rows, like = len(self.inputs.x), self.snapshot.root_shares
        if source.form is Form.IDENTITY:
            return like.new_ones(rows, width), like.new_zeros(rows, width, dtype=torch.float64)
        value, scale = self.squares(source)
        return value[0].T.expand(rows, -1), scale[0].T.expand(rows, -1)

    # ------------------------------------------------------------------ one step

    def _inputs(self, step: Step) -> Message:
        group = step.group
        assert isinstance(group, InputGroup)
        if step.form in (Form.MATRIX, Form.SQUARES):
            integrate = self.inputs.matrices if step.form is Form.MATRIX else self.inputs.squares
            return integrate(group, step.folds, step.is_weighted)
        make = self.inputs.open if step.form is Form.OPEN else self.inputs.vectors
        return make(group, step.folds)

    def _inner(self, step: Step) -> Message:
        if step.form is Form.SQUARES and not isinstance(step.group, SumGroup):
            return self._product_of_squares(step)
        compute = self._vector if step.form in (Form.VECTOR, Form.OPEN) else self._matrix
        parts = [
            compute(step, branch, sources)
            for branch, sources in zip(step.branches, step.sources, strict=True)
        ]
        is_matrix = step.form is Form.MATRIX
        if len(parts) > 1:
            parts = [added(parts, matrix=is_matrix, through_zeros=self._learns)]
        value, scale = parts[0]
        message = rescaled(value, matrix=is_matrix, scale=scale)
        if compute == self._matrix and isinstance(step.group, SumGroup):
            self._doubt(step, message.scale - scale)
        if step.form is Form.SQUARES:
            return rescaled_units(message.value, message.scale.unsqueeze(1))
        return message

    @torch.no_grad()
    def _doubt(self, step: Step, shrunk: Tensor) -> None:
        """Note the rows where W R Wᴴ is much smaller than W and R are.

        R is a square, so rounding takes twice as many of its digits as of a vector's.

        Args:
            shrunk: log of the largest entry of W R Wᴴ or of its diagonal, R having one of 1: (F, B or 1).
        """
        limit = math.log(CANCELLED[self.snapshot.real])
        if not self.snapshot.is_normalised:  # else the rows of W have length 1
            size = torch.cat([self._weight(step, branch) for branch in step.branches], dim=2)
            lengths = torch.linalg.vector_norm(size, dim=2)
            shrunk = shrunk - 2 * lengths.amax(dim=1, keepdim=True).log()  # (F or 1, 1)
        self.doubtful |= (shrunk < limit).any(dim=0)

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
            assert self.inputs.nodes is not None
            count = self.inputs.nodes.points.shape[1]
            return Message(value.repeat_interleave(count, dim=2), scale.repeat_interleave(count, dim=1))
        return Message(value, scale)

    def _matrix(self, step: Step, branch: Branch, sources: tuple[Source, ...]) -> Message:
        """W (R₁ ⊗ … ⊗ R_N) Wᴴ, or with ⊙; of a step of squares its diagonal alone, (F, K, B or 1)."""
        vectors: dict[int, Tensor] = {}
        matrices: dict[int, Tensor] = {}
        scales = [self.snapshot.root_shares.new_zeros(len(step.folds), 1)]
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
        close = contraction.diagonal if step.form is Form.SQUARES else contraction.sandwich
        if branch.kind != "kronecker":
            has_identity = len(vectors) + len(matrices) < len(branch.widths)
            return contraction.weigh_entrywise(
                weight, list(vectors.values()), list(matrices.values()), has_identity, close
            )

        def block(part: slice) -> Tensor:
            return contraction.weigh_matrices(
                weight if len(weight) == 1 else weight[part],
                branch.widths,
                {i: v[part] for i, v in vectors.items()},
                {i: m[part] for i, m in matrices.items()},
                close,
            )

        compute = partial(checkpoint, block, use_reentrant=False) if self._recomputes else block
        most = block_size(weight.device) // (step.entries() * len(self.inputs.x))
        return _in_blocks(compute, len(step.folds), max(1, most))

    @property
    def _recomputes(self) -> bool:
        """Intermediate results are computed again on the way down: kept, they would fill the memory."""
        return self.inputs.nodes is not None and torch.is_grad_enabled() and self._entries > KEPT

    @cached_property
    def _entries(self) -> int:
        """Numbers in all intermediate results together."""
        return sum(step.entries() * len(step.folds) for step in self.schedule.steps) * len(self.inputs.x)

    def _product_of_squares(self, step: Step) -> Message:
        """∏_i ∫ |ℓ_i|², unit by unit or of every combination of units; an identity has squares of 1."""
        (branch,), (sources,) = step.branches, step.sources
        one = self.snapshot.root_shares.new_ones(())
        found = [
            Message(one.expand(1, k, 1), one.double().log().expand(1, k, 1))
            if source.form is Form.IDENTITY
            else self.squares(source)
            for k, source in zip(branch.widths, sources, strict=True)
        ]
        values, scales = [message.value for message in found], [message.scale for message in found]
        if branch.kind == "kronecker":
            return Message(contraction.kronecker(values), contraction.kronecker(scales, torch.add))
        return Message(contraction.entrywise(values), reduce(torch.add, scales))

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
        value, factor, largest = self._at_nodes(source, message)
        return Message((value * factor.unsqueeze(2)) @ value.mH, 2 * largest)

    def _closed_squares(self, source: Source, message: Message) -> Message:
        """Σ_q ω_q |r_q|² of an open vector: (F, K, B·Q) → (F, K, B)."""
        value, factor, largest = self._at_nodes(source, message)
        squares = ((value * value.conj()).real @ factor.unsqueeze(3)).squeeze(3)  # (F, B, K)
        return rescaled_units(squares.mT, 2 * largest.unsqueeze(1))

    def _at_nodes(self, source: Source, message: Message) -> tuple[Tensor, Tensor, Tensor]:
        """An open vector, (F, B, K, Q), its nodes' weights at a common scale, (F, B, Q), and that, (F, B)."""
        weights = self.inputs.node_weights(source.variables)  # (F, B or 1, Q)
        folds, units, _ = message.value.shape
        count = weights.shape[2]
        value = message.value.reshape(folds, units, -1, count).transpose(1, 2)  # (F, B, K, Q)
        counted = message.counted().reshape(folds, -1, count)
        largest = largest_scale(counted, dim=2)
        scale = message.scale.reshape(counted.shape) if self._learns else counted
        real = value.real.dtype
        factor = weights.to(real) * ratio(2 * scale, 2 * largest.unsqueeze(2), real)
        return value, factor, largest


def messages(
    snapshot: Snapshot,
    evidence: Evidence,
    nodes: Nodes | None = None,
    watched: frozenset[int] = frozenset(),
    functions: Mapping[int, Function] | None = None,
) -> Messages:
    """All messages upwards for rows that lack the same variables (or, without alternatives, any).

    Args:
        snapshot: of the model.
        evidence: the rows.
        nodes: of weighted variables.
        watched: variables of blocks whose distribution is asked, see
            :attr:`squircuit.inference.upward.inputs.InputMessages.watched`.
        functions: variable of a block → a function whose average is taken.
    """
    averaged = functions or {}
    weighted = watched | frozenset(averaged) | frozenset(() if nodes is None else nodes.rows)
    schedule = snapshot.schedule(evidence.missing, weighted)
    inputs = InputMessages(snapshot, evidence.x, evidence.missing, nodes, averaged)
    return Messages(inputs, schedule)


class Roots(Protocol):
    """Messages that have come up to the roots."""

    @property
    def snapshot(self) -> Snapshot: ...

    def root_squares(self) -> list[tuple[Tensor, Tensor]]:
        """∫ |c_r|² of the units of every root layer, (B, R), and their log-scales, (B, R)."""


def total(found: Roots) -> tuple[Tensor, Tensor]:
    """Σ_r π_r R_rr over the root units as t and s with t·e^s: (B,) each."""
    return _weighted_sum(*_totals(found))


def log_total(found: Roots) -> Tensor:
    """log Σ_r π_r R_rr over the root units, −inf where it is zero: (B,)."""
    return _log_of(*total(found))


def log_totals(found: Roots) -> Tensor:
    """The same of each of the circuits that are mixed: (B, M)."""
    return _log_of(*_totals(found))


def _totals(found: Roots) -> tuple[Tensor, Tensor]:
    """Σ_r π_r R_rr over the root units of each of the M circuits as t and s with t·e^s: (B, M) each."""
    mixture = torch.split(found.snapshot.root_shares, list(found.snapshot.components))
    parts = [
        _weighted_sum(squares * pi, scale)
        for (squares, scale), pi in zip(found.root_squares(), mixture, strict=True)
    ]
    return torch.stack([total for total, _ in parts], dim=1), torch.stack([s for _, s in parts], dim=1)


def _log_of(total: Tensor, scale: Tensor) -> Tensor:
    there = scale > -torch.inf
    logarithm = log_or_nothing(torch.where(there, total, 0.0)) + torch.where(there, scale, 0.0)
    return logarithm.to(total.dtype)


def _weighted_sum(terms: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """Σ_k t_k e^{s_k} as t and s with t·e^s: (B, K) twice → (B,) twice."""
    largest = largest_scale(torch.where(terms == 0, -torch.inf, scale), dim=1)
    return (terms * ratio(scale, largest.unsqueeze(1), terms.dtype)).sum(dim=1), largest


def _in_blocks(compute: Callable[[slice], Tensor], folds: int, block: int) -> Tensor:
    """A computation over all folds, so many at a time."""
    if block >= folds:
        return compute(slice(0, folds))
    return torch.cat([compute(slice(i, min(i + block, folds))) for i in range(0, folds, block)])
