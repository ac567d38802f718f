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
from typing import Any, final

import torch
from torch import Tensor

from squircuit.execution.plan import InputGroup
from squircuit.families import OrthonormalisedBlock
from squircuit.families.block import places
from squircuit.inference.upward.gaussian_terms import (
    BLOCK,
    NODES,
    PANELS,
    GaussianTerms,
    gaussians_of,
    panelled_rules,
    terms_of_pairs,
    terms_of_units,
    transform_of,
)
from squircuit.inference.upward.input_layers import layer_values
from squircuit.inference.upward.inputs import InputMessages

CANDIDATES = 16  #: Gaussians at whose centres a mode is looked for, the highest ones
BESIDE = (-2.5, -1.75, -1.0, 0.0, 1.0, 1.75, 2.5)  #: and beside them where some are subtracted, in deviations
NEGLIGIBLE = 1e-16  #: the share of a Gaussian that is left out
CLIMBS = 3  #: of which so many are followed to their tops


@final
@dataclass(frozen=True, eq=False)
class Coordinate:
    """p(x_v | y) of some rows: Σ_j w_j N(t(x_v); m_j, s_j²) t′(x_v).

    Args:
        rows: their numbers, (b,).
        weights: w, of any sign, (b, J).
        means: m, (b, J).
        widths: s, (b, J).
        transform: t, or None for the identity.
    """

    rows: Tensor
    weights: Tensor
    means: Tensor
    widths: Tensor
    transform: Any

    def expected(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        """Σ_j w_j E[f(x_v)] of every row, by a rule for each Gaussian: (b,)."""
        return self._expected(lambda x, _: function(x))

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
        return self._expected(lambda x, rows: (x - around[rows].unsqueeze(1)).square())

    def density(self, x: Tensor) -> Tensor:
        """Σ_j w_j N(t(x); m_j, s_j²) t′(x): (Q,) or (b, Q) → (b, Q)."""
        t, log_slope = (x, torch.zeros_like(x)) if self.transform is None else self.transform.forward(x)
        t = t.expand(len(self.rows), x.shape[-1])
        total = torch.zeros_like(t)
        for rows, weights, means, widths in self._counted(x.shape[-1]):
            z = (t[rows] - means.unsqueeze(1)) / widths.unsqueeze(1)
            total.index_add_(0, rows, (-z.square() / 2).exp() * (weights / widths).unsqueeze(1))
        return total * log_slope.exp() / math.sqrt(2 * math.pi)

    def _expected(self, function: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Σ_j w_j E[f(x_v, row)] of a function of points (N, Q) and the rows that they belong to, (N,)."""
        knots = self.weights.new_tensor(() if self.transform is None else self.transform.values)
        total = torch.zeros_like(self.weights[:, 0])
        for rows, weights, means, widths in self._counted((PANELS + len(knots)) * NODES):
            z, omega = panelled_rules((knots - means.unsqueeze(1)) / widths.unsqueeze(1))
            values = function(self.inverse(means.unsqueeze(1) + widths.unsqueeze(1) * z), rows)
            total.index_add_(0, rows, weights * (values * omega).sum(dim=1))
        return total

    def _counted(self, entries: int) -> Iterator[tuple[Tensor, ...]]:
        """Rows, weights, means and widths, (N,) each, of the Gaussians that count, so many at a time."""
        rows, places = torch.nonzero(self.weights.abs() > NEGLIGIBLE, as_tuple=True)
        size = max(1, BLOCK // max(1, entries))
        for at in zip(torch.split(rows, size), torch.split(places, size), strict=True):
            yield at[0], self.weights[at], self.means[at], self.widths[at]

    def inverse(self, t: Tensor) -> Tensor:
        """x with t(x) = t."""
        found: Tensor = t if self.transform is None else self.transform.inverse(t)
        return found


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
        variables, base = group.blocks[fold], gaussians_of(group)
        shared = _shares(inputs, group, fold, gradient)
        found: dict[int, list[tuple[Tensor, ...]]] = {v: [] for v in range(len(variables))}
        for observed, some, x in inputs.blocks.patterns(variables):
            _, left = places(observed)
            if left:
                shares, terms = shared(observed, some, x)
                widths = terms.widths.expand_as(terms.means)
                for i, v in enumerate(left):
                    found[v].append((rows[some], shares, terms.means[..., i], widths[..., i]))
        for v, parts in found.items():
            if parts:
                some, shares, means, all_widths = (torch.cat(each) for each in zip(*parts, strict=True))
                yield variables[v], Coordinate(some, shares, means, all_widths, transform_of(base, v))


def _shares(
    inputs: InputMessages, group: InputGroup, fold: int, gradient: Tensor
) -> Callable[[tuple[bool, ...], Tensor, Tensor], tuple[Tensor, GaussianTerms]]:
    """The Gaussians of what a block lacks in rows of one pattern, and their shares, (b, J)."""
    base, values = gaussians_of(group), layer_values(inputs.snapshot, group, fold)
    value, family = inputs.watched[group, fold], group.family
    if value.ndim == 2:  # squares: (n, B)
        shares = (gradient * value).double().T.contiguous()
        return lambda observed, rows, x: (shares[rows], terms_of_units(base, x, observed, values))
    derivatives = gradient.real.double()
    if isinstance(family, OrthonormalisedBlock):
        mixing = family.mixing(derivatives.device)
        derivatives = mixing @ derivatives @ mixing.mT

    def of_pairs(observed: tuple[bool, ...], rows: Tensor, x: Tensor) -> tuple[Tensor, GaussianTerms]:
        pairs, _ = base.pair_integrals(x, observed, values)
        return (derivatives[rows] * pairs).flatten(1), terms_of_pairs(base, x, observed, values)

    return of_pairs


def even_points(parts: list[Coordinate], count: int = 257) -> Tensor:
    """Points that cover the Gaussians which count in some row, evenly in t: (Q,), sorted."""
    if not parts:
        return torch.zeros(0, dtype=torch.float64)
    counted = [(part, (part.weights.abs() > 1e-6)) for part in parts]
    lows = [(part.means - 6 * part.widths)[there] for part, there in counted]
    highs = [(part.means + 6 * part.widths)[there] for part, there in counted]
    low, high = torch.cat(lows), torch.cat(highs)
    if not len(low):
        return low
    t = torch.linspace(float(low.min()), float(high.max()), count, dtype=torch.float64, device=low.device)
    return parts[0].inverse(t)


def modes(parts: list[Coordinate], rows: int) -> Tensor:
    """argmax p(x_v | y) of every row: (n,); 0 in rows that show the variable.

    From the centres of the Gaussians that are highest there, up to the tops next to the best of them. Where
    some Gaussians are subtracted from others, tops are between centres, too.
    """
    if not parts:
        return torch.zeros(rows, dtype=torch.float64)
    like = parts[0].means
    centres = like.new_full((rows, 0), torch.nan)
    reaches = centres
    for part in parts:
        heights = part.weights.abs() / part.widths
        best = heights.topk(min(CANDIDATES, heights.shape[1]), dim=1).indices
        there = like.new_full((rows, best.shape[1]), torch.nan)
        reach = torch.zeros_like(there)
        there[part.rows], reach[part.rows] = part.means.gather(1, best), part.widths.gather(1, best)
        for step in BESIDE if bool((part.weights < 0).any()) else (0.0,):
            centres = torch.cat([centres, there + step * reach], dim=1)
            reaches = torch.cat([reaches, reach], dim=1)
    heights = _heights(parts, centres)
    best = heights.topk(min(CLIMBS, heights.shape[1]), dim=1).indices
    centres, reaches = centres.gather(1, best), reaches.gather(1, best)
    steps = torch.linspace(-1, 1, 9, dtype=like.dtype, device=like.device)
    for _ in range(30):  # each round leaves a third of the range: to the precision of doubles
        around = centres.unsqueeze(2) + reaches.unsqueeze(2) * steps  # (n, C, 9)
        heights = _heights(parts, around.flatten(1)).reshape(around.shape)
        top = heights.argmax(dim=2, keepdim=True)
        centres, reaches = around.gather(2, top).squeeze(2), reaches / 3
    tops = heights.amax(dim=2).argmax(dim=1, keepdim=True)
    return parts[0].inverse(centres.gather(1, tops).squeeze(1).nan_to_num(0.0))


def _heights(parts: list[Coordinate], t: Tensor) -> Tensor:
    """p(x_v | y) at points given by t(x), −∞ where these are NaN: (n, Q) → (n, Q)."""
    x = parts[0].inverse(t.nan_to_num(0.0))
    total = torch.zeros_like(x)
    for part in parts:
        total.index_add_(0, part.rows, part.density(x[part.rows]))
    return torch.where(t.isnan(), -torch.inf, total)
