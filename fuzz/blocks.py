"""Monotone maps and Gaussians of several variables, from their definitions: what the oracle has of blocks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Values: TypeAlias = Mapping[str, Array]

BISECTIONS = 64
EXTENT = 8.6  #: standard deviations of a density, beyond which there are 1e-17 of it
STEP = 0.75  #: of the trapezoid rule in standard deviations, which is exact to 1e-15 then
ORDER = ("loc", "factor", "log_scale", "loading")  #: of the numbers that a family may begin with


# ---------------------------------------------------------------------- monotone maps


def forward(transform: Any, x: Array) -> tuple[Array, Array]:
    """t(x) and log t′(x) of a rational-quadratic spline with its tails."""
    knots, values, slopes = (np.array(getattr(transform, name)) for name in ("knots", "values", "slopes"))
    k = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, len(knots) - 2)
    w, h = np.diff(knots)[k], np.diff(values)[k]
    near, far, s = slopes[k], slopes[k + 1], (np.diff(values) / np.diff(knots))[k]
    theta = np.clip((x - knots[k]) / w, 0, 1)
    below = s + (far + near - 2 * s) * theta * (1 - theta)
    t = values[k] + h * (s * theta**2 + near * theta * (1 - theta)) / below
    above = far * theta**2 + 2 * s * theta * (1 - theta) + near * (1 - theta) ** 2
    log_slope = np.log(s**2 * above / below**2)
    for sign, end, slope, bend in _tails(transform):
        u = np.maximum(sign * (x - end), 0) * slope
        t = t + sign * (np.log1p(bend * u) / bend if bend else u)
        log_slope = log_slope - np.log1p(bend * u)
    return t, log_slope


def backward(transform: Any, t: Array) -> Array:
    """x with t(x) = t: by halving intervals between knots, in closed form beyond them."""
    t = np.asarray(t, float)
    low, high = np.full(t.shape, transform.knots[0]), np.full(t.shape, transform.knots[-1])
    for _ in range(BISECTIONS):
        middle = low + (high - low) / 2
        is_above = forward(transform, middle)[0] > t
        low, high = np.where(is_above, low, middle), np.where(is_above, middle, high)
    x = np.where(t <= transform.values[0], transform.knots[0], high)
    for (sign, end, slope, bend), edge in zip(
        _tails(transform), (transform.values[0], transform.values[-1]), strict=False
    ):
        beyond = sign * (t - edge)
        u = np.maximum(beyond, 0)
        x = np.where(beyond > 0, end + sign * (np.expm1(bend * u) / bend if bend else u) / slope, x)
    return x


def bend(transform: Any, x: Array) -> Array:
    """|d log t′(x) / dx|, by a difference."""
    step = 1e-5 * min(np.diff(transform.knots).min(), 1 / max(transform.slopes))
    ahead, behind = (forward(transform, x + sign * step)[1] for sign in (1, -1))
    return np.abs(ahead - behind) / (2 * step)


def _tails(transform: Any) -> list[tuple[float, float, float, float]]:
    """Sign, end, slope and κ of the tails, the lower one first."""
    if transform.tails is None:
        return []
    return [
        (-1.0, transform.knots[0], transform.slopes[0], transform.tails[0]),
        (1.0, transform.knots[-1], transform.slopes[-1], transform.tails[1]),
    ]


# ---------------------------------------------------------------------- Gaussians


def transforms(family: Any) -> tuple[Any, ...]:
    """The map of each variable of a Gaussian block, None where there is none."""
    return (None,) * family.dimension if family.columns is None else tuple(family.columns)


def gaussians(family: Any, values: Values) -> tuple[Array, Array]:
    """Means (n, D) and lower triangular factors L (n, D, D) of the covariances L Lᵀ."""
    found = dict(values) or _first(family)
    n, d = family.size, family.dimension
    loc = np.asarray(found["loc"], float)
    if family.covariance == "diagonal":
        return loc, np.exp(np.asarray(found["log_scale"], float))[:, :, None] * np.eye(d)
    if family.covariance == "low-rank":
        noise = np.exp(np.asarray(found["log_scale"], float))[:, :, None] * np.eye(d)
        wide = np.concatenate([noise, np.asarray(found["loading"], float)], axis=2)
        upper = np.stack([np.linalg.qr(each.T, mode="r") for each in wide])
        signs = np.sign(np.diagonal(upper, axis1=1, axis2=2))
        return loc, np.swapaxes(upper * signs[:, :, None], 1, 2)
    raw = np.broadcast_to(np.asarray(found["factor"], float), (n, d, d))
    return loc, np.tril(raw, -1) + np.exp(np.diagonal(raw, axis1=1, axis2=2))[:, :, None] * np.eye(d)


def _first(family: Any) -> dict[str, Array]:
    """The numbers that a family was made with."""
    n, d, r = family.size, family.dimension, family.rank
    shapes = {"loc": (n, d), "factor": (n, d, d), "log_scale": (n, d), "loading": (n, d, r)}
    names = {
        "full": ("loc", "factor"),
        "tied": ("loc", "factor"),
        "diagonal": ("loc", "log_scale"),
        "low-rank": ("loc", "log_scale", "loading"),
    }[family.covariance]
    if family.covariance == "tied":
        shapes["factor"] = (d, d)
    if family.start is None:  # of one function: the standard normal distribution
        assert n == 1
        assert r is None
        return {name: np.zeros(shapes[name]) for name in names}
    return {name: np.reshape(row, shapes[name]) for name, row in zip(names, family.start, strict=True)}


def log_roots(family: Any, x: Array, values: Values, fine: float, blur: Array) -> tuple[Array, Array]:
    """log f_k(x) = ½ log N(t(x); μ_k, Σ_k) + ½ Σ log t′, (N, D) → (N, n), and log of its relative error.

    Args:
        family: Gaussians of several variables.
        x: points.
        values: of its parameters.
        fine: units of double precision in the unit of errors.
        blur: how far points may be off, in that unit.
    """
    loc, factor = gaussians(family, values)
    t, blur = np.array(x, float), np.array(blur, float)
    half, turned = np.zeros(len(t)), np.zeros(len(t))
    for v, transform in enumerate(transforms(family)):
        if transform is not None:
            t[:, v], log_slope = forward(transform, x[:, v])
            half += log_slope / 2
            turned += bend(transform, x[:, v]) * blur[:, v]
            blur[:, v] = moved(transform, x[:, v], t[:, v], log_slope, blur[:, v], fine)
    inverse = np.linalg.inv(factor)
    apart = t[:, None, :] - loc  # (N, n, D)
    z = np.einsum("nde,Nne->Nnd", inverse, apart)
    constant = np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1) / 2 + family.dimension / 4 * (
        math.log(2 * math.pi)
    )
    log = half[:, None] - constant - (z**2).sum(axis=2) / 4
    off = np.einsum("nde,Nne->Nnd", np.abs(inverse), blur[:, None, :] + fine * np.abs(loc) + np.abs(apart))
    off = np.abs(z) * (off + np.abs(z))
    return log, np.log1p(off.sum(axis=2) + np.abs(constant) + turned[:, None])


def moved(transform: Any, x: Array, t: Array, log_slope: Array, blur: Array, fine: float) -> Array:
    """How far t(x) may be off, where x may be off by ``blur``."""
    slope = np.exp(log_slope)
    return slope * (blur + fine * np.abs(transform.knots).max()) + fine * (
        np.abs(t) + np.abs(transform.values).max()
    )


def overlaps(family: Any, values: Values) -> Array:
    """∫ f_j f_k in closed form, (n, n): (8π)^(D/2) |Σ_j|^¼ |Σ_k|^¼ N(μ_j − μ_k; 0, 2 Σ_j + 2 Σ_k)."""
    loc, factor = gaussians(family, values)
    d = family.dimension
    spread = factor @ np.swapaxes(factor, 1, 2)
    both = 2 * (spread[:, None] + spread)
    apart = loc[:, None] - loc
    roots = np.linalg.det(spread) ** 0.25
    distance = np.einsum("jkd,jkde,jke->jk", apart, np.linalg.inv(both), apart)
    density = np.exp(-distance / 2) / np.sqrt(np.linalg.det(2 * np.pi * both))
    return (8 * np.pi) ** (d / 2) * roots[:, None] * roots * density


@lru_cache(maxsize=256)
def block_root(base: Any) -> tuple[Array, float]:
    """G^(−1/2) of the overlaps of a block without learnable parameters, and its condition number."""
    sizes, vectors = np.linalg.eigh(overlaps(base, {}))
    return (vectors / np.sqrt(sizes)) @ vectors.T, float(sizes[-1] / sizes[0])


def places(
    family: Any, values: Values, coordinate: int, missing: Sequence[int], x: Array | None
) -> list[tuple[float, float, float]]:
    """Where the squares of Gaussians lie along one missing coordinate: mean, deviation, and its least one.

    The last is that given all other coordinates, and less where these depend on each other, so that a
    product rule whose steps are in its proportion integrates over all of them.

    Args:
        family: Gaussians of several variables.
        values: of its parameters.
        coordinate: the one.
        missing: the coordinates that are integrated over, it among them.
        x: rows (N, D) that show the others; None where there are none.
    """
    loc, factor = gaussians(family, values)
    seen = [v for v in range(family.dimension) if v not in missing]
    i, left = list(missing).index(coordinate), list(missing)
    found = []
    for mean, lower in zip(loc, factor, strict=True):
        spread = lower @ lower.T
        inner, means = spread[np.ix_(left, left)], mean[left][None]
        if seen:
            assert x is not None
            shown = np.stack([shown_at(family, v, x[:, v]) for v in seen], axis=1)
            gain = spread[np.ix_(left, seen)] @ np.linalg.inv(spread[np.ix_(seen, seen)])
            inner = inner - gain @ spread[np.ix_(seen, left)]
            means = means + (shown - mean[seen]) @ gain.T
        precision = np.linalg.inv(inner)
        least = 1 / np.sqrt(np.diagonal(precision))
        tangle = float(np.linalg.eigvalsh(least[:, None] * precision * least).max())
        deviation = float(np.sqrt(inner[i, i]))
        found += [(float(m), deviation, float(least[i]) / math.sqrt(tangle)) for m in means[:, i]]
    return found


def shown_at(family: Any, coordinate: int, x: Array) -> Array:
    """t of one observed coordinate."""
    transform = transforms(family)[coordinate]
    return x if transform is None else forward(transform, x)[0]
