"""One depth-first walk through the layers draws all variables.

At a layer ℓ stands an environment e, a row vector: what is to be drawn has the density |e·ℓ(x)|². At a sum of
a product, e·W is a tensor A with one mode a factor. The first factor, the others integrated, has the density
Σ_j |A_j·ℓ₁(x)|² over the columns j of A (each times a root L of the others' messages R = L Lᴴ; L = I in a
unitary circuit): a mixture, so *one* column is drawn by its mass and becomes the environment of the factor.
Once x₁ is drawn, ℓ₁(x₁) is contracted into A, the column is forgotten, and the next factor follows. So only
vectors go down, and a walk costs about as much as a likelihood, K·∏K_i a layer and row.

The walk is a generator for each layer and a stack of them: chains are deeper than Python's recursion limit.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import cached_property
from typing import TypeAlias, final

import torch
from torch import Tensor

from squircuit.execution.plan import Branch, Group, InputGroup, SumGroup, Use
from squircuit.inference import contraction
from squircuit.inference.evidence import Evidence
from squircuit.inference.inversion import draw_index
from squircuit.inference.leaf_draws import Points
from squircuit.inference.leaves import evaluate_group, state_table
from squircuit.inference.messages import Messages
from squircuit.inference.schedule import Form
from squircuit.inference.snapshot import Snapshot

Key: TypeAlias = tuple[int, int]  #: width and place of a layer in the plan
Visit: TypeAlias = Generator[
    tuple[Key, Tensor], Tensor, Tensor
]  #: asks for factors, returns the layer's value


@final
class Walk:
    """n samples for each of m rows of evidence.

    Args:
        snapshot: of a circuit in which no sum has several inputs.
        messages: of the evidence.
        evidence: m rows.
        count: n.
        generator: of the uniform numbers.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        messages: Messages,
        evidence: Evidence,
        count: int,
        generator: torch.Generator | None,
    ) -> None:
        self.snapshot, self.messages, self.count, self.generator = snapshot, messages, count, generator
        self.shape = evidence.x.shape
        self.x = evidence.x.double().repeat(count, 1)  # (B, d), the samples of one kind side by side
        self.missing = evidence.missing.repeat(count, 1)
        self._points: dict[int, Points] = {}

    def samples(self) -> Tensor:
        """(n, m, d) float64."""
        number, unit = self._root_units()
        roots = self.snapshot.plan.roots
        if len(roots) == 1:
            self._run(roots[0], _one_hot(unit, roots[0][0], self.snapshot.dtype))
            return self.x.reshape(self.count, *self.shape)
        drawn = self.x
        for i, root in enumerate(roots):  # all rows walk from each root; each keeps the walk from its own
            self.x = drawn.clone()
            inside = torch.where(number == i, unit, 0)
            self._run(root, _one_hot(inside, root[0], self.snapshot.dtype))
            drawn = torch.where((number == i).unsqueeze(1), self.x, drawn)
        return drawn.reshape(self.count, *self.shape)

    # ------------------------------------------------------------------ walking

    def _run(self, root: Key, environment: Tensor) -> None:
        stack: list[Visit] = [self._visit(root, environment)]
        value: Tensor | None = None
        while stack:
            try:
                request = stack[-1].send(value)  # type: ignore[arg-type]  # None starts a generator
            except StopIteration as finished:
                stack.pop()
                value = finished.value
            else:
                stack.append(self._visit(*request))
                value = None

    def _visit(self, key: Key, environment: Tensor) -> Visit:
        """Draws what is missing below a layer; the layer's value there, (B, K), of norm 1."""
        group, fold = self._layers[key]
        if isinstance(group, InputGroup):
            return self._draw(group, fold, environment)
        (branch,) = group.branches if isinstance(group, SumGroup) else (group.branch,)
        weight = self._weight(group.weight, fold) if isinstance(group, SumGroup) else None
        amplitude = environment if weight is None else environment @ weight  # (B, columns)
        keys = [(k, slots[fold]) for k, slots in zip(branch.widths, branch.reads, strict=True)]
        visit = self._hadamard if branch.kind == "hadamard" else self._kronecker
        values = yield from visit(branch, keys, amplitude)
        return _normalised(_combined(branch, weight, values))

    def _kronecker(
        self, branch: Branch, keys: list[Key], amplitude: Tensor
    ) -> Generator[tuple[Key, Tensor], Tensor, list[Tensor]]:
        values: dict[Key, Tensor] = {}
        left = list(keys)
        for key in keys:
            if self._form(key) is Form.VECTOR:
                values[key] = self._observed(key)
                amplitude = _closed(amplitude, left, key, values[key])
                left.remove(key)
        while left:
            key, *others = left
            tensor = amplitude.reshape(len(amplitude), key[0], -1)  # (B, K, columns of the others)
            for_others = self._rooted(tensor, others)
            values[key] = yield key, self._column(for_others, key)
            amplitude = (values[key].unsqueeze(1) @ tensor).squeeze(1)
            left = others
        return [values[key] for key in keys]

    def _hadamard(
        self, branch: Branch, keys: list[Key], amplitude: Tensor
    ) -> Generator[tuple[Key, Tensor], Tensor, list[Tensor]]:
        values: dict[Key, Tensor] = {}
        left = [key for key in keys if self._form(key) is not Form.VECTOR]
        for key in keys:
            if key not in left:
                values[key] = self._observed(key)
                amplitude = amplitude * values[key]
        while left:
            key, *left = left
            tensor = (
                amplitude.unsqueeze(2) if not left else amplitude.unsqueeze(2) * self._entrywise_root(left)
            )
            values[key] = yield key, self._column(tensor, key)
            amplitude = amplitude * values[key]
        return [values[key] for key in keys]

    # ------------------------------------------------------------------ environments

    def _rooted(self, tensor: Tensor, others: list[Key]) -> Tensor:
        """The columns of A times the roots of the other factors' messages: (B, K, columns)."""
        roots = {i: self._root(key) for i, key in enumerate(others) if self._form(key) is Form.MATRIX}
        if not roots:
            return tensor
        matrices = {i: self._repeated(root).unsqueeze(0) for i, root in roots.items()}
        return contraction.multiply_modes(tensor.unsqueeze(0), [k for k, _ in others], matrices).squeeze(0)

    def _column(self, tensor: Tensor, key: Key) -> Tensor:
        """One column of (B, K, J), drawn by its mass under the factor's own message: (B, K) of norm 1."""
        if tensor.shape[2] == 1:
            return _normalised(tensor.squeeze(2))
        seen = tensor if self._form(key) is Form.IDENTITY else self._repeated(self._root(key)).mT @ tensor
        column = draw_index(_masses(seen), self._uniform())
        return _normalised(tensor.gather(2, column[:, None, None].expand(-1, key[0], 1)).squeeze(2))

    def _entrywise_root(self, keys: list[Key]) -> Tensor:
        """L with L Lᴴ = R₁ ⊙ … ⊙ R_N, (B or 1, K, K); an identity among them leaves the diagonals."""
        matrices = [self._matrix(key) for key in keys if self._form(key) is Form.MATRIX]
        units = keys[0][0]
        identity = torch.eye(units, dtype=self.snapshot.dtype, device=self.snapshot.device)
        if not matrices:
            return identity.unsqueeze(0)
        product = contraction.entrywise(matrices)
        if len(matrices) < len(keys):
            return self._repeated(
                identity * product.diagonal(dim1=1, dim2=2).real.clamp_min(0).sqrt().unsqueeze(1)
            )
        return self._repeated(_square_root(product))

    def _root(self, key: Key) -> Tensor:
        """L with R = L Lᴴ of a layer's message, for each row of evidence: (m or 1, K, K)."""
        return _square_root(self._matrix(key))

    def _matrix(self, key: Key) -> Tensor:
        step, row = self.messages.schedule.places[key]
        return self.messages.found[step].value[row]

    def _repeated(self, value: Tensor) -> Tensor:
        """From rows of evidence to rows of samples."""
        if len(value) == 1:
            return value.expand(len(self.x), *value.shape[1:])
        return value.repeat(self.count, *(1 for _ in value.shape[1:]))

    # ------------------------------------------------------------------ leaves and roots

    def _draw(self, group: InputGroup, fold: int, environment: Tensor) -> Tensor:
        """Draws a variable from |e·ℓ(x)|², where it is missing; the layer's value there."""
        variable = group.variables[fold]
        points, table = self._table(group, fold)
        density = _masses((environment @ table).unsqueeze(1))
        drawn = points.draw(density, self._uniform())
        x = torch.where(self.missing[:, variable], drawn, self.x[:, variable])
        self.x[:, variable] = x
        if points.panels is None:
            return _normalised(table.index_select(1, x.long()).T)
        return _normalised(evaluate_group(self.snapshot, group, range(fold, fold + 1), x.unsqueeze(0))[0].T)

    def _table(self, group: InputGroup, fold: int) -> tuple[Points, Tensor]:
        """The points of a variable, and ℓ there: (K, Q)."""
        variable = group.variables[fold]
        if variable not in self._points:
            self._points[variable] = Points.of(self.snapshot, variable)
        points = self._points[variable]
        table = state_table(self.snapshot, group, fold)
        if table is not None:
            return points, table
        return points, evaluate_group(self.snapshot, group, range(fold, fold + 1), points.x.unsqueeze(0))[0]

    def _root_units(self) -> tuple[Tensor, Tensor]:
        """For each sample the root layer and the unit in it, drawn by π_r R_rr: (B,) twice."""
        diagonals, scales = self.messages.diagonals()
        largest = torch.stack(scales).amax(dim=0)
        masses = [d * (s - largest).exp().unsqueeze(1) for d, s in zip(diagonals, scales, strict=True)]
        weighted = torch.cat(masses, dim=1) * self.snapshot.mixture
        chosen = draw_index(self._repeated(weighted.clamp_min(0)), self._uniform())
        ends = torch.tensor([d.shape[1] for d in diagonals], device=chosen.device).cumsum(dim=0)
        number = torch.searchsorted(ends, chosen, right=True)
        return number, chosen - torch.where(number > 0, ends[number - 1], 0)

    @cached_property
    def _layers(self) -> dict[Key, tuple[Group, int]]:
        return {
            (group.units, place): (group, fold)
            for group in self.snapshot.plan.groups
            for fold, place in enumerate(group.writes)
        }

    def _weight(self, use: Use, fold: int) -> Tensor:
        """One layer's weight: (K, columns)."""
        place = 0 if use.is_tied else fold if use.index is None else use.index[fold]
        return self.snapshot.stacks[use.stack][place]

    def _form(self, key: Key) -> Form:
        return self.messages.schedule.forms[key]

    def _observed(self, key: Key) -> Tensor:
        """The value of a layer all of whose variables are observed: (B, K)."""
        step, row = self.messages.schedule.places[key]
        return self._repeated(self.messages.found[step].value[row].T)

    def _uniform(self) -> Tensor:
        source = self.x.device if self.generator is None else self.generator.device
        drawn = torch.rand(len(self.x), generator=self.generator, dtype=torch.float64, device=source)
        return drawn.to(self.x.device)


