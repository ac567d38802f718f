"""Functions of blocks of variables at what rows show of them, rows of one pattern together.

Where there are many patterns, rows of blocks of Gaussians that show as many coordinates are taken together.
Of a root A of a covariance, the rows of those coordinates that a row shows, then the others, have a
triangular factor L = [[L₁, 0], [L₂, L₃]]: z = L₁⁻¹ (t − μ) tells the density of what is shown, and the others
given it are Gaussian with means μ + L₂ z and the factor L₃. See :mod:`squircuit.families.gaussian_algebra`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from squircuit.execution.plan import InputGroup
from squircuit.families import MultivariateGaussian, OrthonormalisedBlock
from squircuit.families.block import places
from squircuit.families.gaussian_algebra import FARTHEST, triangular
from squircuit.inference.compile.compiled_circuit import Snapshot
from squircuit.inference.evidence import Evidence, distinct_masks
from squircuit.inference.upward.gaussian_terms import (
    Function,
    expected_product,
    gaussians_of,
    terms_of_pairs,
    terms_of_units,
    transform_of,
)
from squircuit.inference.upward.input_layers import block_family, layer_values

FEW = 4  #: rows a mask; where there are more, one decomposition a mask is less work than one a row
CHUNK = 2**20  #: numbers in the factors of rows computed together


class GaussianRows(NamedTuple):
    """Some rows that lack M coordinates each."""

    rows: Tensor  #: their numbers, (b,)
    log_squares: Tensor  #: log N(t(x_O)) ∏ t′ of what is shown under each of the Gaussians, (b, n)
    left: Tensor  #: the coordinates that are not shown, (b, M)
    means: Tensor  #: of these given what is shown, in t(x): (b, n, M)
    widths: Tensor  #: their standard deviations, (b, n, M)


def are_many(missing: Tensor) -> bool:
    """There are so many masks (B, D) that rows are best computed by themselves."""
    return len(missing) > FEW and FEW * len(torch.unique(missing, dim=0)) > len(missing)


def gaussian_rows(
    family: MultivariateGaussian, x: Tensor, missing: Tensor, values: Mapping[str, Tensor]
) -> Iterator[GaussianRows]:
    """All rows, those that lack as many coordinates together.

    Args:
        family: of the block.
        x: (B, D) float64, with any valid number where a coordinate is missing.
        missing: (B, D).
        values: of the learnable parameters.
    """
    loc, roots = family.means_and_roots(values)  # (n, D), (n or 1, D, Q)
    t, log_slopes = family.transform(x)
    order = missing.int().argsort(dim=1, stable=True)  # what is shown first
    counts = missing.sum(dim=1)
    size = max(1, CHUNK // (len(loc) * roots.shape[1] * roots.shape[2]))
    for count in torch.unique(counts).tolist():
        for rows in torch.split(torch.nonzero(counts == count).flatten(), size):
            shown, left = order[rows, : x.shape[1] - count], order[rows, x.shape[1] - count :]
            slopes = log_slopes[rows].gather(1, shown).sum(dim=1)
            yield _of_pattern(rows, t[rows].gather(1, shown), slopes, shown, left, loc, roots)


def _of_pattern(
    rows: Tensor, t: Tensor, slopes: Tensor, shown: Tensor, left: Tensor, loc: Tensor, roots: Tensor
) -> GaussianRows:
    """Rows that show as many coordinates, by their t(x), (b, O), and the sum of their log t′, (b,)."""
    known = shown.shape[1]
    factor = triangular(roots[:, torch.cat([shown, left], dim=1)])  # (n or 1, b, D, D)
    factor = factor.expand(len(loc), -1, -1, -1)
    apart = t.clamp(-FARTHEST, FARTHEST) - loc[:, shown]  # (n, b, O)
    z = torch.linalg.solve_triangular(factor[..., :known, :known], apart.unsqueeze(3), upper=False)
    distances = z.square().sum(dim=(2, 3)).clamp(max=FARTHEST**2)
    logs = factor.diagonal(dim1=2, dim2=3)[..., :known].log().sum(dim=2)
    log_squares = slopes - logs - known / 2 * math.log(2 * math.pi) - distances / 2  # (n, b)
    means = loc[:, left] + (factor[..., known:, :known] @ z).squeeze(3)
    widths = torch.linalg.vector_norm(factor[..., known:, known:], dim=3)
    return GaussianRows(rows, log_squares.T, left, means.transpose(0, 1), widths.transpose(0, 1))


@final
@dataclass(frozen=True, eq=False)
class BlockInputs:
    """The functions f of blocks for some rows, integrated over what each row lacks.

    Args:
        snapshot: of the model.
        x, missing: rows, (B, d) each.
        functions: variable of a block → a function whose average is taken where the variable is missing.
    """

    snapshot: Snapshot
    x: Tensor
    missing: Tensor
    functions: Mapping[int, Function]
    _rows: dict[tuple[InputGroup, int], list[GaussianRows]] = field(default_factory=dict)

    def log_squares(self, group: InputGroup, fold: int) -> Tensor:
        """log ∫ |f_k|² over what is missing: (B, n) float64."""
        family, values = block_family(group), layer_values(self.snapshot, group, fold)
        if self.has_many_masks(group, fold):
            return self._in_order((part.rows, part.log_squares) for part in self.gaussian_rows(group, fold))
        return self._in_order(
            (rows, family.log_squares(x, observed, values))
            for observed, rows, x in self.patterns(group.blocks[fold])
        )

    def has_many_masks(self, group: InputGroup, fold: int) -> bool:
        """Rows are best computed by :meth:`gaussian_rows`, by themselves."""
        if not isinstance(group.family, MultivariateGaussian):
            return False
        return are_many(self.missing[:, list(group.blocks[fold])])

    def gaussian_rows(self, group: InputGroup, fold: int) -> list[GaussianRows]:
        """A block of Gaussians in all rows, with what each row lacks given what it shows."""
        if (group, fold) not in self._rows:
            columns = list(group.blocks[fold])
            values = layer_values(self.snapshot, group, fold)
            x, missing = self.x[:, columns].double(), self.missing[:, columns]
            self._rows[group, fold] = list(gaussian_rows(gaussians_of(group), x, missing, values))
        return self._rows[group, fold]

    def pair_integrals(self, group: InputGroup, fold: int, first: bool = False) -> tuple[Tensor, Tensor]:
        """∫ f_j f_k* over what is missing, times functions where there are some: R e^s.

        Args:
            group, fold: the layer.
            first: of the first row alone, where all rows lack the whole block.

        Returns:
            R, (B, n, n), and s, (B,), float64.
        """
        found = [
            (rows, *self._pairs(group, fold, x, observed))
            for observed, rows, x in self.patterns(group.blocks[fold], slice(0, 1) if first else slice(None))
        ]
        pairs = self._in_order((rows, part) for rows, part, _ in found)
        return pairs, self._in_order((rows, scale) for rows, _, scale in found)

    def averages(self, group: InputGroup, fold: int) -> Tensor:
        """E[∏ f_v(x_v)] of the functions of what is missing, under every |f_k|²: (B, n) float64."""
        base, values = gaussians_of(group), layer_values(self.snapshot, group, fold)

        def of_some(observed: Sequence[bool], x: Tensor) -> Tensor:
            asked = self._asked(group, fold, observed)
            if not asked[0]:
                return torch.ones(len(x), base.size, dtype=torch.float64, device=x.device)
            return expected_product(terms_of_units(base, x, observed, values), *asked)

        return self._in_order(
            (rows, of_some(observed, x)) for observed, rows, x in self.patterns(group.blocks[fold])
        )

    def patterns(
        self, variables: tuple[int, ...], part: slice = slice(None)
    ) -> Iterator[tuple[tuple[bool, ...], Tensor, Tensor]]:
        """What is observed of a block in some rows, these rows, and their columns, (b, D)."""
        columns = Evidence(self.x[part, list(variables)], self.missing[part, list(variables)])
        for mask, rows in distinct_masks(columns):
            yield tuple(not lacks for lacks in mask.tolist()), rows, columns.x[rows].double()

    def _pairs(
        self, group: InputGroup, fold: int, x: Tensor, observed: Sequence[bool]
    ) -> tuple[Tensor, Tensor]:
        """∫ f_j f_k* over what is missing, for rows of one pattern: R (b, n, n) and s (b,)."""
        values = layer_values(self.snapshot, group, fold)
        if not self.functions or not self._asked(group, fold, observed)[0]:
            return block_family(group).pair_integrals(x, observed, values)
        base, asked = gaussians_of(group), self._asked(group, fold, observed)
        pairs, scale = base.pair_integrals(x, observed, values)
        averages = expected_product(terms_of_pairs(base, x, observed, values), *asked)
        pairs = pairs * averages.reshape(pairs.shape)
        if isinstance(group.family, OrthonormalisedBlock):
            mixing = group.family.mixing(pairs.device)
            pairs = mixing.mT @ pairs @ mixing
        return pairs, scale

    def _asked(
        self, group: InputGroup, fold: int, observed: Sequence[bool]
    ) -> tuple[list[int], list[Any], list[Function]]:
        """The missing coordinates with a function: place among those missing, transform, function."""
        base, variables = gaussians_of(group), group.blocks[fold]
        _, left = places(observed)
        asked = [(i, v) for i, v in enumerate(left) if variables[v] in self.functions]
        transforms = [transform_of(base, v) for _, v in asked]
        return [i for i, _ in asked], transforms, [self.functions[variables[v]] for _, v in asked]

    def _in_order(self, found: Iterator[tuple[Tensor, Tensor]]) -> Tensor:
        """Results of some rows each, in the order of the rows."""
        rows, parts = zip(*found, strict=True)
        return torch.cat(parts)[torch.cat(rows).argsort()]
