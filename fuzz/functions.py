"""The input functions of every family, from their definitions.

Nothing here calls the library: of a family only its constructor arguments are read. Numbers are kept as a
phase and a logarithm, so that functions far out in their tails neither underflow nor overflow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fuzz import rules
from fuzz.blocks import bend, block_root, forward, log_roots, moved
from fuzz.rules import Bump, TooLargeError, gaussian_places, number, places

__all__ = [
    "DOUBLE", "Array", "Bump", "Scaled", "TooLargeError", "functions", "log_sum", "logarithm", "mixed",
    "places", "rule",
]  # fmt: skip

Array: TypeAlias = NDArray[Any]
Values: TypeAlias = Mapping[str, Array]  #: of the learnable parameters of a family

DOUBLE = 2.0**-53


@dataclass(frozen=True)
class Points:
    """Where functions are asked for.

    Args:
        x: (n,), or (n, D) of a block, in double precision.
        values: of the learnable parameters.
        fine: double precision in units of that whose rounding is bounded.
        blur: how far points may be off, in these units, of the shape of x.
    """

    x: Array
    values: Values
    fine: float
    blur: Array

    def of(self, values: Values) -> Points:
        """The same points with other values."""
        return replace(self, values=values)


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
    """φ_k(x), (n,) → (n, K), or (n, D) → (n, K) of a block; zero outside the domain.

    Args:
        family: read for its constructor arguments alone.
        x: points in double precision.
        values: of the learnable parameters.
        precision: of the arithmetic whose rounding is bounded; points themselves are in double precision.
    """
    fine = DOUBLE / precision
    return _at(family, Points(x, values, fine, fine * np.abs(x)))


def _at(family: Any, points: Points) -> Scaled:
    found = _FUNCTIONS[type(family).__name__](family, points)
    outside = ~inside(family, points.x)
    if not outside.any():
        return found
    lost = np.broadcast_to(outside[:, None], found.log.shape)
    return Scaled(
        np.where(lost, 0, found.phase),
        np.where(lost, -np.inf, found.log),
        np.where(lost, -np.inf, found.bound),
    )


def rule(families: Sequence[tuple[Any, Values]], bumps: Sequence[Bump] = ()) -> tuple[Array, Array]:
    """Nodes and logarithms of weights, (q,) each, for products of two functions of one variable."""
    return rules.rule(families, bumps, _numbers)


def _numbers(family: Any, x: Array, values: Values) -> Array:
    found = functions(family, x, values, DOUBLE)
    return found.phase * np.exp(found.log)


def inside(family: Any, x: Array) -> Array:
    """Which points lie in the domain of a family."""
    kind = type(family).__name__
    if kind in ("Orthonormalised", "Conjugated"):
        return inside(family.base, x)
    if kind in ("Product", "Concatenated"):
        return inside(family.left, x)
    if kind in ("Legendre", "BSpline"):
        return (x >= family.low) & (x <= family.high)
    if kind == "Fourier":
        return (x >= family.centre - family.period / 2) & (x <= family.centre + family.period / 2)
    if kind == "Laguerre":
        return x >= family.start
    if kind == "Transformed" and family.transform.tails is None:
        return (x >= family.transform.knots[0]) & (x <= family.transform.knots[-1])
    if kind == "Bins" and family.tails is None:
        return (x >= family.edges[0]) & (x <= family.edges[-1])
    return np.isfinite(x) if x.ndim == 1 else np.isfinite(x).all(axis=1)


# ---------------------------------------------------------------------- one function a family


def _categorical(family: Any, at: Points) -> Scaled:
    found = (at.x[:, None] == np.arange(family.size)).astype(float)
    log = logarithm(found)
    return Scaled(found, log, np.stack([log, log]))


def _fourier(family: Any, at: Points) -> Scaled:
    k = np.arange(family.size) - family.size // 2
    turns = (at.x + number(family, at.values, "shift")) / family.period
    phase = np.exp(2j * np.pi * k * np.mod(turns, 1.0)[:, None])
    log = np.full(phase.shape, -0.5 * math.log(family.period))
    offset = np.abs(at.x - family.centre) / family.period + 1 + at.fine * np.abs(turns)
    offset = offset + at.blur / family.period
    offset = offset + abs(number(family, at.values, "shift")) / family.period * (
        1 if "shift" in at.values else at.fine
    )
    return _bounded(phase, log, log + np.log1p(2 * np.pi * np.abs(k) * offset[:, None]))


def _hermite(family: Any, at: Points) -> Scaled:
    loc, scale = number(family, at.values, "loc"), math.exp(number(family, at.values, "log_scale"))
    t = (at.x - loc) / scale
    found = _polynomials("hermite", family.size, t, 1 + (at.blur + at.fine * abs(loc)) / scale)
    return _weighted(found, -t * t / 2 - 0.5 * math.log(scale) - 0.25 * math.log(math.pi), np.log1p(t * t))


def _laguerre(family: Any, at: Points) -> Scaled:
    scale = math.exp(number(family, at.values, "log_scale"))
    t = np.maximum(at.x - family.start, 0) / scale
    found = _polynomials("laguerre", family.size, t, 1 + (at.blur + at.fine * abs(family.start)) / scale)
    return _weighted(found, -t / 2 - 0.5 * math.log(scale), np.log1p(t))


def _legendre(family: Any, at: Points) -> Scaled:
    length = family.high - family.low
    t = np.clip(((at.x - family.low) - (family.high - at.x)) / length, -1, 1)
    found = _polynomials("legendre", family.size, t, 1 + (at.blur + at.fine * abs(family.low)) / length)
    return _weighted(found, np.full(t.shape, -0.5 * math.log(length)), np.zeros(t.shape))


def _gaussian(family: Any, at: Points) -> Scaled:
    locs, scales = gaussian_places(family, at.values)
    t = (at.x[:, None] - locs) / scales
    log = -t * t / 2 - np.log(scales) - 0.5 * math.log(2 * math.pi)
    off = (at.blur[:, None] + at.fine * np.abs(locs)) / scales
    return _bounded(np.ones_like(log), log, log + np.log1p(t * t + np.abs(t) * (1 + off)))


def _bspline(family: Any, at: Points) -> Scaled:
    found = bsplines(family, at.x)
    width = (family.high - family.low) / (family.size - family.degree)
    rough = 1 + (at.blur + at.fine * abs(family.low)) / width
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


def _orthonormalised(family: Any, at: Points) -> Scaled:
    return mixed(inverse_root(family.base), _at(family.base, at.of({})))


def _orthonormalised_block(family: Any, at: Points) -> Scaled:
    root, condition = block_root(family.base)
    base = _at(family.base, at.of({}))
    found = mixed(root, base)
    # entries of the root are as exact as its largest one, and far out the least may be all that counts
    bound = np.logaddexp(found.bound, mixed(np.ones_like(root), base).bound + math.log(1e-3))
    return _rougher(replace(found, bound=bound), np.array(condition))


def _conjugated(family: Any, at: Points) -> Scaled:
    found = _at(family.base, at)
    return replace(found, phase=np.conj(found.phase))


def _product(family: Any, at: Points) -> Scaled:
    a, b = _sides(family, at)
    pairs = (len(at.x), family.size)
    return Scaled(
        (a.phase[:, :, None] * b.phase[:, None, :]).reshape(pairs),
        (a.log[:, :, None] + b.log[:, None, :]).reshape(pairs),
        (a.bound[:, :, :, None] + b.bound[:, :, None, :]).reshape(2, *pairs),
    )


def _concatenated(family: Any, at: Points) -> Scaled:
    a, b = _sides(family, at)
    return Scaled(*(np.concatenate([getattr(p, n) for p in (a, b)], -1) for n in ("phase", "log", "bound")))


def _sides(family: Any, at: Points) -> list[Scaled]:
    """The functions of the two families that a family is made of."""
    parts = []
    for side in ("left", "right"):
        own = {k.removeprefix(side + "."): v for k, v in at.values.items() if k.startswith(side + ".")}
        parts.append(_at(getattr(family, side), at.of(own)))
    return parts


def _transformed(family: Any, at: Points) -> Scaled:
    """φ_k(t(x)) √t′(x)."""
    transform = family.transform
    t, log_slope = forward(transform, at.x)
    if transform.tails is None:
        t = np.clip(t, transform.values[0], transform.values[-1])
    blur = moved(transform, at.x, t, log_slope, at.blur, at.fine)
    found = _at(family.base, replace(at, x=t, blur=blur))
    half = log_slope[:, None] / 2
    found = Scaled(found.phase, found.log + half, found.bound + half)
    return _rougher(found, (np.abs(log_slope) + bend(transform, at.x) * at.blur)[:, None])


def _bins(family: Any, at: Points) -> Scaled:
    """Even on one interval each, e^(−u/2a)/√a at the distance u from the edge in tails."""
    edges, x = np.array(family.edges), at.x
    place = np.searchsorted(edges, x, side="right") - 1  # −1 before the first edge
    log, off = np.zeros(len(x)), np.zeros(len(x))
    if family.tails is None:
        place = np.where(x == edges[-1], len(edges) - 2, place)
    inner = np.clip(place, 0, len(edges) - 2)
    log -= np.log(np.diff(edges)[inner]) / 2
    if family.tails is not None:
        for there, far, length in (
            (place < 0, edges[0] - x, family.tails[0]),
            (place > len(edges) - 2, x - edges[-1], family.tails[1]),
        ):
            log = np.where(there, -far / (2 * length) - math.log(length) / 2, log)
            off = np.where(there, far / (2 * length) + at.blur / length, off)
        place = place + 1
    found = place[:, None] == np.arange(family.size)
    log = np.where(found, log[:, None], -np.inf)
    return _bounded(found.astype(float), log, log + np.log1p(np.abs(np.where(found, log, 0)) + off[:, None]))


def _block(family: Any, at: Points) -> Scaled:
    log, error = log_roots(family, at.x, at.values, at.fine, at.blur)
    return _bounded(np.ones_like(log), log, log + error)


def _rougher(found: Scaled, error: Array) -> Scaled:
    """The same with one more relative error, in units."""
    sizes, errors = found.bound
    return replace(found, bound=np.stack([sizes, np.logaddexp(errors, sizes + logarithm(error))]))


_FUNCTIONS: dict[str, Callable[[Any, Points], Scaled]] = {
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
    "Concatenated": _concatenated,
    "Transformed": _transformed,
    "Bins": _bins,
    "MultivariateGaussian": _block,
    "OrthonormalisedBlock": _orthonormalised_block,
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
