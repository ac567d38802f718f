"""Single variables of a block, given evidence: sums of Gaussians in closed form.

p(y) is linear in what the input layer of a block sends upwards, its pair integrals R_jk = ∫ f_j f_k* over
what is missing (or their diagonal). So the derivatives G of log p(y) in them give p(x | y) = Σ_jk G_jk
f_j(x) f_k(x)* of the missing coordinates x: of square roots of Gaussians a sum of Gaussians with the shares
G_jk R_jk, which add up to 1 and may be negative off the diagonal. Coordinates of Gaussians are Gaussian, so
that means, variances and densities of every single variable follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from squircuit.errors import StructureError
from squircuit.execution.plan import InputGroup
from squircuit.families import MultivariateGaussian, OrthonormalisedBlock
from squircuit.families.block import places
from squircuit.families.gaussian_algebra import products_of_roots
from squircuit.inference.compile.compiled_circuit import Snapshot
from squircuit.inference.upward.inputs import InputMessages, block_family, layer_values

BLOCK = 2**21  #: numbers in one intermediate result
REACH = 9.0
"""Standard deviations beyond which a Gaussian is below 1e-18."""


@final
@dataclass(frozen=True, eq=False)
class Coordinate:
    """p(x_v | y) of some rows: Σ_j w_j N(t(x_v); m_j, s_j²) t′(x_v).

    Args:
        rows: their numbers, (b,).
        weights: w, of any sign, (b, J).
        means: m, (b, J).
        widths: s, (J,).
        transform: t, or None for the identity.
    """

    rows: Tensor
    weights: Tensor
    means: Tensor
    widths: Tensor
    transform: Any

    def expected(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        """Σ_j w_j E[f(x_v)] of every row, by a rule for each Gaussian: (b,)."""
        z, omega = (part.to(self.means) for part in normal_rule())

        def of_some(weights: Tensor, means: Tensor) -> Tensor:
            points = self.inverse(means.unsqueeze(2) + self.widths[:, None] * z)  # (b, J, Q)
            return (weights * (function(points) @ omega)).sum(dim=1)

        return self._in_parts(of_some, len(z))

    def mean(self) -> Tensor:
        """Σ_j w_j E[x_v], the part of E[x_v | y] that these Gaussians are: (b,)."""
        if self.transform is None:
            return (self.weights * self.means).sum(dim=1)
        return self.expected(lambda x: x)

    def spread(self, around: Tensor) -> Tensor:
        """Σ_j w_j E[(x_v − c)²] around a point c of every row: (b,)."""
        if self.transform is None:
            squares = self.widths.square() + (self.means - around.unsqueeze(1)).square()
            return (self.weights * squares).sum(dim=1)
        z, omega = (part.to(self.means) for part in normal_rule())

        def of_some(weights: Tensor, means: Tensor, around: Tensor) -> Tensor:
            points = self.inverse(means.unsqueeze(2) + self.widths[:, None] * z)
            return (weights * ((points - around[:, None, None]).square() @ omega)).sum(dim=1)

        return self._in_parts(of_some, len(z), around)

    def density(self, x: Tensor) -> Tensor:
        """Σ_j w_j N(t(x); m_j, s_j²) t′(x): (Q,) or (b, Q) → (b, Q)."""
        t, log_slope = (x, torch.zeros_like(x)) if self.transform is None else self.transform.forward(x)
        t, log_slope = (part.expand(len(self.rows), x.shape[-1]) for part in (t, log_slope))

        def of_some(weights: Tensor, means: Tensor, t: Tensor, log_slope: Tensor) -> Tensor:
            z = (t.unsqueeze(2) - means.unsqueeze(1)) / self.widths  # (b, Q, J)
            heights = (-z.square() / 2).exp() @ (weights / self.widths).unsqueeze(2)
            return heights.squeeze(2) / math.sqrt(2 * math.pi) * log_slope.exp()

        return self._in_parts(of_some, x.shape[-1], t, log_slope)

    def inverse(self, t: Tensor) -> Tensor:
        """x with t(x) = t."""
        found: Tensor = t if self.transform is None else self.transform.inverse(t)
        return found

    def _in_parts(self, compute: Callable[..., Tensor], entries: int, *others: Tensor) -> Tensor:
        """Rows in parts, so that intermediate results stay bounded."""
        size = max(1, BLOCK // max(1, entries * len(self.widths)))
        tables = (self.weights, self.means, *others)
        parts = [compute(*part) for part in zip(*(torch.split(table, size) for table in tables), strict=True)]
        return torch.cat(parts) if parts else self.weights.new_zeros(0)


def coordinates(
    inputs: InputMessages, gradients: dict[tuple[InputGroup, int], Tensor], rows: Tensor
) -> Iterator[tuple[int, Coordinate]]:
    """Every missing variable of every block, with its distribution in the rows that lack it.

    Args:
        inputs: whose watched values the gradients of log p belong to.
        gradients: of log p in them.
        rows: the numbers of the rows, (B,).
    """
    for (group, fold), gradient in gradients.items():
        value, variables = inputs.watched[group, fold], group.blocks[fold]
        for observed, some, x in inputs.patterns(variables):
            _, left = places(observed)
            if left:
                terms = _terms(inputs.snapshot, group, fold, x, observed, value, gradient, some)
                shares, means, widths = terms
                for i, coordinate in enumerate(left):
                    columns = gaussians_of(group).columns
                    transform = None if columns is None else columns[coordinate]
                    found = Coordinate(rows[some], shares, means[..., i], widths[:, i], transform)
                    yield variables[coordinate], found


def gaussians_of(group: InputGroup) -> MultivariateGaussian:
    """The Gaussians that the functions of a block are made of."""
    family = block_family(group)
    base = family.base if isinstance(family, OrthonormalisedBlock) else family
    if not isinstance(base, MultivariateGaussian):
        raise StructureError(
            "made of Gaussians",
            type(family).__name__,
            "the distribution of a single variable of a block is known of square roots of Gaussians only",
            "ask for log_prob or samples, or use MultivariateGaussian",
        )
    return base


def _terms(
    snapshot: Snapshot,
    group: InputGroup,
    fold: int,
    x: Tensor,
    observed: tuple[bool, ...],
    value: Tensor,
    gradient: Tensor,
    rows: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Shares (b, J), means (b, J, M) and widths (J, M) of the Gaussians of what a block lacks."""
    base, values = gaussians_of(group), layer_values(snapshot, group, fold)
    given = base.given(x, observed, values)
    if value.ndim == 2:  # squares: (n, B)
        factor = given.factor
        widths = factor if factor.ndim == 2 else torch.linalg.vector_norm(factor, dim=2)
        return (gradient * value).T[rows].double(), given.means, widths
    pairs, _ = base.pair_integrals(x, observed, values)
    derivatives = gradient[rows].real.double()
    family = block_family(group)
    if isinstance(family, OrthonormalisedBlock):
        mixing = family.mixing(derivatives.device)
        derivatives = mixing @ derivatives @ mixing.mT
    centres, roots = products_of_roots(given.means, given.factor)
    widths = torch.linalg.vector_norm(roots, dim=3)  # (n, n, M)
    return (derivatives * pairs).flatten(1), centres.flatten(1, 2), widths.flatten(0, 1)


def even_points(parts: list[Coordinate], count: int = 257) -> Tensor:
    """Points that cover the Gaussians which count in some row, evenly in t: (Q,), sorted."""
    counted = [(part, (part.weights.abs() > 1e-6)) for part in parts]
    lows = [(part.means - 6 * part.widths)[there] for part, there in counted]
    highs = [(part.means + 6 * part.widths)[there] for part, there in counted]
    low, high = torch.cat(lows), torch.cat(highs)
    if not len(low):
        return low
    t = torch.linspace(float(low.min()), float(high.max()), count, dtype=torch.float64, device=low.device)
    return parts[0].inverse(t)


@lru_cache(maxsize=1)
def normal_rule() -> tuple[Tensor, Tensor]:
    """Nodes and weights of expectations under the standard normal distribution: (128,) each."""
    nodes, weights = np.polynomial.legendre.leggauss(16)
    ends = np.linspace(-REACH, REACH, 9)
    half, middle = np.diff(ends) / 2, (ends[1:] + ends[:-1]) / 2
    z = torch.from_numpy((middle[:, None] + half[:, None] * nodes).flatten())
    omega = torch.from_numpy((half[:, None] * weights).flatten()) * (-z.square() / 2).exp()
    return z, omega / omega.sum()
