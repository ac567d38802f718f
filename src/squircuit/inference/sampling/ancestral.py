"""One depth-first walk through the layers draws all variables.

At a layer ℓ stands an environment e, a row vector: what is to be drawn has the density |e·ℓ(x)|². At a sum of
a product, e·W is a tensor A with one mode a factor. The first factor, the others integrated, has the density
Σ_j |A_j·ℓ₁(x)|² over the columns j of A (each times a root L of the others' messages R = L Lᴴ; L = I in a
unitary circuit): a mixture, so *one* column is drawn by its mass and becomes the environment of the factor.
Once x₁ is drawn, ℓ₁(x₁) is contracted into A, the column is forgotten, and the next factor follows. So only
vectors go down, and a walk costs about as much as a likelihood, K·∏K_i a layer and row.

Above the first sums, below a root, only one unit k of a layer is asked for (the squares of a root's units are
mixed, not their amplitudes): there the density is |ℓ_k(x)|², which for a product is the product of those of
its factors, so that the number k is all that goes down, and factors are drawn independently.

At a sum of several inputs i the density is |Σ_i A_i·ℓ_i(x)|². Its cross terms vanish as long as a variable
is integrated (U1, U4); so one variable v is spared, an input drawn by its mass, and all variables but v drawn
from that input alone. Then v is drawn given them from all inputs at once, with their interference.

The walk is a generator for each layer and a stack of them: chains are deeper than Python's recursion limit.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias, final

import torch
from torch import Tensor

from squircuit.execution.kernels import draws as kernel
from squircuit.execution.plan import Branch, InputGroup, Key, ProductGroup, SumGroup
from squircuit.inference.compile.schedule import Form
from squircuit.inference.evidence import Evidence, distinct_masks
from squircuit.inference.sampling.draws import InputDraws, draw_index, squares
from squircuit.inference.sampling.square_roots import SquareRoots
from squircuit.inference.upward import contraction
from squircuit.inference.upward.batches import block_size
from squircuit.inference.upward.input_layers import (
    block_family,
    evaluate_group,
    input_weight,
    layer_values,
    layer_weight,
)
from squircuit.inference.upward.messages import messages

AHEAD = 256
"""Draws of uniform numbers that a GPU makes at once."""
Visit: TypeAlias = Generator["Visit", Tensor | None, Tensor | None]  #: asks for visits of layers below
Factors: TypeAlias = Generator[Visit, Tensor | None, list[Tensor] | None]


@final
@dataclass(eq=False)
class Walk:
    """The samples of some rows, drawn layer by layer.

    Args:
        messages: of the evidence, and the roots of its matrices.
        draws: of single variables.
        x: (B, d) float64, with what is observed.
        missing: (B, d).
        generator: of the uniform numbers.
    """

    messages: SquareRoots
    draws: InputDraws
    x: Tensor
    missing: Tensor
    generator: torch.Generator | None
    _ahead: list[Tensor] = field(default_factory=list, init=False)

    def run(self, root: Key, units: Tensor) -> None:
        """Draws all that is missing, the unit of the root being given for each row: (B,)."""
        stack: list[Visit] = [self._unit(root, units)]
        value: Tensor | None = None
        while stack:
            try:
                below = stack[-1].send(value)
            except StopIteration as finished:
                stack.pop()
                value = finished.value
            else:
                stack.append(below)
                value = None

    def take(self, rows: Tensor) -> Walk:
        """The walk of some of the rows; what it draws is not seen here."""
        part = self.messages.take(rows)
        return Walk(part, self.draws, self.x[rows], self.missing[rows], self.generator)

    def uniform(self) -> Tensor:
        """One number in [0, 1) a row: (B,)."""
        if not self.x.is_cuda:
            return self._uniform(1)[0]
        if not self._ahead:  # many at once, since launches are what a walk on a GPU waits for
            self._ahead.extend(self._uniform(AHEAD).unbind())
        return self._ahead.pop()

    def _uniform(self, count: int) -> Tensor:
        source = self.x.device if self.generator is None else self.generator.device
        drawn = torch.rand(count, len(self.x), generator=self.generator, dtype=torch.float64, device=source)
        return drawn.to(self.x.device)

    # ------------------------------------------------------------------ single units

    def _unit(self, key: Key, units: Tensor) -> Visit:
        """Draws what is missing below a layer from |ℓ_k|², k being each row's unit; no value is needed."""
        group, fold = self.messages.layers[key]
        if isinstance(group, InputGroup):
            self._draw_unit(group, fold, units)
        elif isinstance(group, ProductGroup):
            for factor, each in _factor_units(group.branch, fold, units):
                if any(self._lacks[v] for v in self.messages.scopes[factor]):
                    yield self._unit(factor, each)
        elif any(self._lacks[v] for v in self.messages.scopes[key]):
            one_hot = torch.nn.functional.one_hot(units, group.units).to(self.messages.snapshot.dtype)
            yield self._visit(key, one_hot, None)
        return None

    @cached_property
    def _lacks(self) -> list[bool]:
        """Whether some row lacks it, for every variable."""
        flags: list[bool] = self.missing.any(dim=0).tolist()
        return flags

    def _draw_unit(self, group: InputGroup, fold: int, units: Tensor) -> None:
        """Draws a variable from |ℓ_k(x)|², where it is missing."""
        if group.is_block and group.weight is None:
            self._draw_block(group, fold, lambda rows, *at: block_family(group).sample(units[rows], *at))
            return
        if group.is_block:
            one_hot = torch.nn.functional.one_hot(units, group.units).to(self.messages.snapshot.dtype)
            self._draw_amplitudes(group, fold, one_hot)
            return
        variable = group.variables[fold]
        densities = _masses(self.draws.table(group, fold).unsqueeze(1))  # (K, Q)
        drawn = self.draws.points(variable).draw(densities, self.uniform(), units)
        self.x[:, variable] = torch.where(self.missing[:, variable], drawn, self.x[:, variable])

    # ------------------------------------------------------------------ blocks of variables

    def _draw_amplitudes(self, group: InputGroup, fold: int, environment: Tensor) -> None:
        """Draws what is missing of a block from |e·ℓ(x)|²."""
        weight = input_weight(self.messages.snapshot, group, (fold,))
        amplitudes = environment if weight is None else environment @ weight[0]
        family = block_family(group)
        self._draw_block(group, fold, lambda rows, *at: family.sample_square(amplitudes[rows], *at))

    def _draw_block(self, group: InputGroup, fold: int, draw: Callable[..., Tensor]) -> None:
        """Draws what is missing of a block, rows of one pattern together."""
        variables = list(group.blocks[fold])
        columns = Evidence(self.x[:, variables], self.missing[:, variables])
        values = layer_values(self.messages.snapshot, group, fold)
        for mask, rows in distinct_masks(columns):
            if bool(mask.any()):
                drawn = draw(rows, columns.x[rows], (~mask).tolist(), values, self._numbers)
                columns.x[rows] = torch.where(mask, drawn.to(columns.x), columns.x[rows])
        self.x[:, variables] = columns.x

    @cached_property
    def _numbers(self) -> torch.Generator | None:
        """The generator; of one on another device a generator on the host, which goes on from it."""
        source = self.generator
        if source is None or source.device.type == "cpu":
            return source
        seed = torch.randint(2**62, (1,), generator=source, device=source.device)
        return torch.Generator().manual_seed(int(seed))

    # ------------------------------------------------------------------ layers

    def _visit(self, key: Key, environment: Tensor, spared: int | None) -> Visit:
        """Draws what is missing below a layer; its value there, (B, K), or None if a variable is spared."""
        group, fold = self.messages.layers[key]
        if isinstance(group, InputGroup):
            return None if spared is not None else self._draw(group, fold, environment)
        branches = group.branches if isinstance(group, SumGroup) else (group.branch,)
        snapshot = self.messages.snapshot
        weight = layer_weight(snapshot, group.weight, fold) if isinstance(group, SumGroup) else None
        amplitude = environment if weight is None else environment @ weight  # (B, columns)
        if len(branches) > 1:
            return (yield from self._alternatives(key, branches, environment, amplitude, spared))
        values = yield from self._factors(branches[0], fold, amplitude, spared)
        return None if values is None else _normalised(_combined(branches[0], weight, values))

    def _factors(self, branch: Branch, fold: int, amplitude: Tensor, spared: int | None) -> Factors:
        """Draws the factors of a product one after the other, that with the spared variable last."""
        keys = [(k, slots[fold]) for k, slots in zip(branch.widths, branch.reads, strict=True)]
        visit = self._hadamard if branch.kind == "hadamard" else self._kronecker
        return (yield from visit(keys, amplitude, spared))

    def _kronecker(self, keys: list[Key], amplitude: Tensor, spared: int | None) -> Factors:
        values = self.messages.observed(keys)
        amplitude = contraction.close_modes(amplitude, keys, values)
        left = [key for key in keys if key not in values]
        for key in self._in_order(left, spared):
            tensor = contraction.first_mode(amplitude, left, key)  # (B, K, columns of the others)
            left = [other for other in left if other != key]
            column = self._column(self.messages.times_roots(tensor, left), key)
            drawn = yield self._visit(key, column, self._spared_below(key, spared))
            if drawn is None:
                return None
            values[key] = drawn
            amplitude = (drawn.unsqueeze(1) @ tensor).squeeze(1)
        return [values[key] for key in keys]

    def _hadamard(self, keys: list[Key], amplitude: Tensor, spared: int | None) -> Factors:
        values = self.messages.observed(keys)
        for value in values.values():
            amplitude = amplitude * value
        left = self._in_order([key for key in keys if key not in values], spared)
        while left:
            key, *left = left
            tensor = amplitude.unsqueeze(2)
            tensor = tensor * self.messages.entrywise_root(left) if left else tensor
            drawn = yield self._visit(key, self._column(tensor, key), self._spared_below(key, spared))
            if drawn is None:
                return None
            values[key] = drawn
            amplitude = amplitude * drawn
        return [values[key] for key in keys]

    def _in_order(self, keys: list[Key], spared: int | None) -> list[Key]:
        return sorted(keys, key=lambda key: self._spared_below(key, spared) is not None)

    def _spared_below(self, key: Key, spared: int | None) -> int | None:
        return spared if spared in self.messages.scopes[key] else None

    def _column(self, tensor: Tensor, key: Key) -> Tensor:
        """One column of (B, K, J), drawn by its mass under the factor's own message: (B, K) of norm 1."""
        if tensor.shape[2] == 1:
            return _normalised(tensor.squeeze(2))
        seen = tensor if self.messages.form(key) is Form.IDENTITY else self.messages.root(key).mT @ tensor
        if kernel.usable(tensor, seen):
            return kernel.column(tensor, seen, self.uniform())
        column = draw_index(_masses(seen), self.uniform())
        return _normalised(tensor.gather(2, column[:, None, None].expand(-1, key[0], 1)).squeeze(2))

    # ------------------------------------------------------------------ sums of several inputs

    def _alternatives(
        self,
        key: Key,
        branches: tuple[Branch, ...],
        environment: Tensor,
        amplitude: Tensor,
        spared: int | None,
    ) -> Visit:
        """Draws all but one variable from one input, then that variable from all inputs together."""
        lacks = self.missing[0].tolist()
        hidden = [v for v in sorted(self.messages.scopes[key]) if lacks[v]]
        last = hidden[-1] if spared is None else spared
        if len(hidden) > 1:
            fold = self.messages.layers[key][1]
            parts = [amplitude[:, slice(*branch.columns)] for branch in branches]
            chosen = draw_index(self.messages.masses(branches, fold, parts), self.uniform())
            for i, (branch, part) in enumerate(zip(branches, parts, strict=True)):
                rows = torch.nonzero(chosen == i).flatten()
                if len(rows):
                    walk = self.take(rows)
                    yield from walk._factors(branch, fold, part[rows], last)
                    self.x[rows] = walk.x
        return None if spared is not None else self._draw_last(key, environment, last)

    def _draw_last(self, key: Key, environment: Tensor, variable: int) -> Tensor:
        """Draws the only variable below a layer that is still missing; the layer's value there."""
        snapshot, points = self.messages.snapshot, self.draws.points(variable)
        shown, uniform = self.x.clone(), self.uniform()
        shown[:, variable] = snapshot.circuit.domains[variable].anchor
        shown, again = torch.unique(shown, dim=0, return_inverse=True)  # so many nodes: no row twice
        open_units = sum(key[0] for key, scope in self.messages.scopes.items() if variable in scope)
        at_once = max(1, block_size(shown.device) // (len(points.x) * open_units))
        for first in range(0, len(shown), at_once):
            part = shown[first : first + at_once]
            only = torch.zeros_like(part, dtype=torch.bool)
            only[:, variable] = True
            found = SquareRoots(messages(snapshot, Evidence(part, only), points.nodes(variable)))
            values = found.open_vector(key, len(points.x))  # (b, K, Q)
            rows = torch.nonzero((again >= first) & (again < first + at_once)).flatten()
            for some in torch.split(rows, max(1, block_size(shown.device) // values[0].numel())):
                seen = environment[some].unsqueeze(1) @ values[again[some] - first]
                self.x[some, variable] = points.draw(_masses(seen), uniform[some])
        known = messages(snapshot, Evidence(self.x, torch.zeros_like(self.missing)))
        return SquareRoots(known).vector(key)

    # ------------------------------------------------------------------ input layers

    def _draw(self, group: InputGroup, fold: int, environment: Tensor) -> Tensor:
        """Draws a variable from |e·ℓ(x)|², where it is missing; the layer's value there."""
        if group.is_block:
            self._draw_amplitudes(group, fold, environment)
            x = self.x[:, list(group.blocks[fold])].unsqueeze(0)
            return _normalised(evaluate_group(self.messages.snapshot, group, (fold,), x).value[0].T)
        variable = group.variables[fold]
        points, table = self.draws.points(variable), self.draws.table(group, fold)
        if points.panels is None and kernel.usable(environment, table[:, :1]):
            hidden, column = self.missing[:, variable], self.x[:, variable]
            return kernel.state(environment @ table, table, self.uniform(), column, hidden)
        drawn = self.draws.draw(group, fold, environment, self.uniform())
        x = torch.where(self.missing[:, variable], drawn, self.x[:, variable])
        self.x[:, variable] = x
        if points.panels is None:
            return _normalised(table.index_select(1, x.long()).T)
        # without its scale: what is observed may be so far out that no float holds the functions
        return _normalised(evaluate_group(self.messages.snapshot, group, (fold,), x.unsqueeze(0)).value[0].T)


def _factor_units(branch: Branch, fold: int, units: Tensor) -> Iterator[tuple[Key, Tensor]]:
    """The factors of a product, and the unit of each that a unit of the product is made of."""
    below = units
    for width, slots in reversed(branch.factors):
        if branch.kind == "kronecker":
            yield (width, slots[fold]), below % width
            below = below // width
        else:
            yield (width, slots[fold]), units


def _combined(branch: Branch, weight: Tensor | None, values: list[Tensor]) -> Tensor:
    """The value of a layer from those of its factors: (B, K)."""
    factors = [value.T.unsqueeze(0) for value in values]
    if weight is not None:
        return contraction.weigh_vector(branch.kind, weight.unsqueeze(0), factors)[0].T
    combine = contraction.entrywise if branch.kind == "hadamard" else contraction.kronecker
    return combine(factors)[0].T


def _masses(value: Tensor) -> Tensor:
    """Σ_k |v_k|²: (B, K, J) → (B, J)."""
    return squares(value).sum(dim=1)


def _normalised(value: Tensor) -> Tensor:
    """Rows of norm 1, or zero: (B, K)."""
    if kernel.usable(value):
        return kernel.normalised(value)
    norm = torch.linalg.vector_norm(contraction.as_reals(value), dim=1, keepdim=True)
    return torch.where(norm > 0, value / norm, 0.0)
