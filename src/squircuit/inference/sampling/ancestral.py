"""One depth-first walk through the layers draws all variables.

At a layer ℓ stands an environment e, a row vector: what is to be drawn has the density |e·ℓ(x)|². At a sum of
a product, e·W is a tensor A with one mode a factor. The first factor, the others integrated, has the density
Σ_j |A_j·ℓ₁(x)|² over the columns j of A (each times a root L of the others' messages R = L Lᴴ; L = I in a
unitary circuit): a mixture, so *one* column is drawn by its mass and becomes the environment of the factor.
Once x₁ is drawn, ℓ₁(x₁) is contracted into A, the column is forgotten, and the next factor follows. So only
vectors go down, and a walk costs about as much as a likelihood, K·∏K_i a layer and row.

At a sum of several inputs i the density is |Σ_i A_i·ℓ_i(x)|². Its cross terms vanish as long as a variable
is integrated (U1, U4); so one variable v is spared, an input drawn by its mass, and all variables but v drawn
from that input alone. Then v is drawn given them from all inputs at once, with their interference.

The walk is a generator for each layer and a stack of them: chains are deeper than Python's recursion limit.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TypeAlias, final

import torch
from torch import Tensor

from squircuit.execution.plan import Branch, InputGroup, SumGroup, Use
from squircuit.inference.compile.schedule import Form, Key
from squircuit.inference.evidence import Evidence
from squircuit.inference.sampling.draws import Points, draw_index
from squircuit.inference.sampling.square_roots import SquareRoots
from squircuit.inference.upward import contraction
from squircuit.inference.upward.inputs import evaluate_group, plain, state_table
from squircuit.inference.upward.messages import messages

Request: TypeAlias = tuple["Walk", Key, Tensor, int | None]  #: walk, layer, environment, variable to spare
Visit: TypeAlias = Generator[Request, Tensor | None, Tensor | None]
Factors: TypeAlias = Generator[Request, Tensor | None, list[Tensor] | None]


@final
@dataclass(eq=False)
class Walk:
    """The samples of some rows, drawn layer by layer.

    Args:
        messages: of the evidence, and the roots of its matrices.
        x: (B, d) float64, with what is observed.
        missing: (B, d).
        generator: of the uniform numbers.
    """

    messages: SquareRoots
    x: Tensor
    missing: Tensor
    generator: torch.Generator | None
    points: dict[int, Points] = field(default_factory=dict)

    def run(self, root: Key, environment: Tensor) -> None:
        """Draws all that is missing, the environment of the root being given: (B, K)."""
        stack: list[Visit] = [self._visit(root, environment, None)]
        value: Tensor | None = None
        while stack:
            try:
                walk, key, environment, spared = stack[-1].send(value)
            except StopIteration as finished:
                stack.pop()
                value = finished.value
            else:
                stack.append(walk._visit(key, environment, spared))
                value = None

    def uniform(self) -> Tensor:
        """One number in [0, 1) a row: (B,)."""
        source = self.x.device if self.generator is None else self.generator.device
        drawn = torch.rand(len(self.x), generator=self.generator, dtype=torch.float64, device=source)
        return drawn.to(self.x.device)

    # ------------------------------------------------------------------ layers

    def _visit(self, key: Key, environment: Tensor, spared: int | None) -> Visit:
        """Draws what is missing below a layer; its value there, (B, K), or None if a variable is spared."""
        group, fold = self.messages.layers[key]
        if isinstance(group, InputGroup):
            return None if spared is not None else self._draw(group, fold, environment)
        branches = group.branches if isinstance(group, SumGroup) else (group.branch,)
        weight = self._weight(group.weight, fold) if isinstance(group, SumGroup) else None
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
            drawn = yield self, key, column, self._spared_below(key, spared)
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
            drawn = yield self, key, self._column(tensor, key), self._spared_below(key, spared)
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
        column = draw_index(_masses(seen), self.uniform())
        return _normalised(tensor.gather(2, column[:, None, None].expand(-1, key[0], 1)).squeeze(2))

    def _weight(self, use: Use, fold: int) -> Tensor:
        """One layer's weight: (K, columns)."""
        place = 0 if use.is_tied else fold if use.index is None else use.index[fold]
        return self.messages.snapshot.stacks[use.stack][place]

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
                    walk = self._take(rows)
                    yield from walk._factors(branch, fold, part[rows], last)
                    self.x[rows] = walk.x
        return None if spared is not None else self._draw_last(key, environment, last)

    def _take(self, rows: Tensor) -> Walk:
        """The walk of some of the rows; what it draws is not seen here."""
        part = self.messages.take(rows)
        return Walk(part, self.x[rows], self.missing[rows], self.generator, self.points)

    def _draw_last(self, key: Key, environment: Tensor, variable: int) -> Tensor:
        """Draws the only variable below a layer that is still missing; the layer's value there."""
        snapshot, points = self.messages.snapshot, self._points(variable)
        only = torch.zeros_like(self.missing)
        only[:, variable] = True
        found = SquareRoots(messages(snapshot, Evidence(self.x, only), points.nodes(variable)))
        values = found.open_vector(key, len(points.x))  # (B, K, Q)
        self.x[:, variable] = points.draw(_masses(environment.unsqueeze(1) @ values), self.uniform())
        known = messages(snapshot, Evidence(self.x, torch.zeros_like(only)))
        return SquareRoots(known).vector(key)

    # ------------------------------------------------------------------ leaves

    def _draw(self, group: InputGroup, fold: int, environment: Tensor) -> Tensor:
        """Draws a variable from |e·ℓ(x)|², where it is missing; the layer's value there."""
        variable = group.variables[fold]
        points, table = self._points(variable), self._table(group, fold)
        drawn = points.draw(_masses((environment @ table).unsqueeze(1)), self.uniform())
        x = torch.where(self.missing[:, variable], drawn, self.x[:, variable])
        self.x[:, variable] = x
        if points.panels is None:
            return _normalised(table.index_select(1, x.long()).T)
        return _normalised(self._values(group, fold, x).T)

    def _points(self, variable: int) -> Points:
        if variable not in self.points:
            self.points[variable] = Points.of(self.messages.snapshot, variable)
        return self.points[variable]

    def _table(self, group: InputGroup, fold: int) -> Tensor:
        """ℓ at the points of a variable: (K, Q)."""
        table = state_table(self.messages.snapshot, group, fold)
        return self._values(group, fold, self._points(group.variables[fold]).x) if table is None else table

    def _values(self, group: InputGroup, fold: int, x: Tensor) -> Tensor:
        found = evaluate_group(self.messages.snapshot, group, range(fold, fold + 1), x.unsqueeze(0))
        return plain(found)[0]


def _combined(branch: Branch, weight: Tensor | None, values: list[Tensor]) -> Tensor:
    """The value of a layer from those of its factors: (B, K)."""
    factors = [value.T.unsqueeze(0) for value in values]
    if weight is not None:
        return contraction.weigh_vector(branch.kind, weight.unsqueeze(0), factors)[0].T
    combine = contraction.entrywise if branch.kind == "hadamard" else contraction.kronecker
    return combine(factors)[0].T


def _masses(value: Tensor) -> Tensor:
    """Σ_k |v_k|²: (B, K, J) → (B, J)."""
    squares = value.real.square() + value.imag.square() if value.is_complex() else value.square()
    return squares.sum(dim=1)


def _normalised(value: Tensor) -> Tensor:
    """Rows of norm 1, or zero: (B, K)."""
    norm = torch.linalg.vector_norm(value, dim=1, keepdim=True)
    return torch.where(norm > 0, value / norm, 0.0)
