"""Messages of rows that lack different variables, each row with vectors and matrices where it needs them.

At a layer the rows that show all of its variables have a vector, the others a matrix
(:mod:`squircuit.inference.compile.schedule`). Where every row has a mask of its own, neither is a layer's
alone: so vectors are computed of all rows, with some valid value in place of what is missing, and matrices of
those rows that lack something below the layer, the rows alike in which factors they lack something of
together. A binary sum has three such patterns, however many masks there are; and where few cells are missing
most rows have vectors at most layers. Each row is computed with about as many multiplications as alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from squircuit.execution.plan import Branch, InputGroup, Key, SumGroup
from squircuit.inference.compile.compiled_circuit import Snapshot
from squircuit.inference.compile.schedule import Form
from squircuit.inference.upward import contraction
from squircuit.inference.upward.contraction import weigh_beside_identity, weigh_pair
from squircuit.inference.upward.inputs import CANCELLED, InputMessages
from squircuit.inference.upward.messages import Messages
from squircuit.inference.upward.scaled_message import rescaled_units, squared

Booleans: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class _Matrices:
    """∫ ℓ ℓᴴ of a layer in the rows that lack something below it.

    Args:
        lacking: of all rows, whether their matrix is in the value: (B,).
        whole: rows that lack all below a layer whose matrix is then the identity, (B,).
        value: (m, K, K) of those that lack something; (1, K, K) if it is the same of all; None: of none.
        scale: (m,) or (1,), or None where it is 0.
        place: the place of every row in the value, (B,); None where it is the same of all.
    """

    lacking: Booleans
    whole: Booleans
    value: Tensor | None
    scale: Tensor | None = None
    place: NDArray[np.int64] | None = None


@final
class MixedMessages:
    """The messages of a circuit that is a tree of sums, for rows with any masks.

    Args:
        inputs: the input layers at these rows.
        watched: variables whose integrals are kept, to be differentiated by, see :attr:`leaves`.

    Attributes:
        leaves: of every input layer with rows that lack its variable, these rows, (m,), and ∫ ℓ ℓᴴ in each of
            them, (m, K, K), if the variable is watched: the derivatives of log p in them tell how it is
            distributed.
        doubtful: rows in which terms of a matrix have cancelled so far that few digits are left, (B,).
    """

    def __init__(self, inputs: InputMessages, watched: frozenset[int] = frozenset()) -> None:
        self.snapshot: Snapshot = inputs.snapshot
        self._inputs, self._watched = inputs, watched
        self._missing: Booleans = inputs.missing.cpu().numpy()
        shown = self.snapshot.schedules((Form.VECTOR,) * self._missing.shape[1])
        self._vectors = Messages(inputs, shown)
        self.leaves: dict[tuple[InputGroup, int], tuple[Tensor, Tensor]] = {}
        self.doubtful = torch.zeros(len(inputs.x), dtype=torch.bool, device=inputs.x.device)
        self._matrices: dict[Key, _Matrices] = {}
        self._turned: dict[int, tuple[Sequence[Tensor], Sequence[Tensor]]] = {}
        self._squares: dict[Key, tuple[Tensor, Tensor, Tensor]] = {}
        for group in self.snapshot.plan.groups:
            if isinstance(group, InputGroup):
                self._input(group)
            else:
                assert isinstance(group, SumGroup)
                self._sum(group)

    def root_squares(self) -> list[tuple[Tensor, Tensor]]:
        """∫ |c_r|² of the units of every root layer, (B, R), and their log-scales, (B, R)."""
        lacking = self.snapshot.log_scales or (0.0,) * len(self.snapshot.plan.roots)
        found = [self._root(key) for key in self.snapshot.plan.roots]
        return [(value, scale + 2 * more) for (value, scale), more in zip(found, lacking, strict=True)]

    def _root(self, key: Key) -> tuple[Tensor, Tensor]:
        value, scale = (part.T for part in self._shown_squares(key))
        if key not in self._matrices:
            return value, scale
        whole = torch.from_numpy(self._matrices[key].whole).to(value.device).unsqueeze(1)
        value, scale = torch.where(whole, 1.0, value), torch.where(whole, 0.0, scale)
        if key not in self._squares and self._matrices[key].value is None:
            return value, scale
        rows, hidden, hidden_scale = self._squares.get(key) or self._squares_of_matrices(key)
        return value.index_copy(0, rows, hidden.T.contiguous()), scale.index_copy(0, rows, hidden_scale.T)

    def _squares_of_matrices(self, key: Key) -> tuple[Tensor, Tensor, Tensor]:
        """∫ |ℓ_k|² of a root that another layer reads, which has matrices: rows, and (K, m) twice."""
        matrices = self._matrices[key]
        assert matrices.value is not None
        rows = np.flatnonzero(matrices.lacking)
        squares = matrices.value.diagonal(dim1=1, dim2=2).real
        scale = squares.new_zeros(len(squares)) if matrices.scale is None else matrices.scale
        places = self._index(rows * 0 if matrices.place is None else matrices.place[rows])
        found = rescaled_units(squares.index_select(0, places).T, scale.index_select(0, places).unsqueeze(0))
        return self._index(rows), found.value, found.scale

    def _shown_squares(self, key: Key) -> tuple[Tensor, Tensor]:
        """|ℓ_k|² of rows that lack nothing; of others something of no meaning: (K, B) twice."""
        step, row = self._vectors.schedule.places[key]
        value, scale = self._vectors.found[step]
        squares = squared(type(self._vectors.found[step])(value[row : row + 1], scale[row : row + 1]))
        return squares.value[0], squares.scale[0]

    # ------------------------------------------------------------------ layers

    def _input(self, group: InputGroup) -> None:
        grams = None if self._is_identity else self._inputs.grams(group, range(group.folds)).squeeze(1)
        sizes = None if grams is None else _sizes(grams)
        for fold, variable in enumerate(group.variables):
            lacking = self._missing[:, variable]
            if not lacking.any():
                continue
            key = group.units, group.writes[fold]
            if variable not in self._watched:
                none = np.zeros_like(lacking)
                if grams is None:
                    self._matrices[key] = _Matrices(none, lacking, None)
                else:
                    assert sizes is not None
                    gram, size = grams[fold : fold + 1], sizes[fold : fold + 1]
                    self._matrices[key] = _Matrices(lacking, none, gram / size[:, None, None], size.log())
                continue
            rows = np.flatnonzero(lacking)
            like = self.snapshot.stacks[0].new_zeros(0, dtype=self.snapshot.dtype)
            gram = torch.eye(group.units).to(like) if grams is None else grams[fold].detach()
            leaf = gram.expand(len(rows), -1, -1).clone().requires_grad_()
            self.leaves[group, fold] = self._index(rows), leaf
            none, places = np.zeros_like(lacking), _places(rows, len(lacking))
            scaled, scale = leaf, None
            if sizes is not None:
                scaled, scale = leaf / sizes[fold], sizes[fold].log().expand(len(rows))
            self._matrices[key] = _Matrices(lacking, none, scaled, scale, places)

    @property
    def _is_identity(self) -> bool:
        return self.snapshot.is_normalised

    def _sum(self, group: SumGroup) -> None:
        weights = self.snapshot.network.weight(self.snapshot.stacks, group.weight)
        each = torch.split(weights, 1) if len(weights) > 1 else (weights,) * group.folds
        with torch.no_grad():  # the largest |W_k|² of each layer, see `_doubt`
            sizes = torch.linalg.vector_norm(weights, dim=2).square().amax(dim=1).expand(group.folds)
        for fold, size in enumerate(sizes.unbind()):
            self._layer(group, fold, each[fold], size)

    def _layer(self, group: SumGroup, fold: int, weight: Tensor, size: Tensor) -> None:
        """A layer's matrices, or squares where these are enough."""
        key, branch = (group.units, group.writes[fold]), group.branches[0]
        keys = [(k, slots[fold]) for k, slots in branch.factors]
        below = [self._matrices.get(k) for k in keys]
        if all(matrices is None for matrices in below):
            return
        whole = np.all([np.zeros(len(self._missing), bool) if m is None else m.whole for m in below], axis=0)
        is_squared = key in self.snapshot.plan.squares_suffice
        parts, scales, chosen = [], [], []
        for rows, pattern in _patterns(below, len(self._missing)):
            index = self._index(rows)
            vectors, matrices, scale = self._factors(keys, pattern, rows, index)
            value = _weighed(branch, weight, vectors, matrices, is_squared)
            parts.append(value.expand(-1, len(rows)) if is_squared else value.expand(len(rows), -1, -1))
            scales.append(scale)
            chosen.append(rows)
        lacking = np.zeros(len(self._missing), dtype=bool)
        if not chosen or is_squared:
            self._matrices[key] = _Matrices(lacking, whole, None)
        if not chosen:
            return
        rows, value, scale = np.concatenate(chosen), torch.cat(parts, dim=int(is_squared)), torch.cat(scales)
        if is_squared:
            squares = rescaled_units(value, scale.unsqueeze(0))
            self._doubt(rows, size, value.detach().amax(dim=0))
            self._squares[key] = self._index(rows), squares.value, squares.scale
            return
        # the largest entry of a square is on its diagonal
        largest = value.detach().diagonal(dim1=1, dim2=2).real.amax(dim=1)
        divisor = torch.where(largest > 0, largest, 1.0)
        self._doubt(rows, size, largest)
        lacking[rows] = True
        value, scale = value * (1 / divisor)[:, None, None], scale + divisor.log()
        self._matrices[key] = _Matrices(lacking, whole, value, scale, _places(rows, len(lacking)))

    def _factors(
        self, keys: list[Key], pattern: tuple[int, ...], rows: NDArray[np.int64], index: Tensor
    ) -> tuple[dict[int, Tensor], dict[int, Tensor], Tensor]:
        """Vectors, matrices and the log-scale of all together in rows with the same pattern."""
        vectors: dict[int, Tensor] = {}
        matrices: dict[int, Tensor] = {}
        scale = self.snapshot.root_shares.new_zeros(len(rows))
        for i, (key, shows) in enumerate(zip(keys, pattern, strict=True)):
            if shows == SHOWN:
                value, scales = self._vector(key)
                vectors[i] = value.index_select(0, index)
                scale = scale + 2 * scales.index_select(0, index)
            elif shows == HIDDEN:
                hidden = self._matrices[key]
                assert hidden.value is not None
                matrices[i], more = hidden.value, hidden.scale
                if hidden.place is not None:
                    places = self._index(hidden.place[rows])
                    matrices[i] = hidden.value.index_select(0, places)
                    more = None if more is None else more.index_select(0, places)
                scale = scale if more is None else scale + more
        return vectors, matrices, scale

    def _vector(self, key: Key) -> tuple[Tensor, Tensor]:
        """The vectors of a layer, (B, K), and their log-scales, (B,)."""
        step, row = self._vectors.schedule.places[key]
        if step not in self._turned:
            value, scale = self._vectors.found[step]
            self._turned[step] = value.mT.contiguous().unbind(), scale.unbind()
        values, scales = self._turned[step]
        return values[row], scales[row]

    @torch.no_grad()
    def _doubt(self, rows: NDArray[np.int64], size: Tensor, largest: Tensor) -> None:
        """Note the rows where W R Wᴴ is much smaller than W and R are: see :class:`Messages`."""
        limit = CANCELLED[self.snapshot.root_shares.dtype] * size
        self.doubtful[self._index(rows)] |= largest < limit

    def _index(self, rows: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(rows).to(self._inputs.x.device)


def _sizes(grams: Tensor) -> Tensor:
    """The largest entry of each matrix, or 1 where it is zero: (F, K, K) → (F,)."""
    largest = grams.detach().diagonal(dim1=1, dim2=2).real.amax(dim=1)
    return torch.where(largest > 0, largest, 1.0)


SHOWN, HIDDEN, WHOLE = 0, 1, 2
"""What a row shows of a factor: all, some (or none, where its matrix is needed), nothing: the identity."""


def _patterns(
    below: list[_Matrices | None], count: int
) -> Iterator[tuple[NDArray[np.int64], tuple[int, ...]]]:
    """Rows that are alike in what they show of each factor, but those that show all or nothing of all."""
    code = np.zeros(count, dtype=np.int64)
    for i, matrices in enumerate(below):
        if matrices is not None:
            code += 3**i * (HIDDEN * matrices.lacking + WHOLE * matrices.whole)
    everything = sum(WHOLE * 3**i for i in range(len(below)))
    for number in np.unique(code).tolist() if len(below) > 2 else np.flatnonzero(np.bincount(code)).tolist():
        if number not in (0, everything):
            yield np.flatnonzero(code == number), tuple(number // 3**i % 3 for i in range(len(below)))


def _places(rows: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The place of each of all rows among some of them."""
    places = np.zeros(count, dtype=np.int64)
    places[rows] = np.arange(len(rows))
    return places


def _weighed(
    branch: Branch,
    weight: Tensor,
    vectors: dict[int, Tensor],
    matrices: dict[int, Tensor],
    is_squared: bool,
) -> Tensor:
    """W R Wᴴ of a layer: (m or 1, K, K), or its diagonal, (K, m or 1)."""
    if branch.kind == "kronecker" and len(branch.widths) == 2 and vectors.keys() | matrices.keys() == {0, 1}:
        factors = [vectors[i] if i in vectors else matrices[i] for i in (0, 1)]
        rows = max(len(factor) for factor in factors)
        factors = [f.expand(rows, *f.shape[1:]) for f in factors]
        return _closed(weigh_pair(weight[0], *factors), is_squared)
    if branch.kind == "kronecker" and len(branch.widths) == 2 and len(vectors) == 1:
        ((place, vector),) = vectors.items()
        return _closed(weigh_beside_identity(weight[0], vector, place), is_squared)
    close = contraction.diagonal if is_squared else contraction.sandwich
    known = {i: vector.T.unsqueeze(0) for i, vector in vectors.items()}
    hidden = {i: matrix.unsqueeze(0) for i, matrix in matrices.items()}
    if branch.kind == "kronecker":
        return contraction.weigh_matrices(weight, branch.widths, known, hidden, close)[0]
    has_identity = len(vectors) + len(matrices) < len(branch.widths)
    return contraction.weigh_entrywise(
        weight, list(known.values()), list(hidden.values()), has_identity, close
    )[0]


def _closed(value: Tensor, is_squared: bool) -> Tensor:
    return value.diagonal(dim1=1, dim2=2).real.T if is_squared else value