def _closed(amplitude: Tensor, left: list[Key], key: Key, value: Tensor) -> Tensor:
    """One mode of A contracted with a vector: (B, … K …) → (B, … …)."""
    before = 1
    for other in left[: left.index(key)]:
        before *= other[0]
    shaped = amplitude.reshape(len(amplitude), before, key[0], -1)
    return (shaped * value[:, None, :, None]).sum(dim=2).flatten(1)


def _combined(branch: Branch, weight: Tensor | None, values: list[Tensor]) -> Tensor:
    """The value of a layer from those of its factors: (B, K)."""
    factors = [value.T.unsqueeze(0) for value in values]
    if weight is not None:
        return contraction.weigh_vector(branch.kind, weight.unsqueeze(0), factors)[0].T
    combine = contraction.entrywise if branch.kind == "hadamard" else contraction.kronecker
    return combine(factors)[0].T


def _square_root(matrix: Tensor) -> Tensor:
    """L with R = L Lᴴ for positive semi-definite matrices that may be singular: (…, K, K)."""
    values, vectors = torch.linalg.eigh(matrix)
    root: Tensor = vectors * values.clamp_min(0).sqrt().unsqueeze(-2)
    return root


def _masses(value: Tensor) -> Tensor:
    """Σ_k |v_k|²: (B, K, J) → (B, J)."""
    squares = value.real.square() + value.imag.square() if value.is_complex() else value.square()
    return squares.sum(dim=1)


def _normalised(value: Tensor) -> Tensor:
    """Rows of norm 1, or zero: (B, K)."""
    norm = torch.linalg.vector_norm(value, dim=1, keepdim=True)
    return torch.where(norm > 0, value / norm, 0.0)


def _one_hot(index: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    return torch.nn.functional.one_hot(index, size).to(dtype)
