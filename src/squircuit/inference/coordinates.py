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

import torch
from torch import Tensor

from squircuit.execution.plan import InputGroup
from squircuit.families import OrthonormalisedBlock
from squircuit.families.block import places
from squircuit.families.cache import kept
from squircuit.families.quadrature import gauss_legendre
from squircuit.inference.upward.gaussian_terms import (
    BLOCK,
    GROWTH,
    MISSED,
    NODES,
    GaussianTerms,
    gaussians_of,
    outermost,
    panels_around,
    reach_of,
    rule_behind,
    rule_size,
    terms_of_pairs,
    terms_of_units,
    transform_of,
)
from squircuit.inference.upward.input_layers import layer_values
from squircuit.inference.upward.inputs import InputMessages

CANDIDATES = 16  #: Gaussians at whose centres a mode is looked for, the highest ones
BESIDE = (-2.5, -1.75, -1.0, 0.0, 1.0, 1.75, 2.5)  #: and beside them where some are subtracted, in deviations
NEGLIGIBLE = 1e-100
"""The share of a Gaussian that is left out; far from the others 1e-30 is the whole density."""
SEEN = 1e-12  #: how far the integral of a Gaussian by a shared rule may be from 1
CACHE = 2**17  #: numbers in an intermediate result that stays in the cache of a processor
SHARED, MOST_PANELS = 0.5, 1024  #: panels of a shared rule: their width beside a Gaussian's, and how many
TOPS = 64  #: of the slope of a transform, likewise
CLIMBS = 4  #: of which so many are followed to their tops
FAR = 40.0  #: widths from the centre of a Gaussian beyond which nothing of it is left in doubles
HALVINGS = 90  #: of a range in which a quantile is


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

    def expected(self, function: Callable[[Tensor], Tensor], growth: int = GROWTH) -> Tensor:
        """Σ_j w_j E[f(x_v)] of every row, where f grows like a power of x at most: (b,).

        By one rule for all Gaussians, whose panels suit the transform; by a rule of its own for each that is
        narrower than these panels, which shows in the rule's integral of it. NaN where tails are so heavy
        that these rules do not reach far enough.
        """
        x, omega = _shared_rule(self, growth)
        t, values = self._forward(x)[0], function(x) * omega
        sizes = values.abs()
        ends = torch.zeros_like(sizes)
        ends[:NODES], ends[-NODES:] = sizes[:NODES], sizes[-NODES:]
        columns = torch.stack([omega, values, ends, sizes], dim=1)
        sums = self.weights.new_zeros(len(self.rows), 3)
        narrow = torch.zeros_like(self.weights)
        for at, weights, means, widths in self._counted(len(t), CACHE):
            z = (t - means.unsqueeze(1)).div_(widths.unsqueeze(1))
            bell = z.square_().mul_(-0.5).exp_()
            found = bell @ columns
            mass = found[:, :1]
            is_wide = (mass[:, 0] / (widths * math.sqrt(2 * math.pi)) - 1).abs() < SEEN
            shares = torch.stack([weights, weights.abs(), weights.abs()], dim=1) / mass
            sums.index_add_(0, at[0], torch.where(is_wide.unsqueeze(1), shares * found[:, 1:], 0.0))
            narrow[at] = torch.where(is_wide, 0.0, weights)
        total = _seen(sums)
        if bool((narrow != 0).any()):
            total = total + replace(self, weights=narrow)._expected(lambda x, _: function(x), growth)
        return total

    def mean(self) -> Tensor:
        """Σ_j w_j E[x_v], the part of E[x_v | y] that these Gaussians are: (b,)."""
        if self.transform is None:
            return (self.weights * self.means).sum(dim=1)
        return self.expected(lambda x: x, growth=1)

    def spread(self, around: Tensor) -> Tensor:
        """Σ_j w_j E[(x_v − c)²] around a point c of every row: (b,)."""
        if self.transform is None:
            squares = self.widths.square() + (self.means - around.unsqueeze(1)).square()
            return (self.weights * squares).sum(dim=1)
        return self._expected(lambda x, rows: (x - around[rows].unsqueeze(1)).square(), growth=2)

    def density(self, x: Tensor) -> Tensor:
        """Σ_j w_j N(t(x); m_j, s_j²) t′(x): (Q,) or (b, Q) → (b, Q)."""
        _, log_slope = self._forward(x)
        bell = self._summed(x, lambda z, weights, widths: (-z.square() / 2).exp() * (weights / widths))
        return bell * log_slope.exp() / math.sqrt(2 * math.pi)

    def below(self, x: Tensor) -> Tensor:
        """Σ_j w_j Φ((t(x) − m_j) / s_j), the part of P(x_v ≤ x | y): (Q,) or (b, Q) → (b, Q)."""
        return self._summed(x, lambda z, weights, _: torch.special.ndtr(z) * weights)

    def _forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return (x, torch.zeros_like(x)) if self.transform is None else self.transform.forward(x)

    def _summed(self, x: Tensor, term: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Tensor:
        """Σ_j of a function of z = (t(x) − m_j) / s_j, w_j and s_j: (b, Q)."""
        t = self._forward(x)[0].expand(len(self.rows), x.shape[-1])
        total = torch.zeros_like(t)
        for (rows, _), weights, means, widths in self._counted(x.shape[-1]):
            z = (t[rows] - means.unsqueeze(1)) / widths.unsqueeze(1)
            total.index_add_(0, rows, term(z, weights.unsqueeze(1), widths.unsqueeze(1)))
        return total

    def _expected(self, function: Callable[[Tensor, Tensor], Tensor], growth: int) -> Tensor:
        """Σ_j w_j E[f(x_v, row)] of a function of points (N, Q) and the rows that they belong to, (N,)."""
        sums = self.weights.new_zeros(len(self.rows), 3)
        for (rows, _), weights, means, widths in self._counted(rule_size(self.transform)):
            x, z, omega = rule_behind(self.transform, means, widths, growth=growth)
            values = function(x, rows) * omega
            sizes = values.abs()
            found = torch.stack([values.sum(dim=1), outermost(z, sizes), sizes.sum(dim=1)], dim=1)
            shares = torch.stack([weights, weights.abs(), weights.abs()], dim=1)
            sums.index_add_(0, rows, shares * found)
        return _seen(sums)

    def _counted(
        self, entries: int, block: int = BLOCK
    ) -> Iterator[tuple[tuple[Tensor, Tensor], Tensor, Tensor, Tensor]]:
        """Places, weights, means and widths, (N,) each, of the Gaussians that count, so many at a time."""
        rows, places = torch.nonzero(self.weights.abs() > NEGLIGIBLE, as_tuple=True)
        if not len(rows):  # a member of a mixture that knows better has none of these rows
            return
        size = max(1, block // max(1, entries))
        for at in zip(torch.split(rows, size), torch.split(places, size), strict=True):
            yield at, self.weights[at], self.means[at], self.widths[at]

    def inverse(self, t: Tensor) -> Tensor:
        """x with t(x) = t."""
        found: Tensor = t if self.transform is None else self.transform.inverse(t)
        return found


def _seen(sums: Tensor) -> Tensor:
    """Integrals, NaN where the ends of rules have a part of what is integrated: (b, 3) → (b,)."""
    found, ends, sizes = sums.unbind(dim=1)
    return torch.where((ends <= MISSED * sizes) & sizes.isfinite(), found, torch.nan)


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
    """Points that cover the Gaussians which count in some row, evenly in each t: (Q,), Q ≤ count, sorted."""
    found = [torch.zeros(0, dtype=torch.float64)]
    for part in parts:
        low, high = part.means - 6 * part.widths, part.means + 6 * part.widths
        counts = part.weights.abs() > 1e-6
        if bool(counts.any()):
            ends = float(low[counts].min()), float(high[counts].max())
            even = torch.linspace(*ends, count, dtype=torch.float64, device=low.device)
            found.append(part.inverse(even).cpu())
    points = torch.cat(found).sort().values
    if len(points) > count:
        points = points[torch.linspace(0, len(points) - 1, count).round().long()]
    return points.to(parts[0].means.device) if parts else points


def shares(parts: list[Coordinate], missing: Tensor, points: Tensor) -> Tensor:
    """P(x_v | y) of cells around sorted points, which meet in their middles; 0 where v is shown: (n, Q)."""
    reached = _below(parts, len(missing), (points[1:] + points[:-1]) / 2).clamp(0, 1)
    inner = torch.nn.functional.pad(reached, (1, 0), value=0.0)
    found = (torch.nn.functional.pad(inner, (0, 1), value=1.0)).diff(dim=1).clamp_min(0)
    return torch.where(missing.unsqueeze(1), found / found.sum(dim=1, keepdim=True), 0.0)


def quantiles(parts: list[Coordinate], rows: int, levels: Tensor) -> Tensor:
    """The x at which P(x_v ≤ x | y) is each of the levels, by bisection: (Q,) → (n, Q) float64."""
    low = levels.new_full((rows, 1), torch.inf)
    high = -low
    for part in parts:
        ends = (part.inverse(part.means + sign * FAR * part.widths) for sign in (-1, 1))
        counts = part.weights.abs() > NEGLIGIBLE
        first, last = (
            torch.where(counts, end, sign * torch.inf) for end, sign in zip(ends, (1, -1), strict=True)
        )
        low[part.rows] = torch.minimum(low[part.rows], first.amin(dim=1, keepdim=True))
        high[part.rows] = torch.maximum(high[part.rows], last.amax(dim=1, keepdim=True))
    low, high = (end.expand(-1, len(levels)).clone() for end in (low, high))
    for _ in range(HALVINGS):
        middle = low + (high - low) / 2
        is_below = _below(parts, rows, middle) < levels
        low, high = torch.where(is_below, middle, low), torch.where(is_below, high, middle)
    return low + (high - low) / 2


def _below(parts: list[Coordinate], rows: int, x: Tensor) -> Tensor:
    """P(x_v ≤ x | y) at points for all rows or for each, (Q,) or (n, Q): (n, Q)."""
    total = x.new_zeros(rows, x.shape[-1])
    for part in parts:
        total.index_add_(0, part.rows, part.below(x if x.ndim == 1 else x[part.rows]))
    return total


def _shared_rule(part: Coordinate, growth: int) -> tuple[Tensor, Tensor]:
    """Nodes x, and weights that integrate over t wherever Gaussians are: (Q,) each.

    A panel is at most half as wide as the narrower Gaussians, unless there would be too many.
    """
    counts = part.weights.abs() > NEGLIGIBLE
    if not bool(counts.any()):
        counts = torch.ones_like(counts)
    means, widths = part.means[counts], part.widths[counts]
    reach = reach_of(part.transform, widths, growth)
    low, high = float((means - reach * widths).min()), float((means + reach * widths).max())
    step = SHARED * float(widths.quantile(0.05) if len(widths) < BLOCK else widths.min())
    inner = means.new_tensor([low, high])
    if part.transform is not None:
        asked, _ = part.transform.forward(panels_around(part.transform, inner).to(means))
        inner = torch.cat([inner, asked[(asked > low) & (asked < high)]]).sort().values
    most = max(1, MOST_PANELS // len(inner))
    ends = [
        torch.linspace(a, b, 1 + min(most, max(1, math.ceil((b - a) / step))), dtype=means.dtype)[:-1]
        for a, b in zip(inner[:-1].tolist(), inner[1:].tolist(), strict=True)
    ]
    every = torch.cat([*ends, inner[-1:].cpu()]).to(means)
    x, weights = gauss_legendre(part.inverse(every), NODES)
    slope = 1.0 if part.transform is None else part.transform.forward(x)[1].exp()
    return x, weights * slope


def modes(parts: list[Coordinate], rows: int) -> Tensor:
    """argmax p(x_v | y) of every row: (n,); 0 in rows that show the variable.

    The density is Σ_j w_j N(t(x); m_j, s_j²) t′(x), so its tops are near centres of Gaussians and near tops
    of t′; where some Gaussians are subtracted from others, also between centres. From the highest of these
    it goes up to the tops next to them.
    """
    if not parts:
        return torch.zeros(rows, dtype=torch.float64)
    starts, reaches = _starts(parts, rows)
    best = _heights(parts, starts).topk(min(CLIMBS, starts.shape[1]), dim=1).indices
    centres, reaches = starts.gather(1, best), reaches.gather(1, best)
    steps = torch.linspace(-1, 1, 9, dtype=centres.dtype, device=centres.device)
    for _ in range(30):  # each round leaves a third of the range: to the precision of doubles
        around = centres.unsqueeze(2) + reaches.unsqueeze(2) * steps  # (n, C, 9)
        heights = _heights(parts, around.flatten(1)).reshape(around.shape)
        top = heights.argmax(dim=2, keepdim=True)
        centres, reaches = around.gather(2, top).squeeze(2), reaches / 3
    tops = heights.amax(dim=2).argmax(dim=1, keepdim=True)
    return centres.gather(1, tops).squeeze(1).nan_to_num(0.0)


def _starts(parts: list[Coordinate], rows: int) -> tuple[Tensor, Tensor]:
    """Points near which a top may be, NaN where a row has fewer, and how far it may be: (n, C) each."""
    like = parts[0].means
    points, reaches = [], []
    for part in parts:
        heights = part.weights.abs() / part.widths
        best = heights.topk(min(CANDIDATES, heights.shape[1]), dim=1).indices
        means, widths = part.means.gather(1, best), part.widths.gather(1, best)
        for step in BESIDE if bool((part.weights < 0).any()) else (0.0,):
            low, centre, high = (part.inverse(means + (step + side) * widths) for side in (-1, 0, 1))
            there = like.new_full((rows, best.shape[1]), torch.nan)
            reach = torch.zeros_like(there)
            there[part.rows], reach[part.rows] = centre, torch.maximum(high - centre, centre - low)
            points.append(there)
            reaches.append(reach)
    for transform in {part.transform for part in parts} - {None}:
        steep, near = (found.to(like.device) for found in _tops_of_slope(transform))
        points.append(steep.expand(rows, -1))
        reaches.append(near.expand(rows, -1))
    return torch.cat(points, dim=1), torch.cat(reaches, dim=1)


@kept(256)
def _tops_of_slope(transform: Any) -> tuple[Tensor, Tensor]:
    """Points where t′ is higher than beside them, the highest of these, and how far their neighbours are."""
    knots = torch.tensor(transform.knots, dtype=torch.float64)
    x = torch.cat([knots, (knots[1:] + knots[:-1]) / 2]).sort().values
    _, slope = transform.forward(x)
    padded = torch.nn.functional.pad(slope, (1, 1), value=-torch.inf)
    tops = torch.nonzero((slope >= padded[:-2]) & (slope >= padded[2:])).flatten()
    tops = tops[slope[tops].topk(min(TOPS, len(tops))).indices]
    gaps = torch.nn.functional.pad(x.diff(), (1, 1))
    return x[tops], torch.maximum(gaps[:-1], gaps[1:])[tops]


def _heights(parts: list[Coordinate], x: Tensor) -> Tensor:
    """p(x_v | y), −∞ where points are NaN: (n, Q) → (n, Q)."""
    total = torch.zeros_like(x)
    for part in parts:
        total.index_add_(0, part.rows, part.density(x[part.rows].nan_to_num(0.0)))
    return torch.where(x.isnan(), -torch.inf, total)
