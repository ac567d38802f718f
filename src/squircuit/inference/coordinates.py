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
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from squircuit.execution.plan import InputGroup
from squircuit.families import OrthonormalisedBlock
from squircuit.families.block import places
from squircuit.inference.upward.gaussian_terms import (
    BLOCK,
    REACH,
    GaussianTerms,
    gaussians_of,
    terms_of_pairs,
    terms_of_units,
    transform_of,
)
from squircuit.inference.upward.inputs import InputMessages
from squircuit.inference.upward.learnt_values import layer_values

CANDIDATES = 16  #: Gaussians at whose centres a mode is looked for, the highest ones
PANELS, NODES = 8, 16  #: of the rule of a Gaussian, beside panels that end at the knots of a transform
NEGLIGIBLE = 1e-16  #: the share of a Gaussian that is left out
SEEN = 1e-12  #: how far the integral of a Gaussian by a shared rule may be from 1
CACHE = 2**17  #: numbers in an intermediate result that stays in the cache of a processor
MOST_PANELS = 1024  #: of a shared rule
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
        """Σ_j w_j E[f(x_v)] of every row: (b,).

        By one rule for all Gaussians, whose panels end at the knots of the transform; by a rule of its own
        for each that is narrower than these panels, which shows in the rule's integral of it.
        """
        t, omega = _shared_rule(self)
        values = function(self.inverse(t)) * omega
        total = torch.zeros_like(self.weights[:, 0])
        narrow = torch.zeros_like(self.weights)
        for at, weights, means, widths in self._counted(len(t), CACHE):
            z = (t - means.unsqueeze(1)).div_(widths.unsqueeze(1))
            bell = z.square_().mul_(-0.5).exp_()
            mass, found = (bell @ torch.stack([omega, values], dim=1)).unbind(dim=1)
            is_wide = (mass / (widths * math.sqrt(2 * math.pi)) - 1).abs() < SEEN
            total.index_add_(0, at[0], torch.where(is_wide, weights * found / mass, 0.0))
            narrow[at] = torch.where(is_wide, 0.0, weights)
        if bool((narrow != 0).any()):
            total = total + replace(self, weights=narrow)._expected(lambda x, _: function(x))
        return total

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
        for (rows, _), weights, means, widths in self._counted(x.shape[-1]):
            z = (t[rows] - means.unsqueeze(1)) / widths.unsqueeze(1)
            total.index_add_(0, rows, (-z.square() / 2).exp() * (weights / widths).unsqueeze(1))
        return total * log_slope.exp() / math.sqrt(2 * math.pi)

    def _expected(self, function: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """The same of functions of points (N, Q) and the rows that they belong to, (N,)."""
        knots = self.weights.new_tensor(() if self.transform is None else self.transform.values)
        total = torch.zeros_like(self.weights[:, 0])
        for (rows, _), weights, means, widths in self._counted((PANELS + len(knots)) * NODES):
            z, omega = _rules((knots - means.unsqueeze(1)) / widths.unsqueeze(1))
            values = function(self.inverse(means.unsqueeze(1) + widths.unsqueeze(1) * z), rows)
            total.index_add_(0, rows, weights * (values * omega).sum(dim=1))
        return total

    def _counted(
        self, entries: int, block: int = BLOCK
    ) -> Iterator[tuple[tuple[Tensor, Tensor], Tensor, Tensor, Tensor]]:
        """Places, weights, means and widths, (N,) each, of the Gaussians that count, so many at a time."""
        rows, places = torch.nonzero(self.weights.abs() > NEGLIGIBLE, as_tuple=True)
        size = max(1, block // max(1, entries))
        for at in zip(torch.split(rows, size), torch.split(places, size), strict=True):
            yield at, self.weights[at], self.means[at], self.widths[at]

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
        if gradient.ndim == 2 and inputs.blocks.has_many_masks(group, fold):
            yield from _by_row(inputs, group, fold, gradient, rows)
            continue
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


def _by_row(
    inputs: InputMessages, group: InputGroup, fold: int, gradient: Tensor, rows: Tensor
) -> Iterator[tuple[int, Coordinate]]:
    """The same of a block of whose squares the gradients are, (n, B), where rows have masks of their own."""
    base, shares = gaussians_of(group), (gradient * inputs.watched[group, fold]).double().T
    found: dict[int, list[tuple[Tensor, ...]]] = {}
    for part in inputs.blocks.gaussian_rows(group, fold):
        for v in torch.unique(part.left).tolist():
            some, place = torch.nonzero(part.left == v, as_tuple=True)
            numbers = part.rows[some]
            columns = part.means[some, :, place], part.widths[some, :, place]
            found.setdefault(v, []).append((rows[numbers], shares[numbers], *columns))
    for v, parts in found.items():
        numbers, weights, means, widths = (torch.cat(each) for each in zip(*parts, strict=True))
        yield group.blocks[fold][v], Coordinate(numbers, weights, means, widths, transform_of(base, v))


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


def _rules(knots: Tensor) -> tuple[Tensor, Tensor]:
    """Nodes and weights of expectations under the standard normal distribution, (N, Q) each.

    Args:
        knots: where the functions are not smooth, (N, m): panels end there.
    """
    ends = torch.linspace(-REACH, REACH, PANELS + 1, dtype=knots.dtype, device=knots.device)
    ends = torch.cat([ends.expand(len(knots), -1), knots.clamp(-REACH, REACH)], dim=1).sort(dim=1).values
    nodes, weights = (torch.from_numpy(part).to(knots) for part in np.polynomial.legendre.leggauss(NODES))
    half, middle = ends.diff(dim=1).unsqueeze(2) / 2, (ends[:, 1:] + ends[:, :-1]).unsqueeze(2) / 2
    z = (middle + half * nodes).flatten(1)
    omega = (half * weights).flatten(1) * (-z.square() / 2).exp()
    return z, omega / omega.sum(dim=1, keepdim=True)


def _shared_rule(part: Coordinate) -> tuple[Tensor, Tensor]:
    """Nodes and weights that integrate over t wherever Gaussians are, panels ending at knots: (Q,) each.

    A panel is at most half as wide as those of a rule for the narrower Gaussians would be.
    """
    counts = part.weights.abs() > NEGLIGIBLE
    if not bool(counts.any()):
        counts = torch.ones_like(counts)
    means, widths = part.means[counts], part.widths[counts]
    low, high = float((means - REACH * widths).min()), float((means + REACH * widths).max())
    step = REACH / PANELS * float(widths.quantile(0.05) if len(widths) < BLOCK else widths.min())
    knots = part.weights.new_tensor(() if part.transform is None else part.transform.values)
    inner = torch.cat([knots[(knots > low) & (knots < high)], knots.new_tensor([low, high])]).sort().values
    most = max(1, MOST_PANELS // len(inner))
    ends = [
        torch.linspace(a, b, 1 + min(most, max(1, math.ceil((b - a) / step))), dtype=knots.dtype)[:-1]
        for a, b in zip(inner[:-1].tolist(), inner[1:].tolist(), strict=True)
    ]
    every = torch.cat([*ends, inner[-1:].cpu()]).to(knots)
    nodes, weights = (torch.from_numpy(each).to(knots) for each in np.polynomial.legendre.leggauss(NODES))
    half, middle = every.diff().unsqueeze(1) / 2, (every[1:] + every[:-1]).unsqueeze(1) / 2
    return (middle + half * nodes).flatten(), (half * weights).flatten()


def modes(parts: list[Coordinate], rows: int) -> Tensor:
    """argmax p(x_v | y) of every row: (n,); 0 in rows that show the variable.

    From the centres of the Gaussians that are highest there, up to the tops next to the best of them.
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
        centres, reaches = torch.cat([centres, there], dim=1), torch.cat([reaches, reach], dim=1)
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
