"""The input functions of every family, from their definitions, and the rules that integrate them.

Nothing here calls the library: of a family only its constructor arguments are read. Numbers are kept as a
phase and a logarithm, so that functions far out in their tails neither underflow nor overflow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Values: TypeAlias = Mapping[str, Array]  #: of the learnable parameters of a family

DOUBLE = 2.0**-53
MOST_NODES = 400  #: of one variable


class TooLargeError(Exception):
    """More nodes are needed than the oracle is willing to go through."""


@dataclass(frozen=True)
class Scaled:
    """Numbers v = phase · exp(log), (..., K), with bounds of what rounding can do to them.

    ``bound`` holds two logarithms, (2, ..., K): of the sum of the absolute values of all terms that v was
    added up from, and of the same sum with the error of each function, in units of the precision, in place of
    its absolute value.
    """

    phase: Array  # of modulus 1, or 0
    log: Array  # −inf where the number is 0
    bound: Array

    def reshape(self, shape: tuple[int, ...]) -> Scaled:
        """The same numbers in another shape."""
        return Scaled(self.phase.reshape(shape), self.log.reshape(shape), self.bound.reshape(2, *shape))

    def exact(self) -> Scaled:
        """The same numbers at points that are known exactly, such as the nodes of a rule."""
        return replace(self, bound=np.stack([self.bound[0]] * 2))


def logarithm(values: Array) -> Array:
    """log |v|, −inf where v is 0."""
    with np.errstate(divide="ignore"):
        return np.log(np.abs(values))


def phases(values: Array) -> Array:
    """v / |v|, 0 where v is 0."""
    size = np.abs(values)
    return np.divide(values, size, out=np.zeros_like(values), where=size > 0)


def log_sum(logs: Array, axis: int | tuple[int, ...]) -> Array:
    """log Σ exp(logs) along some axes."""
    top = np.max(logs, axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(logs - top).sum(axis=axis)) + np.squeeze(top, axis=axis)


def mixed(matrix: Array, values: Scaled) -> Scaled:
    """W v, (..., K2) → (..., K1)."""
    size, turn = logarithm(matrix), phases(matrix)
    logs = size + values.log[..., None, :]
    top = logs.max(axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    total = (turn * values.phase[..., None, :] * np.exp(logs - top)).sum(axis=-1)
    return Scaled(
        phases(total), logarithm(total) + top[..., 0], log_sum(size + values.bound[..., None, :], axis=-1)
    )


def functions(family: Any, x: Array, values: Values, precision: float) -> Scaled:
    """φ_k(x), (n,) → (n, K), zero outside the domain.

    Args:
        family: read for its constructor arguments alone.
        x: points in double precision.
        values: of the learnable parameters.
        precision: of the arithmetic whose rounding is bounded; points themselves are in double precision.
    """
    found = _FUNCTIONS[type(family).__name__](family, x, values, DOUBLE / precision)
    outside = ~inside(family, x)
    if not outside.any():
        return found
    lost = np.broadcast_to(outside[:, None], found.log.shape)
    return Scaled(
        np.where(lost, 0, found.phase),
        np.where(lost, -np.inf, found.log),
        np.where(lost, -np.inf, found.bound),
    )


def inside(family: Any, x: Array) -> Array:
    """Which points lie in the domain of a family."""
    kind = type(family).__name__
    if kind in ("Orthonormalised", "Conjugated"):
        return inside(family.base, x)
    if kind == "Product":
        return inside(family.left, x)
    if kind in ("Legendre", "BSpline"):
        return (x >= family.low) & (x <= family.high)
    if kind == "Fourier":
        return (x >= family.centre - family.period / 2) & (x <= family.centre + family.period / 2)
    if kind == "Laguerre":
        return x >= family.start
    return np.isfinite(x)


def number(family: Any, values: Values, name: str) -> float:
    """A learnable number: its present value, or the one the family was made with."""
    if name in values:
        return float(values[name])
    return math.log(family.scale) if name == "log_scale" else float(getattr(family, name))


# ---------------------------------------------------------------------- one function a family


def _categorical(family: Any, x: Array, values: Values, fine: float) -> Scaled:
    found = (x[:, None] == np.arange(family.size)).astype(float)
    log = logarithm(found)
    return Scaled(found, log, np.stack([log, log]))


def _fourier(family: Any, x: Array, values: Values, fine: float) -> Scaled:
    k = np.arange(family.size) - family.size // 2
    turns = (x + number(family, values, "shift")) / family.period
    phase = np.exp(2j * np.pi * k * np.mod(turns, 1.0)[:, None])
    log = np.full(phase.shape, -0.5 * math.log(family.period))
    offset = np.abs(x - family.centre) / family.period + 1 + fine * np.abs(turns)
    offset = offset + abs(number(family, values, "shift")) / family.period * (
        1 if "shift" in values else fine
    )
    return _bounded(phase, log, log + np.log1p(2 * np.pi * np.abs(k) * offset[:, None]))


def _hermite(family: Any, x: Array, values: Values, fine: float) -> Scaled:
    loc, scale = number(family, values, "loc"), math.exp(number(family, values, "log_scale"))
    t = (x - loc) / scale
    found = _polynomials("hermite", family.size, t, 1 + fine * (np.abs(x) + abs(loc)) / scale)
    return _weighted(found, -t * t / 2 - 0.5 * math.log(scale) - 0.25 * math.log(math.pi), np.log1p(t * t))


def _laguerre(family: Any, x: Array, values: Values, fine: float) -> Scaled:
    scale = math.exp(number(family, values, "log_scale"))
    t = np.maximum(x - family.start, 0) / scale
    found = _polynomials("laguerre", family.size, t, 1 + fine * (np.abs(x) + abs(family.start)) / scale)
    return _weighted(found, -t / 2 - 0.5 * math.log(scale), np.log1p(t))


def _legendre(family: Any, x: Array, values: Values, fine: float) -> Scaled:
    length = family.high - family.low
    t = np.clip(((x - family.low) - (family.high - x)) / length, -1, 1)
    found = _polynomials("legendre", family.size, t, 1 + fine * (np.abs(x) + abs(family.low)) / length)
    return _weighted(found, np.full(t.shape, -0.5 * math.log(length)), np.zeros(t.shape))


def _gaussian(family: Any, x: Array, values: Values, fine: float) -> Scaled:
    locs, scales = gaussian_places(family, values)
    t = (x[:, None] - locs) / scales
    log = -t * t / 2 - np.log(scales) - 0.5 * math.log(2 * math.pi)
    moved = fine * (np.abs(x)[:, None] + np.abs(locs)) / scales
    return _bounded(np.ones_like(log), log, log + np.log1p(t * t + np.abs(t) * (1 + moved)))


def gaussian_places(family: Any, values: Values) -> tuple[Array, Array]:
    """The means and the standard deviations of Gaussian functions."""
    if "loc" in values:
        return np.asarray(values["loc"], float), np.exp(np.asarray(values["log_scale"], float))
    even = np.linspace(-1, 1, family.size) if family.size > 1 else np.zeros(1)
    locs = even if family.loc is None else np.asarray(family.loc, float)
    return locs, np.broadcast_to(np.asarray(family.scale, float), locs.shape)


def _bspline(family: Any, x: Array, values: Values, fine: float) -> Scaled:
    found = bsplines(family, x)
    width = (family.high - family.low) / (family.size - family.degree)
    rough = 1 + fine * (np.abs(x) + abs(family.low)) / width
    envelope = np.abs(found) + (family.degree > 0) * rough[:, None]
    return _bounded(phases(found), logarithm(found), logarithm(np.where(found == 0, 0, envelope)))


def bsplines(family: Any, x: Array) -> Array:
    """The clamped B-splines by the recursion of Cox and de Boor, the last piece closed: (n, K)."""
    p, pieces = family.degree, family.size - family.degree
    inner = np.array([family.low + (family.high - family.low) * i / pieces for i in range(pieces + 1)])
    knots = np.concatenate([[family.low] * p, inner, [family.high] * p])
    piece = np.clip(np.searchsorted(inner, x, side="right") - 1, 0, pieces - 1) + p
    found = (piece[:, None] == np.arange(len(knots) - 1)).astype(float)
    for d in range(1, p + 1):
        raised = np.zeros((len(x), len(knots) - 1 - d))
        for i in range(len(knots) - 1 - d):
            if knots[i + d] > knots[i]:
                raised[:, i] += (x - knots[i]) / (knots[i + d] - knots[i]) * found[:, i]
            if knots[i + d + 1] > knots[i + 1]:
                raised[:, i] += (knots[i + d + 1] - x) / (knots[i + d + 1] - knots[i + 1]) * found[:, i + 1]
        found = raised
    return found


def _orthonormalised(family: Any, x: Array, values: Values, fine: float) -> Scaled:
    below = functions(family.base, x, {}, DOUBLE / fine)
    return mixed(inverse_root(family.base), below)


def _conjugated(family: Any, x: Array, values: Values, fine: float) -> Scaled:
    found = functions(family.base, x, values, DOUBLE / fine)
    return replace(found, phase=np.conj(found.phase))


def _product(family: Any, x: Array, values: Values, fine: float) -> Scaled:
    parts = []
    for side in ("left", "right"):
        own = {k.removeprefix(side + "."): v for k, v in values.items() if k.startswith(side + ".")}
        parts.append(functions(getattr(family, side), x, own, DOUBLE / fine))
    a, b = parts
    pairs = (len(x), family.size)
    return Scaled(
        (a.phase[:, :, None] * b.phase[:, None, :]).reshape(pairs),
        (a.log[:, :, None] + b.log[:, None, :]).reshape(pairs),
        (a.bound[:, :, :, None] + b.bound[:, :, None, :]).reshape(2, *pairs),
    )


_FUNCTIONS: dict[str, Callable[[Any, Array, Values, float], Scaled]] = {
    "Categorical": _categorical,
    "Fourier": _fourier,
    "Hermite": _hermite,
    "Laguerre": _laguerre,
    "Legendre": _legendre,
    "Gaussian": _gaussian,
    "BSpline": _bspline,
    "Orthonormalised": _orthonormalised,
    "Conjugated": _conjugated,
    "Product": _product,
}


@lru_cache(maxsize=256)
def _coefficients(kind: str, size: int) -> Array:
    """Normalised polynomials by powers of t: (K, K), row n holds the coefficients of the n-th."""
    rows = np.zeros((size, size))
    for n in range(size):
        unit = np.eye(size)[n, : n + 1]
        if kind == "hermite":
            powers = np.polynomial.hermite.herm2poly(unit) / math.sqrt(2.0**n * math.factorial(n))
        elif kind == "legendre":
            powers = np.polynomial.legendre.leg2poly(unit) * math.sqrt(2 * n + 1)
        else:
            powers = np.polynomial.laguerre.lag2poly(unit)
        rows[n, : len(powers)] = powers
    return rows


def _polynomials(kind: str, size: int, t: Array, offset: Array) -> tuple[Array, Array]:
    """The polynomials at t, and a bound of their rounding where t itself is known up to ``offset`` units."""
    rows = _coefficients(kind, size)
    powers = t[:, None] ** np.arange(size)
    sizes = np.abs(powers) @ np.abs(rows).T
    slopes = np.abs(rows[:, 1:]) * np.arange(1, size)
    steep = np.abs(powers[:, : size - 1]) @ slopes.T if size > 1 else np.zeros_like(sizes)
    return powers @ rows.T, sizes + (np.abs(t) + offset)[:, None] * steep


def _weighted(found: tuple[Array, Array], log_weight: Array, log_rounding: Array) -> Scaled:
    values, sizes = found
    log = logarithm(values) + log_weight[:, None]
    return _bounded(phases(values), log, logarithm(sizes) + (log_weight + log_rounding)[:, None])


def _bounded(phase: Array, log: Array, error: Array) -> Scaled:
    return Scaled(phase, log, np.stack([log, np.maximum(log, error)]))


@lru_cache(maxsize=256)
def inverse_root(base: Any) -> Array:
    """G^(−1/2) of the Gram matrix of a family without learnable parameters."""
    nodes, log_weights = rule([(base, {})])
    found = functions(base, nodes, {}, DOUBLE)
    rows = found.phase * np.exp(found.log + log_weights[:, None] / 2)
    gram = rows.T @ np.conj(rows)
    sizes, vectors = np.linalg.eigh(gram)
    return (vectors / np.sqrt(sizes)) @ np.conj(vectors.T)


# ---------------------------------------------------------------------- integration


def rule(families: list[tuple[Any, Values]]) -> tuple[Array, Array]:
    """Nodes and logarithms of weights, (q,) each, for products of two functions of some families.

    Moments up to the fourth are integrated as well. All families are over one variable.
    """
    bases = [(_base(family), values) for family, values in families]
    first = bases[0][0]
    kind = type(first).__name__
    if kind == "Categorical":
        return np.arange(first.size, dtype=float), np.zeros(first.size)
    if kind in ("Hermite", "Gaussian"):
        return _line(bases)
    return _half_line(bases) if kind == "Laguerre" else _interval(bases)


def _base(family: Any) -> Any:
    while type(family).__name__ in ("Orthonormalised", "Conjugated", "Product"):
        family = family.left if type(family).__name__ == "Product" else family.base
    return family


def places(family: Any, values: Values) -> list[tuple[float, float, float]]:
    """(location, scale, extent in scales) of the functions of a family on the line."""
    family = _base(family)
    if type(family).__name__ == "Gaussian":
        return [(float(m), float(s), 6.5) for m, s in zip(*gaussian_places(family, values), strict=True)]
    loc, scale = number(family, values, "loc"), math.exp(number(family, values, "log_scale"))
    return [(loc, scale, 6.5 + math.sqrt(2 * family.size - 1))]


def _line(families: list[tuple[Any, Values]]) -> tuple[Array, Array]:
    """The trapezoid rule, which is exact to rounding for what decays like exp(−t²); a cluster at a time."""
    found = sorted({place for family, values in families for place in places(family, values)})
    spans: list[list[float]] = []
    for loc, scale, extent in sorted(found, key=lambda p: p[0] - p[1] * p[2]):
        low, high = loc - scale * extent, loc + scale * extent
        if spans and low <= spans[-1][1]:
            spans[-1] = [spans[-1][0], max(high, spans[-1][1]), min(scale, spans[-1][2])]
        else:
            spans.append([low, high, scale])
    counts = [math.ceil((high - low) / (0.47 * scale)) + 1 for low, high, scale in spans]
    if sum(counts) > MOST_NODES:
        raise TooLargeError(f"{sum(counts)} nodes on a line")
    nodes = np.concatenate(
        [np.linspace(low, high, n) for (low, high, _), n in zip(spans, counts, strict=True)]
    )
    steps = [np.full(n, (high - low) / (n - 1)) for (low, high, _), n in zip(spans, counts, strict=True)]
    return nodes, np.log(np.concatenate(steps))


def _half_line(families: list[tuple[Any, Values]]) -> tuple[Array, Array]:
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


def _interval(families: list[tuple[Any, Values]]) -> tuple[Array, Array]:
    ends, points = set(), 4
    for family, _ in families:
        kind = type(family).__name__
        if kind == "BSpline":
            pieces = family.size - family.degree
            ends |= {family.low + (family.high - family.low) * i / pieces for i in range(pieces + 1)}
            points = max(points, family.degree + 4)
        elif kind == "Legendre":
            ends |= {family.low, family.high}
            points = max(points, family.size + 3)
        else:
            ends |= {family.centre - family.period / 2, family.centre + family.period / 2}
            points = max(points, 12 + 7 * (family.size // 2))
    return _logged(_panels(np.array(sorted(ends)), points))


def _panels(ends: Array, points: int) -> tuple[Array, Array]:
    x, w = np.polynomial.legendre.leggauss(points)
    half = np.diff(ends)[:, None] / 2
    return (ends[:-1, None] + half + half * x).ravel(), (half * w).ravel()


def _logged(found: tuple[Array, Array]) -> tuple[Array, Array]:
    return found[0], np.log(found[1])
