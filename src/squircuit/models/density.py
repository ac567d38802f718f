"""log p(x) and log Z of a model: which precision, which rows with more care, what to divide by."""

from __future__ import annotations

from functools import cached_property
from typing import Any, final

import torch
from torch import Tensor

from squircuit.errors import StructureError
from squircuit.execution.gathering import changed
from squircuit.execution.log_scales import log_sum
from squircuit.execution.network import Network
from squircuit.execution.precision import double as in_double
from squircuit.execution.precision import recomputed
from squircuit.families import InputFunctions
from squircuit.inference.compile.compiled_circuit import CompiledStructure, Snapshot
from squircuit.inference.evidence import Evidence, as_evidence, has_gaps, require_data
from squircuit.inference.likelihood import log_integrals, log_marginal, log_terms
from squircuit.inference.normalisation import KEPT, Kept, refusing, require_density
from squircuit.inference.upward.unit_scales import largest_spread, may_spread, needs_unit_scales
from squircuit.models.amplitudes import Amplitudes
from squircuit.models.call import EVALUATION, Call, ManifoldWatch
from squircuit.models.precision import needed_precision
from squircuit.models.weights import StackedWeights
from squircuit.storage.memory import require_memory

BLOCK_BYTES = 2**27
"""Of the outputs of all layers for the rows that are computed together, where no gradients are wanted."""


