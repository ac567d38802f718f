"""Mixtures whose components are products: one Gaussian block and categorical columns."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self, final

import torch
from torch import Tensor

from squircuit.data import Rows
from squircuit.errors import DataError
from squircuit.learning.gaussians import Gaussians, Given
from squircuit.learning.patterns import Group, Part, grouped

if TYPE_CHECKING:
    from squircuit.learning.em import EMStep


WIDE = 8
"""States a column."""


@final
@dataclass(frozen=True)
class Layout:
    """Which columns of a table are numbers and which categories.

    Args:
        numbers: columns of the Gaussian block.
        categories: column: its number of states.
    """

    numbers: tuple[int, ...]
    categories: Mapping[int, int]

    @classmethod
    def of(cls, width: int, categories: Mapping[int, int]) -> Layout:
        """All columns that are not categories are numbers."""
        wrong = [column for column in categories if not 0 <= column < width]
        if wrong:
            raise DataError(
                "no such column",
                where="categories",
                value=wrong[0],
                fix=f"pass columns from 0 to {width - 1}",
            )
        return cls(tuple(v for v in range(width) if v not in categories), dict(sorted(categories.items())))

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.numbers) + len(self.categories)

    @property
    def states(self) -> int:
        """The number of states of all categorical columns together."""
        return sum(self.categories.values())

    def split(self, rows: Rows[Any] | Tensor, device: torch.device) -> tuple[Tensor, Tensor]:
        """Numbers (n, D), NaN where they are missing, and states (n, C), −1 where they are missing."""
        table = rows if isinstance(rows, Rows) else Rows(rows)
        cells = table.to(device, torch.double)
        if cells.x.ndim != 2 or cells.x.shape[1] != self.width:
            shape = tuple(cells.x.shape)
            raise DataError(f"rows have shape {shape}. Fix: pass a table (n, {self.width}), a row a sample.")
        x = cells.x.masked_fill(cells.missing, torch.nan)
        infinite = x.isinf().nonzero()
        if len(infinite):
            row, column = infinite[0].tolist()
            value = x[row, column].item()
            raise DataError(f"row {row}, column {column} is {value}. Fix: NaN in its place means missing.")
        columns = [self._states_of(x[:, column], column) for column in self.categories]
        none = torch.zeros(len(x), 0, dtype=torch.long, device=device)
        return x[:, list(self.numbers)], torch.stack(columns, 1) if columns else none

    def _states_of(self, cells: Tensor, column: int) -> Tensor:
        size = self.categories[column]
        wrong = (~cells.isnan() & ((cells < 0) | (cells >= size) | (cells != cells.round()))).nonzero()
        if len(wrong):
            row, value = int(wrong[0]), cells[wrong[0]].item()
            raise DataError(
                f"row {row}, column {column} is {value}, which is none of its {size} states. "
                f"Fix: pass whole numbers from 0 to {size - 1}."
            )
        return cells.nan_to_num(nan=-1.0).long()

    def indicators(self, states: Tensor) -> Tensor:
        """(..., C) states → (..., Σ states) of 0 and 1, all 0 where a state is missing."""
        zeros = torch.zeros(*states.shape[:-1], self.states + 1, dtype=torch.double, device=states.device)
        return zeros.scatter_(-1, self._places(states), 1.0)[..., :-1]

    def _places(self, states: Tensor) -> Tensor:
        """The number of each state among those of all columns, (..., C); of missing ones their count."""
        offsets = torch.tensor([0, *self.categories.values()], device=states.device).cumsum(0)[:-1]
        return torch.where(states >= 0, states + offsets, self.states)

    @property
    def is_wide(self) -> bool:
        """So many states a column that looking numbers up is faster than products with 0 and 1."""
        return self.states > WIDE * len(self.categories)

    def looked_up(self, states: Tensor, tables: Tensor) -> Tensor:
        """Σ_v T_k[x_v] over the columns whose states are seen: (B, C), (K, states) → (B, K)."""
        if not self.is_wide:
            return self.indicators(states) @ tables.mT
        rows = torch.cat([tables.mT, tables.new_zeros(1, len(tables))])  # (states + 1, K)
        return torch.nn.functional.embedding_bag(self._places(states), rows, mode="sum")

    def counted(self, states: Tensor, mass: Tensor) -> Tensor:
        """The mass of the rows in which each state is seen: (B, C), (B, K) → (K, states)."""
        if not self.is_wide:
            return mass.mT @ self.indicators(states)
        found = mass.new_zeros(self.states + 1, mass.shape[-1])
        for column in self._places(states).unbind(-1):
            found.index_add_(0, column, mass)
        return found[:-1].mT


@final
@dataclass(frozen=True)
class MixtureFit:
    """p(x) = Σ_k π_k N(x_numbers; μ_k, Σ_k) ∏_v P_v,k(x_v): what `fit_mixture` has found.

    Args:
        layout: which columns are numbers and which categories.
        log_weights: log π, (K,).
        gaussians: of the columns that are numbers, in their order.
        log_tables: log P, (K, states of all categorical columns one after the other).
        history: what happened in each iteration.

    Example:
        >>> from squircuit.learning import fit_mixture
        >>> x = torch.cat([torch.randn(200, 2), torch.randn(200, 2) + 9])
        >>> fit = fit_mixture(x, 2)
        >>> fit.means.shape, fit.covariances.shape, fit.log_prob(x).shape
        (torch.Size([2, 2]), torch.Size([2, 2, 2]), torch.Size([400]))
    """

    layout: Layout
    log_weights: Tensor
    gaussians: Gaussians = field(repr=False)
    log_tables: Tensor = field(repr=False)
    history: Sequence[EMStep] = field(default=(), repr=False)

    @property
    def means(self) -> Tensor:
        """μ, (K, D)."""
        return self.gaussians.means

    @property
    def covariances(self) -> Tensor:
        """Full: Σ, (K, D, D). Tied: (D, D). Diagonal: variances (K, D). Low-rank: (K, D), Σ = diag + UUᵀ."""
        return self.gaussians.covariances

    @property
    def loadings(self) -> Tensor | None:
        """U of a low rank, (K, D, rank), else None."""
        return self.gaussians.loadings

    @property
    def tables(self) -> dict[int, Tensor]:
        """Column: the probabilities of its states in each component, (K, states)."""
        sizes = list(self.layout.categories.values())
        parts = torch.split(self.log_tables.exp(), sizes, 1) if sizes else ()
        return dict(zip(self.layout.categories, parts, strict=True))

    def log_prob(self, rows: Rows[Any] | Tensor) -> Tensor:
        """log p of what is seen of each row, (n,), double; NaN and masked cells are missing."""
        x, states = self.layout.split(rows, self.log_weights.device)
        log_probs = torch.zeros(len(x), dtype=torch.double, device=x.device)
        for group in grouped(x, states, torch.ones_like(log_probs), len(self.means)):
            for part in group.parts():
                log_probs[part.index] = self.joint(part).logsumexp(-1)
        return log_probs

    def joint(self, part: Part, given: Given | None = None) -> Tensor:
        """log π_k p_k(x) of rows and components, (B, K).

        Args:
            part: the rows.
            given: what the Gaussians know of these rows, where it was asked for.
        """
        numbers = self.gaussians.given(part.x, part.seen) if given is None else given
        found = numbers.log_probs + self.log_weights
        return found + self.layout.looked_up(part.states, self.log_tables) if self.layout.states else found

    def widened(self, width: float, kept: Collection[int] = ()) -> Self:
        """The mixture with all variances so many times as large, and the same means and correlations.

        Args:
            width: the factor.
            kept: columns whose variances stay as they are.

        Example:
            >>> from squircuit.learning import fit_mixture
            >>> fit = fit_mixture(torch.randn(100, 2), 1)
            >>> bool(torch.allclose(fit.widened(4.0).covariances, 4 * fit.covariances))
            True
        """
        widths = torch.tensor([1.0 if v in kept else width for v in self.layout.numbers], dtype=torch.double)
        return replace(self, gaussians=self.gaussians.widened(widths))

    def scaled(self, scale: Tensor, shift: Tensor) -> Self:
        """The mixture of rows whose numbers are x · scale + shift."""
        return replace(self, gaussians=self.gaussians.scaled(scale, shift))


def all_groups(mixture: MixtureFit, x: Tensor, states: Tensor, weight: Tensor) -> list[Group]:
    """The rows as a mixture takes them."""
    return grouped(x, states, weight, len(mixture.means))


def mean_log_prob(mixture: MixtureFit, groups: list[Group]) -> float:
    """The mean of log p, by weights."""
    total, mass = 0.0, 0.0
    for part in (part for group in groups for part in group.parts()):
        total += float(mixture.joint(part).logsumexp(-1) @ part.weight)
        mass += float(part.weight.sum())
    return total / mass if mass else math.nan
