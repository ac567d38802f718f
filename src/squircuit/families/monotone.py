"""Smooth monotone maps of one variable: what makes a column of a table look like a normal one."""

from __future__ import annotations

import cmath
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from squircuit.families.cache import constant, kept
from squircuit.families.checks import is_finite, wrong
from squircuit.families.domain import Domain, Interval, Line
from squircuit.families.knots import normal_scores

NEAREST = 4.0
"""The least ρ of a Bernstein ellipse without singularities: 16 nodes then err by 4⁻³², below rounding."""
MOST_HALVINGS = 60


@final
@dataclass(frozen=True)
class Monotone:
    r"""A monotone map t of the line, or of an interval, smooth and with smooth inverse, both in closed form.

    Between the knots x_k it is the rational-quadratic spline through the values y_k with the slopes d_k: with
    w = x_{k+1} − x_k, h = y_{k+1} − y_k, s = h/w and θ = (x − x_k)/w

    .. math:: t(x) = y_k + h\, \frac{s \theta^2 + d_k \theta (1 - \theta)}
                                    {s + (d_{k+1} + d_k - 2 s)\, \theta (1 - \theta)} .

    Beyond the last knot, at the distance u from it, it goes on by log(1 + κ d u)/κ, which is d u for κ = 0,
    and likewise before the first: t′ has no jump, and t is onto the line. A normal t makes x normal far out
    where κ = 0, and lognormal, with heavy tails, where κ > 0.

    Reference: Gregory and Delbourgo, Piecewise rational quadratic interpolation to monotonic data, 1982;
    Durkan et al., Neural spline flows, 2019.

    Args:
        knots: x_k, at least two, increasing.
        values: y_k, increasing.
        slopes: d_k = t′(x_k) > 0.
        tails: κ ≥ 0 before the first and after the last knot. None: t maps the interval of the knots onto
            that of the values and is not defined elsewhere.

    Example:
        >>> t = Monotone(knots=(0.0, 1.0, 3.0), values=(-1.0, 0.0, 1.0), slopes=(1.0, 0.7, 0.4))
        >>> y, log_slope = t.forward(torch.tensor([-1.0, 1.0, 2.0]))
        >>> y
        tensor([-2.0000,  0.0000,  0.5714], dtype=torch.float64)
        >>> t.inverse(y)
        tensor([-1.,  1.,  2.], dtype=torch.float64)
    """

    knots: tuple[float, ...]
    values: tuple[float, ...]
    slopes: tuple[float, ...]
    tails: tuple[float, float] | None = (0.0, 0.0)

    def __post_init__(self) -> None:
        for name in ("knots", "values", "slopes"):
            self._require_numbers(name, len(self.knots) if isinstance(self.knots, Sequence) else 0)
        for name in ("knots", "values"):
            numbers = getattr(self, name)
            if not all(a < b for a, b in itertools.pairwise(numbers)):
                raise wrong(self, name, "does not increase", "pass numbers, each above the one before it")
        if min(self.slopes) <= 0:
            raise wrong(self, "slopes", "is not positive", "pass only slopes > 0")
        if self.tails is not None:
            self._require_numbers("tails", 2, least=2)
            if min(self.tails) < 0:
                raise wrong(self, "tails", "is negative", "pass two numbers ≥ 0: 0 for a linear tail")

    @staticmethod
    def fit(
        values: ArrayLike, knots: int = 256, weights: ArrayLike | None = None, ends: ArrayLike = ()
    ) -> Monotone:
        """The map that makes a sample nearly normal, smooth enough that it holds for other samples, too.

        See :func:`squircuit.families.knots.normal_scores` for the rule.

        Args:
            values: the sample, (n,) numbers; NaN counts as missing.
            knots: at most that many.
            weights: of the values, (n,) numbers ≥ 0.
            ends: where knots may lie, besides where values do: ends of the cells of rounded numbers.

        Example:
            >>> import numpy as np
            >>> x = np.random.default_rng(0).lognormal(size=2000)
            >>> y, _ = Monotone.fit(x).forward(torch.from_numpy(x))
            >>> abs(y.mean().item()) < 0.01, abs(y.std().item() - 1) < 0.02
            (True, True)
        """
        return Monotone(*normal_scores(values, knots, weights, ends))

    @property
    def domain(self) -> Domain:
        """The set on which t is defined: the line, or the interval of the knots."""
        return Line() if self.tails is not None else Interval(self.knots[0], self.knots[-1])

    @property
    def image(self) -> Domain:
        """What t is onto: the line, or the interval of the values."""
        return Line() if self.tails is not None else Interval(self.values[0], self.values[-1])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """t(x) and log t′(x), (...,) each, in double precision; NaN where x is."""
        x = x.double()
        return _forward(x, self._piece(self.knots, x), self.knots[0], self.knots[-1], self._tails())

    def inverse(self, t: Tensor) -> Tensor:
        """The x with t(x) = t, (...,), in double precision; NaN where t is."""
        t = t.double()
        first, last = self.values[0], self.values[-1]
        low, width, base, rise, slope, near, far = self._piece(self.values, t)
        above = t.clamp(first, last) - base
        bow = far + near - 2 * slope
        a, b, c = rise * (slope - near) + above * bow, rise * near - above * bow, -slope * above
        root = (b.square() - 4 * a * c).clamp(min=0).sqrt()
        x = low + width * (2 * c / (-b - root)).clamp(0, 1)
        for sign, end, steep, bend in self._tails(self.values):
            beyond = torch.where(sign * (t - end) > 0, sign * (t - end), 0.0)
            x = x + sign * (torch.expm1(bend * beyond) / bend if bend else beyond) / steep
        return x

    def panels(self, t: Tensor) -> Tensor:
        """Sorted points (m,) between which polynomials suit functions of t(x) as well as those of t before.

        They are t⁻¹ of the points given, the knots, and halves of what lies near a singularity of t or √t′ in
        the complex plane, so that the ellipse of Bernstein with ρ = 4 around each panel is free of them.

        Args:
            t: sorted points (q,), float64.
        """
        ends = self.inverse(t)
        knots = constant(self.knots, ends)
        inner = knots[(knots > ends[0]) & (knots < ends[-1])]
        points: Tensor = torch.unique(torch.cat([ends, inner]))
        singular = _singularities(self, ends.device)
        for _ in range(MOST_HALVINGS):
            middles, halves = points[:-1] + points.diff() / 2, points.diff() / 2
            z = (singular[torch.bucketize(middles, knots)] - middles[:, None]) / halves[:, None]
            root = (z.square() - 1).sqrt()
            sizes = torch.maximum((z + root).abs(), (z - root).abs()).nan_to_num(nan=math.inf)  # ρ, ∞ at ∞
            near = sizes.amin(dim=1) < NEAREST
            near &= (middles > points[:-1]) & (middles < points[1:])  # neighbouring doubles have no middle
            if not near.any():
                break
            points = torch.cat([points, middles[near]]).sort().values
        return points

    def _piece(self, ends: tuple[float, ...], at: Tensor) -> tuple[Tensor, ...]:
        """x_k, w, y_k, h, s, d_k, d_{k+1} of the piece in which each point lies, (...,) each."""
        number = torch.searchsorted(
            constant(ends[1:-1], at), at.detach().clone(memory_format=torch.contiguous_format), right=True
        )
        return tuple(constant(numbers, at)[number] for numbers in _pieces(self))

    def _tails(self, ends: tuple[float, ...] | None = None) -> list[tuple[float, float, float, float]]:
        """Each tail: its sign, where it begins, d and κ."""
        if self.tails is None:
            return []
        ends = self.knots if ends is None else ends
        return [
            (-1.0, ends[0], self.slopes[0], self.tails[0]),
            (1.0, ends[-1], self.slopes[-1], self.tails[1]),
        ]

    def _require_numbers(self, name: str, count: int, least: int = 2) -> None:
        value = getattr(self, name)
        numbers = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else ()
        if len(numbers) != count or count < least or not all(is_finite(number) for number in numbers):
            fix = f"pass {max(count, least)} finite numbers"
            raise wrong(self, name, f"is not {max(count, least)} finite numbers", fix)
        object.__setattr__(self, name, tuple(float(number) for number in numbers))


