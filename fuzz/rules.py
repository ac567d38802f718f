"""Nodes and weights that integrate products of two input functions over one variable, and low moments."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fuzz.blocks import EXTENT, STEP, backward, forward

Array: TypeAlias = NDArray[Any]
Values: TypeAlias = Mapping[str, Array]  #: of the learnable parameters of a family
Nodes: TypeAlias = tuple[Array, Array]  #: and the logarithms of weights
Evaluate: TypeAlias = Callable[[Any, Array, Values], Array]  #: numbers (q, K) of a family at points

MOST_NODES = 400  #: of one variable
POINTS = 12  #: of a panel
TESTED = 1e-14  #: the error of a panel, of the whole integral
ROUNDS = 24  #: of halving
TAIL = (7.0, 15.0, 24.0, 34.0, 45.0)  #: where panels of an exponential tail end, in its mean lengths
WRAPPED = ("Orthonormalised", "Conjugated", "Product", "Concatenated")


class TooLargeError(Exception):
    """More nodes are needed than the oracle is willing to go through."""


@dataclass(frozen=True)
class Bump:
    """A Gaussian along one coordinate of a block: N(t(x); mean, deviation²) t′(x)."""

    transform: Any
    mean: float
    deviation: float
    least: float  # the deviation given the other coordinates

    def density(self, x: Array) -> Array:
        """At points, (q,)."""
        t, log_slope = (x, np.zeros_like(x)) if self.transform is None else forward(self.transform, x)
        z = (t - self.mean) / self.deviation
        return np.exp(log_slope - z * z / 2) / self.deviation / math.sqrt(2 * math.pi)


def rule(families: Sequence[tuple[Any, Values]], bumps: Sequence[Bump], evaluate: Evaluate) -> Nodes:
    """Nodes and logarithms of weights, (q,) each, for products of two functions of some families.

    Moments up to the fourth are integrated as well. All families are over one variable.
    """
    bases = [(base, own) for family, values in families for base, own in _bases(family, values)]
    kinds = {type(base).__name__ for base, _ in bases}
    if "Categorical" in kinds:
        size = max(base.size for base, _ in bases)
        return np.arange(size, dtype=float), np.zeros(size)
    if kinds & {"Transformed", "Bins"} or any(bump.transform is not None for bump in bumps):
        return _tested(bases, bumps, evaluate)
    if bumps or kinds & {"Hermite", "Gaussian"}:
        return _line([_stretch(place) for each in bases for place in places(*each)] + _stretches(bumps))
    return _half_line(bases) if "Laguerre" in kinds else _interval(bases)


def _bases(family: Any, values: Values) -> list[tuple[Any, Values]]:
    """The families that functions are made of."""
    kind = type(family).__name__
    if kind in ("Product", "Concatenated"):
        found = []
        for side in ("left", "right"):
            own = {k.removeprefix(side + "."): v for k, v in values.items() if k.startswith(side + ".")}
            found += _bases(getattr(family, side), own)
        return found
    if kind in ("Orthonormalised", "Conjugated"):
        return _bases(family.base, values)
    return [(family, values)]


def number(family: Any, values: Values, name: str) -> float:
    """A learnable number: its present value, or the one the family was made with."""
    if name in values:
        return float(values[name])
    return math.log(family.scale) if name == "log_scale" else float(getattr(family, name))


def gaussian_places(family: Any, values: Values) -> tuple[Array, Array]:
    """The means and the standard deviations of Gaussian functions."""
    if "loc" in values:
        return np.asarray(values["loc"], float), np.exp(np.asarray(values["log_scale"], float))
    even = np.linspace(-1, 1, family.size) if family.size > 1 else np.zeros(1)
    locs = even if family.loc is None else np.asarray(family.loc, float)
    return locs, np.broadcast_to(np.asarray(family.scale, float), locs.shape)


def places(family: Any, values: Values) -> list[tuple[float, float, float]]:
    """(location, scale, extent in scales) of the functions of a family on the line."""
    ((family, values),) = _bases(family, values)[:1]
    if type(family).__name__ == "Gaussian":
        return [(float(m), float(s), 6.5) for m, s in zip(*gaussian_places(family, values), strict=True)]
    loc, scale = number(family, values, "loc"), math.exp(number(family, values, "log_scale"))
    return [(loc, scale, 6.5 + math.sqrt(2 * family.size - 1))]


# ---------------------------------------------------------------------- one kind of domain each


def _stretch(place: tuple[float, float, float]) -> tuple[float, float, float]:
    loc, scale, extent = place
    return loc, scale * extent, 0.47 * scale


def _stretches(bumps: Sequence[Bump]) -> list[tuple[float, float, float]]:
    return [(bump.mean, EXTENT * bump.deviation, STEP * bump.least) for bump in bumps]


def _line(stretches: Sequence[tuple[float, float, float]]) -> Nodes:
    """The trapezoid rule, which is exact to rounding for what decays like exp(−t²); a cluster at a time."""
    if not all(math.isfinite(number) for each in stretches for number in each):
        raise TooLargeError("a place on a line is not finite")
    spans: list[list[float]] = []
    for loc, reach, step in sorted(set(stretches), key=lambda p: p[0] - p[1]):
        low, high = loc - reach, loc + reach
        if spans and low <= spans[-1][1]:
            spans[-1] = [spans[-1][0], max(high, spans[-1][1]), min(step, spans[-1][2])]
        else:
            spans.append([low, high, step])
    counts = [math.ceil((high - low) / step) + 1 for low, high, step in spans]
    if sum(counts) > MOST_NODES:
        raise TooLargeError(f"{sum(counts)} nodes on a line")
    nodes = np.concatenate(
        [np.linspace(low, high, n) for (low, high, _), n in zip(spans, counts, strict=True)]
    )
    steps = [np.full(n, (high - low) / (n - 1)) for (low, high, _), n in zip(spans, counts, strict=True)]
    return nodes, np.log(np.concatenate(steps))


def _half_line(families: Sequence[tuple[Any, Values]]) -> Nodes:
    scales = {math.exp(number(family, values, "log_scale")) for family, values in families}
    start, size = families[0][0].start, max(family.size for family, _ in families)
    if len(scales) == 1:
        (scale,) = scales
        t, w = np.polynomial.laguerre.laggauss(size + 4)
        return start + scale * t, np.log(w) + t + math.log(scale)
    reach = math.sqrt(4 * size - 2) + 7
    low, high = min(scales), max(scales)
    panels = math.ceil(reach * math.sqrt(high / low) / 1.5)
    if panels * 10 > MOST_NODES:
        raise TooLargeError("scales on a half-line are far apart")
    u, w = _panels(np.linspace(0, reach * math.sqrt(high), panels + 1), 10)
    return start + u * u, np.log(2 * u * w)


def _interval(families: Sequence[tuple[Any, Values]]) -> Nodes:
    ends = {end for family, values in families for end in _ends(family, values)}
    points = 4
    for family, _ in families:
        kind = type(family).__name__
        if kind == "BSpline":
            points = max(points, family.degree + 4)
        else:
            points = max(points, family.size + 3 if kind == "Legendre" else 12 + 7 * (family.size // 2))
    nodes, weights = _panels(np.array(sorted(ends)), points)
    return nodes, np.log(weights)


def _panels(ends: Array, points: int) -> Nodes:
    x, w = np.polynomial.legendre.leggauss(points)
    half = np.diff(ends)[:, None] / 2
    return (ends[:-1, None] + half + half * x).ravel(), (half * w).ravel()


# ---------------------------------------------------------------------- families of different kinds


def _ends(family: Any, values: Values) -> list[float]:
    """Points between which the functions of a family are smooth, and nearly polynomials."""
    kind = type(family).__name__
    if kind in WRAPPED:
        return [end for base, own in _bases(family, values) for end in _ends(base, own)]
    if kind == "Transformed":
        inner = np.array(sorted(_ends(family.base, values)))
        return [*backward(family.transform, inner).tolist(), *family.transform.knots]
    if kind == "BSpline":
        pieces = family.size - family.degree
        return [family.low + (family.high - family.low) * i / pieces for i in range(pieces + 1)]
    if kind == "Legendre":
        return [family.low, family.high]
    if kind == "Fourier":
        return [family.centre - family.period / 2, family.centre + family.period / 2]
    if kind == "Bins":
        if family.tails is None:
            return list(family.edges)
        first, last = family.edges[0], family.edges[-1]
        before, after = family.tails
        return [*(first - before * u for u in TAIL), *family.edges, *(last + after * u for u in TAIL)]
    where = places(family, values)
    return [loc + scale * u for loc, scale, extent in where for u in np.linspace(-extent, extent, 9)]


def _tested(bases: Sequence[tuple[Any, Values]], bumps: Sequence[Bump], evaluate: Evaluate) -> Nodes:
    """Gauss rules on panels that are halved until all integrals stay the same.

    Panels are those of the coordinate after a map, where there is one: far out x may grow exponentially in t.
    """
    maps = [base.transform for base, _ in bases if type(base).__name__ == "Transformed"]
    maps += [bump.transform for bump in bumps if bump.transform is not None]
    turn = maps[0] if maps else None
    ends = [end for base, values in bases for end in _ends(base, values)]
    for bump in bumps:
        count = 3 + math.ceil(9 * bump.deviation / bump.least)
        t = bump.mean + _extent(bump) * bump.deviation * np.linspace(-1, 1, count)
        if bump.transform is None:
            ends += t.tolist()
        else:
            ends += [*backward(bump.transform, t).tolist(), *bump.transform.knots]
    x = np.array(ends)
    if not np.isfinite(x).all():
        raise TooLargeError("a place on a line is not finite")
    if turn is not None and turn.tails is None:
        x = np.clip(x, turn.knots[0], turn.knots[-1])
    s = np.unique(x if turn is None else forward(turn, x)[0])
    s = s[np.append(True, np.diff(s) > 1e-9 * (s[-1] - s[0]) / len(s))]
    open_, done = [np.stack([s[:-1], s[1:]], axis=1)], []
    middle = float(np.median(x))
    total: Any = 0.0
    for _ in range(ROUNDS):
        if not open_ or not len(open_[0]):
            break
        panels = open_.pop()
        if POINTS * (len(panels) + sum(map(len, done))) > MOST_NODES:
            raise TooLargeError("panels on a line")
        cut = panels.mean(axis=1)
        left, right = np.stack([panels[:, 0], cut], axis=1), np.stack([cut, panels[:, 1]], axis=1)
        rough = _integrals(panels, turn, middle, bases, bumps, evaluate)
        fine = sum(_integrals(half, turn, middle, bases, bumps, evaluate) for half in (left, right))
        total = np.maximum(total, np.abs(fine).sum(axis=0))
        wrong = (np.abs(rough - fine) > TESTED * total).any(axis=1)
        done.append(panels[~wrong])
        if wrong.any():
            open_.append(np.concatenate([left[wrong], right[wrong]]))
    else:
        done += open_  # what rounding does not let agree
    panels = np.concatenate(done)
    panels = panels[np.argsort(panels[:, 0])]
    nodes, logs = _nodes(panels, turn)
    return nodes.ravel(), logs.ravel()


def _extent(bump: Bump) -> float:
    """Deviations from the mean within which its third moment is: far out x grows like exp(κ t)."""
    tails = None if bump.transform is None else bump.transform.tails
    return EXTENT + (0.0 if tails is None else 3 * max(tails) * bump.deviation)


def _nodes(panels: Array, turn: Any) -> Nodes:
    """Nodes and logarithms of weights of panels (P, 2) in the coordinate t: (P, points) each."""
    z, w = np.polynomial.legendre.leggauss(POINTS)
    half = np.diff(panels, axis=1) / 2
    s = panels[:, :1] + half + half * z
    logs = np.log(half * w)
    if turn is None:
        return s, logs
    x = backward(turn, s.ravel())
    return x.reshape(s.shape), logs - forward(turn, x)[1].reshape(s.shape)


def _integrals(
    panels: Array, turn: Any, middle: float, bases: Any, bumps: Sequence[Bump], evaluate: Evaluate
) -> Array:
    """Integrals of squares, of the square of a sum and of their moments over every panel: (P, tests)."""
    x, logs = _nodes(panels, turn)
    rows = [evaluate(base, x.ravel(), values) for base, values in bases]
    squares = [bump.density(x.ravel())[:, None] for bump in bumps]
    if rows:
        units = np.concatenate(rows, axis=1)
        mix = np.cos(1 + np.arange(units.shape[1]))
        squares += [np.abs(units) ** 2, np.abs(units @ mix)[:, None] ** 2]
    found = np.concatenate(squares, axis=1)
    away = (x.ravel() - middle)[:, None]
    found = np.concatenate([found * away**k for k in range(4)], axis=1)
    return (found.reshape(*x.shape, -1) * np.exp(logs)[:, :, None]).sum(axis=1)
