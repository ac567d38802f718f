"""Tables as EM takes them, and mixtures to begin with."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self, final

import torch
from torch import Tensor

from squircuit.data import Rows
from squircuit.errors import DataError
from squircuit.learning.gaussians import Diagonal, Full, Gaussians, LowRank, Prior, Tied, raised
from squircuit.learning.mixture import Layout, MixtureFit

COVARIANCES: dict[str, type[Gaussians]] = {
    "full": Full,
    "diagonal": Diagonal,
    "tied": Tied,
    "low-rank": LowRank,
}


@final
@dataclass(frozen=True)
class Table:
    """Numbers, states and weights of rows.

    Args:
        layout: of its columns.
        x: (n, D) double, NaN where it is missing.
        states: (n, C), −1 where they are missing.
        weight: (n,), none of them 0.
        log_scale: (D,): log of the numbers over those that were given.
    """

    layout: Layout
    x: Tensor
    states: Tensor
    weight: Tensor
    log_scale: Tensor

    @classmethod
    def of(
        cls,
        layout: Layout,
        rows: Rows[Any] | Tensor,
        weights: Tensor | None,
        device: torch.device | str | None,
    ) -> Self:
        """Make the start from rows and their weights; rows of weight 0 are left out."""
        found = rows.x if isinstance(rows, Rows) else rows
        here = found.device if isinstance(found, Tensor) else torch.device("cpu")
        x, states = layout.split(rows, torch.device(device or here))
        weight = x.new_ones(len(x)) if weights is None else weights.to(x)
        if weight.shape != (len(x),) or not bool((weight.isfinite() & (weight >= 0)).all()):
            raise DataError(
                f"weights of shape {tuple(weight.shape)} for {len(x)} rows, or one is negative or infinite. "
                "Fix: pass one number from 0 for each row."
            )
        return cls(layout, x, states, weight, x.new_zeros(x.shape[1])).taken(weight > 0)

    def __len__(self) -> int:
        return len(self.x)

    def require_rows(self, least: int) -> None:
        """Refuse fewer."""
        if len(self) < least:
            raise DataError(
                f"{least} components of {len(self)} rows. Fix: pass more rows or fewer components."
            )

    def taken(self, chosen: Tensor) -> Self:
        """Some of the rows, by a mask or by numbers."""
        return replace(self, x=self.x[chosen], states=self.states[chosen], weight=self.weight[chosen])

    def some(self, count: int, generator: torch.Generator) -> Self:
        """So many of the rows, drawn at random without regard to weights, which they keep."""
        if count >= len(self):
            return self
        return self.taken(torch.randperm(len(self), generator=generator, device=self.x.device)[:count])

    @property
    def shift(self) -> Tensor:
        """The mean of each column, (D,)."""
        return self._mean(self.x)

    @property
    def scale(self) -> Tensor:
        """The standard deviation of each column; 1 where all of it is equal."""
        deviations = self._mean((self.x - self.shift) ** 2).sqrt()
        return torch.where(deviations > 1e-12 * (1 + self.shift.abs()), deviations, 1.0)

    def _mean(self, cells: Tensor) -> Tensor:
        weight = self.weight[:, None] * ~cells.isnan()
        return (cells.nan_to_num(nan=0.0) * weight).sum(0) / weight.sum(0).clamp(min=1e-300)

    def standardised(self) -> Self:
        """The columns with mean 0 and variance 1."""
        return self.moved(1 / self.scale, -self.shift / self.scale)

    def moved(self, scale: Tensor, shift: Tensor) -> Self:
        """The numbers as x · scale + shift."""
        return replace(self, x=self.x * scale + shift, log_scale=self.log_scale + scale.log())

    @property
    def log_volume(self) -> float:
        """What mean log-densities of the numbers lack to be those of the numbers that were given."""
        return float(self.weight @ ((~self.x.isnan()).double() @ self.log_scale) / self.weight.sum())

    def covariance(self, components: int, independent: float = 0.0) -> Tensor:
        """The covariance of all rows, K^(2/D) times smaller, as of K pieces. Missing cells are means.

        A share of it is that of independent columns: what is off the diagonal is so much smaller.
        """
        weight, x = self.weight[:, None] / self.weight.sum(), self.x.nan_to_num(nan=0.0)
        eye = torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
        pooled: Tensor = x.mT @ (x * weight) + 1e-6 * eye
        shrunk = pooled * (1 - independent + independent * eye)
        return shrunk / math.pow(components, 2 / max(x.shape[1], 1))

    def frequencies(self) -> Tensor:
        """Frequencies of all states, (Σ states,), with one row of uniform states added."""
        counts = self.weight @ self.layout.indicators(self.states)
        parts = torch.split(counts, list(self.layout.categories.values())) if self.layout.states else ()
        return torch.cat([counts[:0], *((part + 1 / len(part)) / (part.sum() + 1) for part in parts)])


def start_at(
    table: Table,
    components: int,
    kind: type[Gaussians],
    rank: int | None,
    spread: float,
    prior: Prior,
    smoothing: float,
    generator: torch.Generator,
) -> MixtureFit:
    """A mixture around rows that are far from each other, of equal weights.

    Args:
        table: with standardised numbers.
        components: K.
        kind: of covariance.
        rank: of a low rank.
        spread: power of the distance, see `fit_mixture`.
        prior: its covariance is that of each component.
        smoothing: a row that a component begins with has the weight of one against that of these.
        generator: of random numbers.
    """
    chosen = far_apart(table, components, spread, generator)
    means = table.x[chosen].nan_to_num(nan=0.0)
    uniform = means.new_zeros(components) - torch.tensor(float(components)).log().to(means)
    seen = table.layout.indicators(table.states[chosen])
    sizes = list(table.layout.categories.values())
    smooth = seen + max(smoothing, 1.0) * table.frequencies()
    parts = torch.split(smooth, sizes, 1) if sizes else ()
    tables = torch.cat([seen[:, :0], *((part / part.sum(1, keepdim=True)).log() for part in parts)], 1)
    return MixtureFit(table.layout, uniform, _gaussians(kind, means, prior, rank), tables)


def _gaussians(kind: type[Gaussians], means: Tensor, prior: Prior, rank: int | None) -> Gaussians:
    matrix = raised(prior.covariance, prior.floor)
    matrices = matrix.expand(len(means), -1, -1)
    if kind is Diagonal:
        return Diagonal(means, matrices.diagonal(dim1=-2, dim2=-1))
    if kind is LowRank:
        values, vectors = torch.linalg.eigh(matrix)
        factors = (vectors * values.clamp(min=0).sqrt())[:, -(rank or 1) :] * 0.5**0.5
        variances = (matrix - factors @ factors.mT).diagonal().clamp(min=prior.floor)
        return LowRank.of(means, variances.expand_as(means), factors.expand(len(means), -1, -1))
    return Tied(means, matrices) if kind is Tied else Full(means, matrices)


def far_apart(table: Table, count: int, power: float, generator: torch.Generator) -> Tensor:
    """Numbers of rows, (count,), each drawn by its weight times a power of its distance to those before.

    Example:
        >>> x = torch.tensor([[0.0], [0.1], [50.0]], dtype=torch.double)
        >>> table = Table.of(Layout((0,), {}), x, weights=None, device=None)
        >>> 2 in far_apart(table, 2, 2.0, torch.Generator().manual_seed(0)).tolist()
        True
    """
    points = torch.cat([table.x.nan_to_num(nan=0.0), table.layout.indicators(table.states)], 1)
    if power == 0:
        return torch.multinomial(table.weight, count, generator=generator)
    odds, chosen = table.weight, []
    nearest = torch.full_like(odds, torch.inf)
    for _ in range(count):
        place = torch.multinomial(odds, 1, generator=generator)
        nearest = torch.minimum(nearest, (points - points[place]).square().sum(1))
        chosen.append(place)
        odds = table.weight * nearest ** (power / 2)
        if not bool(odds.sum() > 0):  # fewer different rows than components
            odds = table.weight
    return torch.cat(chosen)