@final
class Monotones:
    """Maps of the line, one for each row of points, in as many operations as one of them takes.

    Args:
        maps: t_1, …, t_F, all with tails.
        device: of the points.

    Example:
        >>> t = Monotone(knots=(0.0, 1.0, 3.0), values=(-1.0, 0.0, 1.0), slopes=(1.0, 0.7, 0.4))
        >>> maps = Monotones([t, Monotone((0.0, 1.0), (0.0, 2.0), (2.0, 2.0))], torch.device("cpu"))
        >>> maps.forward(torch.tensor([[-1.0, 1.0, 2.0], [0.5, 1.0, 1.5]]))[0]
        tensor([[-2.0000,  0.0000,  0.5714],
                [ 1.0000,  2.0000,  3.0000]], dtype=torch.float64)
    """

    def __init__(self, maps: Sequence[Monotone], device: torch.device) -> None:
        most = max(len(t.knots) for t in maps)

        def rows(numbers: Sequence[Sequence[float]], filling: float | None = None) -> Tensor:
            filled = [
                [*row, *[row[-1] if filling is None else filling] * (most - len(row))] for row in numbers
            ]
            return torch.tensor(filled, dtype=torch.float64, device=device)

        self._inner = rows([t.knots[1:-1] for t in maps], math.inf)
        self._numbers = torch.stack([rows(each) for each in zip(*map(_pieces, maps), strict=True)])
        ends = torch.tensor([(t.knots[0], t.knots[-1]) for t in maps], dtype=torch.float64, device=device)
        self._first, self._last = ends.T[..., None]
        tails = torch.tensor([t._tails() for t in maps], dtype=torch.float64, device=device)
        self._tails = [tuple(tail[..., None]) for tail in tails.permute(1, 2, 0)]

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """t_f(x) and log t_f′(x) of row f: (F, B) each, in double precision; NaN where x is."""
        x = x.double()
        number = torch.searchsorted(
            self._inner, x.detach().clone(memory_format=torch.contiguous_format), right=True
        )
        pieces = self._numbers.gather(2, number.expand(len(self._numbers), -1, -1)).unbind()
        return _forward(x, pieces, self._first, self._last, self._tails)