@final
class Density:
    """p(x) = Σ_r π_r |c_r(x)|² / Z with the weights of a model, which every method is given.

    Args:
        weights: of the model; their structure and plan are kept, not the tensors.

    Attributes:
        network: runs the plan.
        amplitudes: the root units at rows that lack nothing.
    """

    def __init__(self, weights: StackedWeights) -> None:
        self.structure, self.network = weights.structure, Network(weights.plan)
        self.amplitudes = Amplitudes(self.network)
        self._watch = ManifoldWatch()
        self._forms: dict[tuple[bool, ...], CompiledStructure] = {}  # made by the first query

    def __getstate__(self) -> dict[str, Any]:
        """The state of copies and pickles, in which ways to answer queries are made anew."""
        return {**self.__dict__, "_forms": {}}

    # ------------------------------------------------------------------ log p

    def log_prob(self, weights: StackedWeights, call: Call, x: Any, missing: Any, components: bool) -> Tensor:
        """log p of the observed entries of every row: (n,), or (n, M) of the circuits that are mixed."""
        require_data(self.structure, x)
        evidence = self._evidence(weights, call, x, missing)
        if evidence is not None and not evidence.is_complete:
            snapshot = self.snapshot(weights, call)
            return _attached(log_marginal(snapshot, evidence, components).to(weights.precision), weights)
        rows = (x if evidence is None else evidence.x).to(weights.device)
        is_one, waits = self._watch.is_one(weights, call), call.waits(rows.device)
        real = weights.precision if is_one or not waits else self._needed_precision(weights)
        blocks = [rows] if call.is_step else self._blocks(weights, rows, real)
        parts = [self._of_rows(weights, block, real, components, waits) for block in blocks]
        log_p = parts[0] if len(parts) == 1 else torch.cat(parts)
        return log_p if is_one else log_p - self._log_z(weights, call, real)

    def _of_rows(
        self, weights: StackedWeights, rows: Tensor, real: torch.dtype, components: bool, careful: bool
    ) -> Tensor:
        """log Σ_r π_r |c_r(x)|² of rows that lack nothing, not divided by Z."""
        density = self.amplitudes.log_densities if components else self.amplitudes.log_density
        log_p = density(weights, rows, real).to(weights.precision)
        return self._with_care(weights, log_p, rows, real, components) if careful else log_p

    def _blocks(self, weights: StackedWeights, rows: Tensor, real: torch.dtype) -> tuple[Tensor, ...]:
        """Rows so many at a time that the outputs of all layers fit into a part of the memory.

        Where gradients are wanted the outputs of all rows are kept until the backward pass, so that blocks
        would save nothing.
        """
        row_bytes = self.network.plan.numbers_a_row * real.itemsize
        if not (torch.is_grad_enabled() and any(p.requires_grad for p in weights.parameters())):
            return torch.split(rows, max(1, BLOCK_BYTES // row_bytes))
        if rows.device.type == "cpu":
            fix = "ask within `with torch.no_grad():`, or fewer rows at a time"
            require_memory(row_bytes * len(rows), f"log_prob of {len(rows):,} rows with gradients", fix)
        return (rows,)

    def _evidence(self, weights: StackedWeights, call: Call, x: Any, missing: Any) -> Evidence | None:
        """Rows that have been checked, or None where x is to be taken as it is.

        Training steps on a GPU do not wait for checks: a value outside its domain has probability 0 there.
        """
        there = isinstance(x, Tensor) and missing is None and not call.waits(x.device)
        if there and not has_gaps(self.structure, x):
            return None
        return as_evidence(self.structure, x, missing, weights.device)

    def _with_care(
        self, weights: StackedWeights, log_p: Tensor, x: Tensor, real: torch.dtype, components: bool
    ) -> Tensor:
        """Log-densities, with those rows computed once more whose digits may have been lost.

        Products of tiny factors vanish in single precision first; and a unit that is zero beside others of
        its layer counts where another variable makes up for it.
        """
        if self.amplitudes.has_unit_scales:
            return log_p
        zero = log_p == -torch.inf
        lost = zero if zero.ndim == 1 else zero.any(dim=1)
        if self._may_spread:
            found = self._as_it_is(weights, weights.precision)
            lost = lost | needs_unit_scales(found, x, torch.zeros_like(x).bool(), real)
        elif real == torch.float64:
            return log_p
        if weights.is_spread and weights.agreed(bool(lost.any()))[0] and not bool(lost.any()):
            lost = torch.arange(len(lost), device=lost.device) == 0  # others need the weights of this process

        def again(rows: Tensor) -> Tensor:
            complete = Evidence(x[rows], torch.zeros_like(x[rows], dtype=torch.bool))
            terms = log_terms(self._as_it_is(weights, torch.float64), complete)
            return terms if components else log_sum(terms, dim=1)

        return recomputed(log_p, lost, again)

    @cached_property
    def _may_spread(self) -> bool:
        """Far from the data the units of a layer may differ by more than a float holds."""
        families: dict[tuple[int, ...], list[InputFunctions]] = {}
        for group in self.network.plan.input_groups:
            for block in group.blocks:
                families.setdefault(block, []).append(group.family)
        return any(may_spread(each) for each in families.values())

    def _needed_precision(self, weights: StackedWeights) -> torch.dtype:
        """Double where single does not hold the squares of the weights."""

        def spread() -> float:
            form, exact = self._form(self._apart), list(weights.stacks(torch.float64))
            return largest_spread(self.network, exact, form.schedules.scopes)

        stacks = ((stack.name, weights.held(stack.name)) for stack in self.network.plan.stacks)
        return needed_precision(stacks, weights.log_root_shares(torch.float64), weights.precision, spread)

    # ------------------------------------------------------------------ log Z

    def _log_z(self, weights: StackedWeights, call: Call, real: torch.dtype) -> Tensor:
        """What a log-density is divided by: log Z, which has to be a number where the host may wait."""
        try:
            log_z = log_sum(self.log_integrals(weights, real == torch.float64)).to(weights.precision)
        except StructureError:
            if not (call.is_step and weights.is_unitary):
                raise
            # the training loss flatters the model, and a warning has said so
            return torch.zeros((), dtype=weights.precision, device=weights.device)
        if call.waits(log_z.device):
            require_density(log_z)
        return log_z

    def log_integrals(self, weights: StackedWeights, double: bool) -> Tensor:
        """log ∫ Σ_r π_r |c_r|² over the root units r of every root layer: (M,)."""
        normalisation = weights.normalisation
        # a step that is captured in a graph cannot look; without cross terms there is no need to
        kept = weights.kept() if normalisation.may_have_cross_terms else KEPT
        if not normalisation.partition_has_cross_terms(kept):
            stacks = changed(weights.stacks(), in_double) if double else weights.stacks()
            miss = normalisation.slopes_miss(kept, of_marginals=False)
            stacks = stacks if miss is None else changed(stacks, refusing(miss))
            norms = self.network.log_norms(stacks, weights.family_values, weights.device)
            return self._by_component(norms + weights.log_root_shares().to(norms))
        real = torch.float64 if double else weights.precision
        return log_integrals(self._snapshot(weights, False, kept, False, real))

    def component_log_weights(self, weights: StackedWeights, call: Call) -> Tensor:
        """log p(m), the shares of the circuits that are mixed: (M,)."""
        if self._watch.is_one(weights, call):
            return torch.log_softmax(self._by_component(weights.log_root_shares()), dim=0)
        double = not call.is_step and self._needed_precision(weights) == torch.float64
        logs = self.log_integrals(weights, double)
        if call.waits(logs.device):
            require_density(logs)
        return torch.log_softmax(logs, dim=0).to(weights.precision)

    def _by_component(self, logs: Tensor) -> Tensor:
        """log Σ exp over the units of every root layer: (R,) → (M,)."""
        parts = torch.split(logs, [root.units for root in self.structure.roots])
        return torch.stack([log_sum(part) for part in parts])

    # ------------------------------------------------------------------ for queries

    def snapshot(self, weights: StackedWeights, call: Call = EVALUATION, joined: bool = False) -> Snapshot:
        """The model as queries see it; StructureError where they are not tractable.

        Args:
            weights: of the model.
            call: in a training step a unitary model is taken to be normalised.
            joined: count the cross terms of all sums, also those that vanish in marginals.
        """
        if call.is_step and self._watch.is_one(weights, call):
            return self._snapshot(weights, joined, KEPT, True, weights.precision)
        kept = weights.kept()
        is_one = weights.is_unitary and kept.all
        real = weights.precision if is_one else self._needed_precision(weights)
        return self._snapshot(weights, joined, kept, is_one, real)

    def _snapshot(
        self, weights: StackedWeights, joined: bool, kept: Kept, is_normalised: bool, real: torch.dtype
    ) -> Snapshot:
        form = self._form(tuple(weights.normalisation.joined_roots(kept, always=joined)))
        shares = weights.log_root_shares(real).exp()
        if form.joined_circuit is None:
            miss = weights.normalisation.slopes_miss(kept, of_marginals=True)
            stacks = weights.stacks(real) if miss is None else changed(weights.stacks(real), refusing(miss))
            return form.direct(list(stacks), shares, weights.family_values, is_normalised)
        values = {
            n: v.to(real.to_complex() if v.is_complex() else real) for n, v in weights.weights().items()
        }
        return form.joined(self.structure.with_weights(values), shares)

    def _as_it_is(self, weights: StackedWeights, real: torch.dtype) -> Snapshot:
        """A snapshot for rows that lack nothing: their value is the circuit's whatever its structure."""
        shares, values = weights.log_root_shares(real).exp(), weights.family_values
        return self._form(self._apart).direct(list(weights.stacks(real)), shares, values, False)

    @property
    def _apart(self) -> tuple[bool, ...]:
        """No layers are joined."""
        return (False,) * len(self.structure.roots)

    def _form(self, joins: tuple[bool, ...]) -> CompiledStructure:
        if joins not in self._forms:
            self._forms[joins] = CompiledStructure(self.structure, self.network, list(joins))
        return self._forms[joins]


def _attached(log_p: Tensor, weights: StackedWeights) -> Tensor:
    """Give log p a gradient of zero where rows show nothing and no weight was needed: batches may be such."""
    if log_p.requires_grad or not torch.is_grad_enabled():
        return log_p
    learnt = [p for p in weights.parameters() if p.requires_grad and p.numel()]
    return log_p + 0.0 * torch.real(learnt[0]).flatten()[0] if learnt else log_p
