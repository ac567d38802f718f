"""What input layers send upwards: a vector where their variable is observed, else a matrix; or squares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import final

import torch
from torch import Tensor

from squircuit.execution.inputs import functions_gram, input_norms
from squircuit.execution.plan import InputGroup, Slots
from squircuit.execution.unit_squares import log_squares_of_tables
from squircuit.families import Categorical, MultivariateGaussian
from squircuit.families.base import largest_scale
from squircuit.inference.compile.compiled_circuit import Snapshot
from squircuit.inference.upward.block_inputs import BlockInputs
from squircuit.inference.upward.contraction import outer
from squircuit.inference.upward.gaussian_terms import Function
from squircuit.inference.upward.input_layers import (
    evaluate_group,
    evaluate_units,
    function_values,
    group_weight,
    input_weight,
    layer_values,
    plain,
)
from squircuit.inference.upward.quadrature import Nodes
from squircuit.inference.upward.scaled_message import Message, rescaled, rescaled_units, squared

CANCELLED = {torch.float32: 1e-5, torch.float64: 1e-11}
"""A share of the terms of a matrix below which too few of its digits are left."""


@final
@dataclass(frozen=True, eq=False)
class InputMessages:
    """The input layers of a circuit for one batch of rows.

    Args:
        snapshot: of the model.
        x: (B, d), with any valid value where a variable is missing.
        missing: (B, d); read only for variables that are missing in some rows and not in others.
        nodes: of the weighted variables.
    """

    snapshot: Snapshot
    x: Tensor
    missing: Tensor
    nodes: Nodes | None = None
    functions: Mapping[int, Function] = field(default_factory=dict)
    """Variable of a block → a function whose average is taken where the variable is missing."""
    watched: dict[tuple[InputGroup, int], Tensor] = field(default_factory=dict)
    """Squares (n, B) or pair integrals (B, n, n) of functions of input layers over blocks that are weighted:
    the derivatives of log p in them tell the distribution of what a block lacks."""
    doubts: list[Tensor] = field(default_factory=list)
    """Of blocks below weights, the rows in which terms cancel so far that few digits are left: (B,)."""
    references: dict[tuple[int, ...], Tensor] = field(default_factory=dict)
    """Variables → log-scale of the largest of their input layers, (B,) float64, taken out of all of them.

    Far from the data it is −10¹², and what is conditional on it is not: it must not be added and subtracted.
    The same holds of one layer that is far where another is not, so it is the largest that is taken out.
    """

    def vectors(self, group: InputGroup, folds: Slots) -> Message:
        """ℓ(x): (F, K, B), in units of the variables' references."""
        value, scale = evaluate_group(self.snapshot, group, folds, self._columns(self.x, group, folds))
        left = scale.double() - self._taken(group, folds, scale)
        return rescaled(value, matrix=False, scale=left.to(value.real.dtype))

    def _taken(self, group: InputGroup, folds: Slots, scale: Tensor) -> Tensor:
        """The log-scales that are taken out of the variables of a group, of its own ones: (F, B) float64."""
        own = scale.detach().double()
        alone = largest_scale(own.unsqueeze(0), dim=0)
        parts = zip(folds, own, alone, strict=True)
        return torch.stack([self._reference(group.blocks[f], each, found) for f, each, found in parts])

    def _reference(self, variables: tuple[int, ...], scale: Tensor, alone: Tensor) -> Tensor:
        """The log-scale that is taken out of some variables.

        ``scale`` is that of the input layer which asks first, and often of all of them: then it is ``alone``.

        Where layers are over different blocks, nothing can be taken out of all of them.
        """
        if variables not in self.references:
            if not self.snapshot.has_one_block(variables):
                return torch.zeros_like(scale)
            scales = [self._own_scale(variables, scale), *self._other_scales(variables)]
            is_alone = len(scales) == 1 and scales[0] is scale
            self.references[variables] = alone if is_alone else largest_scale(torch.stack(scales), dim=0)
        return self.references[variables]

    def _own_scale(self, variables: tuple[int, ...], scale: Tensor) -> Tensor:
        """That of the layer which asks first, whatever it asks for: vectors, squares or matrices."""
        group, fold = self.snapshot.inputs[variables[0]][0]
        if group.is_block and not isinstance(group.family, MultivariateGaussian):
            return self._block_scale(group, fold)
        return scale

    def _block_scale(self, group: InputGroup, fold: int) -> Tensor:
        """The largest of a layer's functions, (B,)."""
        return self.blocks.log_squares(group, fold).detach().amax(dim=1) / 2

    def _other_scales(self, variables: tuple[int, ...]) -> Iterator[Tensor]:
        """The log-scales of the input layers over some variables, (B,) each, where they may differ."""
        variable = variables[0]
        layers = self.snapshot.inputs[variable]
        if any(group.is_block for group, _ in layers):
            if len(layers) > 1:
                yield from (self._present_scale(variable, group, fold) for group, fold in layers)
            return
        is_learnt = any(self.snapshot.family_values(group) for group, _ in layers)
        if len(layers) == 1 or (not is_learnt and len({group.family for group, _ in layers}) == 1):
            return
        for group, fold in layers:
            yield self._present_scale(variable, group, fold)

    def _present_scale(self, variable: int, group: InputGroup, fold: int) -> Tensor:
        """The log-scale of a layer over a block, or over a variable alone: (B,)."""
        if group.is_block:
            return self._block_scale(group, fold)
        x = self.x[:, variable].detach().double()
        return group.family.evaluate_scaled(x, layer_values(self.snapshot, group, fold))[1].detach()

    def reference_table(self) -> Tensor:
        """What was taken out of p(y), twice the references of observed variables: (B, d) float64."""
        table = torch.zeros(self.x.shape, dtype=torch.float64, device=self.x.device)
        for variables, scale in self.references.items():
            several = len(variables) > 1
            hidden = self.missing[:, list(variables)].all(dim=1) if several else self.missing[:, variables[0]]
            table[:, variables[0]] = torch.where(hidden, 0.0, 2 * scale)
        return table

    def open(self, group: InputGroup, folds: Slots) -> Message:
        """ℓ at every node, the same for all rows: (F, K, B·Q), the nodes of a row side by side."""
        value, scale = self._at_nodes(group, folds)
        repeated = value.unsqueeze(2).expand(-1, -1, len(self.x), -1).flatten(2)
        return rescaled(repeated, matrix=False, scale=scale.to(value.real.dtype).repeat(1, len(self.x)))

    def matrices(self, group: InputGroup, folds: Slots, weighted: bool) -> Message:
        """∫ ℓ ℓᴴ where the variable is missing, ℓ ℓᴴ where it is not: (F, B or 1, K, K)."""
        if group.is_block:
            return self._block_matrices(group, folds, weighted)
        integral = self._weighted(group, folds) if weighted else self.grams(group, folds)
        if all(self._missing_in[group.variables[f]][0] for f in folds):
            return rescaled(integral, matrix=True)
        missing = self._columns(self.missing, group, folds)  # (F, B)
        value, scale = self.vectors(group, folds)
        either = torch.where(missing[:, :, None, None], integral, outer(value))
        return rescaled(either, matrix=True, scale=torch.where(missing, 0.0, 2 * scale))

    def squares(self, group: InputGroup, folds: Slots, weighted: bool) -> Message:
        """∫ |ℓ_k|² where the variable is missing, |ℓ_k|² where it is not: (F, K, B or 1)."""
        if group.is_block:
            return self._block_squares(group, folds, weighted)
        lacks = [self._missing_in[group.variables[f]] for f in folds]
        if not any(some for _, some in lacks):
            return self._unit_squares(group, folds)
        integral = rescaled_units(
            self._weighted_norms(group, folds) if weighted else self._norms(group, folds)
        )
        if all(every for every, _ in lacks):
            return integral
        missing = self._columns(self.missing, group, folds).unsqueeze(1)  # (F, 1, B)
        shown = self._unit_squares(group, folds)
        pairs = zip(integral, shown, strict=True)
        return Message(*(torch.where(missing, absent, there) for absent, there in pairs))

    def node_weights(self, variables: tuple[int, ...]) -> Tensor:
        """ω of some variables: (F, B or 1, Q)."""
        assert self.nodes is not None
        rows = torch.tensor([self.nodes.rows[v] for v in variables], device=self.x.device)
        return self.nodes.weights.index_select(0, rows)

    @cached_property
    def _missing_in(self) -> list[tuple[bool, bool]]:
        """Whether all rows lack it, and whether some do, for every variable."""
        return list(zip(self.missing.all(dim=0).tolist(), self.missing.any(dim=0).tolist(), strict=True))

    def _unit_squares(self, group: InputGroup, folds: Slots) -> Message:
        """|ℓ_k(x)|², each with a scale of its own, in units of the variables' references."""
        if group.weight is not None and isinstance(group.family, Categorical) and not self.x.is_cuda:
            weight = group_weight(self.snapshot, group, folds)
            rows = weight[:, group.first_row : group.first_row + group.units]
            logs = log_squares_of_tables(rows, self._columns(self.x, group, folds).long()).mT
            held = torch.where(logs > -torch.inf, logs, 0.0).detach()
            return Message((logs - held).exp().to(self.snapshot.root_shares.dtype), held)
        if group.weight is not None:
            return squared(self.vectors(group, folds))
        x = self._columns(self.x, group, folds)
        value, scale = evaluate_units(self.snapshot, group, folds, x)  # (F, K, B) twice
        largest = torch.where(value == 0, -torch.inf, scale).amax(dim=1)
        taken = self._taken(group, folds, largest).unsqueeze(1)
        squares = rescaled_units((value * value.conj()).real)
        return Message(squares.value.to(self.snapshot.real), squares.scale + 2 * (scale - taken))

    def _weighted_norms(self, group: InputGroup, folds: Slots) -> Tensor:
        """Σ_q ω_q |ℓ_k(x_q)|²: (F, K, B or 1)."""
        values = plain(self._at_nodes(group, folds))  # (F, K, Q)
        weights = self.node_weights(tuple(group.variables[f] for f in folds)).to(values.real.dtype)
        return (values * values.conj()).real @ weights.mT

    def _norms(self, group: InputGroup, folds: Slots) -> Tensor:
        """∫ |ℓ_k|², the diagonal of W (∫ φ φᴴ) Wᴴ: (F, K, 1)."""
        like = self.snapshot.root_shares
        if self.snapshot.is_normalised:
            return like.new_ones(len(folds), group.units, 1)
        weight = None if group.weight is None else group_weight(self.snapshot, group, folds)
        values = function_values(self.snapshot, group, folds)
        norms = input_norms(group, weight, values, self.snapshot.device)
        return norms.to(like).expand(len(folds), -1).unsqueeze(2)

    def _weighted(self, group: InputGroup, folds: Slots) -> Tensor:
        """Σ_q ω_q ℓ(x_q) ℓ(x_q)ᴴ: (F, B or 1, K, K)."""
        values = plain(self._at_nodes(group, folds))  # (F, K, Q)
        weights = self.node_weights(tuple(group.variables[f] for f in folds)).to(values.real.dtype)
        return (values.unsqueeze(1) * weights.unsqueeze(2)) @ values.unsqueeze(1).mH

    def _at_nodes(self, group: InputGroup, folds: Slots) -> Message:
        assert self.nodes is not None
        rows = [self.nodes.rows[group.variables[f]] for f in folds]
        return evaluate_group(self.snapshot, group, folds, self.nodes.points[rows])

    def grams(self, group: InputGroup, folds: Slots) -> Tensor:
        """W (∫ φ φᴴ) Wᴴ, the identity if the circuit is normalised: (F, 1, K, K)."""
        if self.snapshot.is_normalised:
            identity = torch.eye(group.units, dtype=self.snapshot.dtype, device=self.snapshot.device)
            return identity.expand(len(folds), 1, -1, -1)
        values = function_values(self.snapshot, group, folds)
        functions = functions_gram(group, values, self.snapshot.device).to(self.snapshot.dtype)
        weight = input_weight(self.snapshot, group, folds)
        gram = functions if weight is None else weight @ functions @ weight.mH
        return gram.expand(len(folds), -1, -1).unsqueeze(1)

    def _columns(self, table: Tensor, group: InputGroup, folds: Slots) -> Tensor:
        if group.is_block:
            return torch.stack([table[:, list(group.blocks[f])] for f in folds])
        return table[:, [group.variables[f] for f in folds]].T

    # ------------------------------------------------------------------ blocks of variables

    @cached_property
    def blocks(self) -> BlockInputs:
        """The functions of blocks of variables for these rows."""
        return BlockInputs(self.snapshot, self.x, self.missing, self.functions)

    def _block_squares(self, group: InputGroup, folds: Slots, weighted: bool) -> Message:
        """∫ |ℓ_k|² over what each row lacks of a block, at what it shows: (F, K, B)."""
        if group.weight is not None or (weighted and not isinstance(group.family, MultivariateGaussian)):
            value, scale = self._block_matrices(group, folds, weighted)
            return rescaled_units(value.diagonal(dim1=2, dim2=3).real.mT, scale.unsqueeze(1))
        logs = torch.stack([self.blocks.log_squares(group, f) for f in folds])  # (F, B, n)
        there = logs > -torch.inf
        held = torch.where(there, logs, 0.0).detach()
        value = torch.where(there, (torch.where(there, logs, 0.0) - held).exp(), 0.0)  # 1, with its gradient
        value = value.mT.to(self.snapshot.real)
        if weighted and self.functions:
            value = value * torch.stack([self.blocks.averages(group, f) for f in folds]).mT.to(value)
        elif weighted:
            value = torch.stack([self._watch(group, f, v) for f, v in zip(folds, value, strict=True)])
        largest = torch.where(there, held, -torch.inf).amax(dim=2) / 2
        return Message(value, (held - 2 * self._taken(group, folds, largest).unsqueeze(2)).mT)

    def _block_matrices(self, group: InputGroup, folds: Slots, weighted: bool) -> Message:
        """∫ ℓ ℓᴴ over what each row lacks of a block, at what it shows: (F, B or 1, K, K)."""
        shared = not weighted and all(self._missing_in[v][0] for f in folds for v in group.blocks[f])
        parts = [self.blocks.pair_integrals(group, f, first=shared) for f in folds]
        own = self.snapshot.dtype
        dtype = torch.promote_types(own, torch.float64)  # terms cancel below weights
        values = [pairs.to(dtype) for pairs, _ in parts]
        if weighted and not self.functions:
            values = [self._watch(group, f, value) for f, value in zip(folds, values, strict=True)]
        value, scale = torch.stack(values), torch.stack([s for _, s in parts])
        weight = input_weight(self.snapshot, group, folds)
        if weight is not None:
            value = self._weighed(weight.to(dtype).unsqueeze(1), value)
        if not shared:
            scale = scale - 2 * self._taken(group, folds, scale / 2)
        value, scale = rescaled(value, matrix=True, scale=scale)
        return Message(value.to(own), scale.to(self.snapshot.real))

    def _weighed(self, weight: Tensor, value: Tensor) -> Tensor:
        """W R Wᴴ of blocks, (F, B, K, K), and a note of the rows in which little is left of the terms."""
        found = weight @ value @ weight.mH
        with torch.no_grad():
            most = torch.linalg.vector_norm(weight, dim=3).square().amax(dim=2)  # (F, 1)
            sizes = value.diagonal(dim1=2, dim2=3).real.amax(dim=2) * most
            left = found.diagonal(dim1=2, dim2=3).real.amax(dim=2)
            self.doubts.append((left < CANCELLED[torch.float64] * sizes).any(dim=0))
        return found

    def _watch(self, group: InputGroup, fold: int, value: Tensor) -> Tensor:
        self.watched[group, fold] = value.detach().requires_grad_()
        return self.watched[group, fold]