def _forward(
    x: Tensor, pieces: Sequence[Tensor], first: Any, last: Any, tails: Sequence[Sequence[Any]]
) -> tuple[Tensor, Tensor]:
    """t(x) and log t′(x) with the numbers of the pieces in which points lie; those of maps may be columns."""
    low, width, base, rise, slope, near, far = pieces
    theta = (x.clamp(first, last) - low) / width
    mixed = theta * (1 - theta)
    below = slope + (far + near - 2 * slope) * mixed
    t = base + rise * (slope * theta.square() + near * mixed) / below
    grown = far * theta.square() + 2 * slope * mixed + near * (1 - theta).square()
    log_slope = 2 * slope.log() + grown.log() - 2 * below.log()
    for sign, end, steep, bend in tails:
        beyond = torch.where(sign * (x - end) > 0, sign * (x - end) * steep, 0.0)
        bent = torch.log1p(bend * beyond)
        t = t + sign * _unbent(bent, beyond, bend)
        log_slope = log_slope - bent
    return t, log_slope


def _unbent(bent: Tensor, beyond: Tensor, bend: Any) -> Tensor:
    """log(1 + κu)/κ, or u where κ = 0."""
    if not isinstance(bend, Tensor):
        return bent / bend if bend else beyond
    return torch.where(bend == 0, beyond, bent / torch.where(bend == 0, 1.0, bend))


@kept(4096)
def _pieces(t: Monotone) -> tuple[tuple[float, ...], ...]:
    """x_k, w, y_k, h, s, d_k and d_{k+1} of every piece."""
    x, y, d = t.knots, t.values, t.slopes
    width = tuple(b - a for a, b in itertools.pairwise(x))
    rise = tuple(b - a for a, b in itertools.pairwise(y))
    slope = tuple(h / w for h, w in zip(rise, width, strict=True))
    return x[:-1], width, y[:-1], rise, slope, d[:-1], d[1:]


@kept(1024)
def _singularities(t: Monotone, device: torch.device) -> Tensor:
    """Points of the complex plane where t or √t′ of each piece is not analytic: (K + 1, 4), with tails.

    Of a spline these are the poles of t and the zeros of t′, roots of quadratics in θ; of a bent tail it is
    the point where the logarithm ends.
    """
    nowhere = complex(math.inf, 0.0)
    bent = [
        [complex(end - sign / (bend * steep))] + [nowhere] * 3 if bend else [nowhere] * 4
        for sign, end, steep, bend in t._tails()
    ] or [[nowhere] * 4] * 2
    inner = [
        [low + width * root for root in _roots(slope, near, far)]
        for low, width, _, _, slope, near, far in zip(*_pieces(t), strict=True)
    ]
    return torch.tensor([bent[0], *inner, bent[1]], dtype=torch.complex128, device=device)


def _roots(slope: float, near: float, far: float) -> list[complex]:
    """The θ at which a piece has a pole, and those at which its derivative is zero."""
    bow = far + near - 2 * slope
    return [*_quadratic(-bow, bow, slope), *_quadratic(bow, 2 * (slope - near), near)]


def _quadratic(a: float, b: float, c: float) -> tuple[complex, complex]:
    """Both roots of a θ² + b θ + c, stably; infinite where there is none."""
    root = cmath.sqrt(b * b - 4 * a * c)
    q = -(b + root if b >= 0 else b - root) / 2
    infinite = complex(math.inf, 0.0)
    return (q / a if a else infinite), (c / q if q else infinite)
