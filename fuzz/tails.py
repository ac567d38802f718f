"""Which moments are finite, by how the density of a variable falls far out.

Far out the density of every family here is normal or zero, but for bins, where it is exponential. A map that
ends like log(1 + κu)/κ makes x = exp(κ t)/κ of t: lognormal of normal, a power law of exponential; of
anything heavier no moment is left.
"""

from __future__ import annotations

import math
from typing import Any

HARD = 0.5
"""Moments of a power law beyond this share of its index are found by no rule: too much of them is far out."""


def indices(family: Any) -> tuple[float, float]:
    """α at both ends: the density falls like |x|^(−1−α), ∞ where it falls faster than any power."""
    found = [_index(tail) for tail in _ends(family)]
    return found[0], found[1]


def _index(tail: tuple[str, float]) -> float:
    kind, rate = tail
    return rate if kind == "power" else math.inf


def _ends(family: Any) -> list[tuple[str, float]]:
    """What kind of function the density is at both ends, and its rate."""
    kind = type(family).__name__
    if kind in ("Orthonormalised", "Conjugated"):
        return _ends(family.base)
    if kind == "Concatenated":
        return [
            min(pair, key=_heaviness) for pair in zip(_ends(family.left), _ends(family.right), strict=True)
        ]
    if kind == "Bins" and family.tails is not None:
        return [("exponential", 1 / length) for length in family.tails]
    if kind != "Transformed" or family.transform.tails is None:
        return [("normal", 1.0)] * 2
    t = family.transform
    inner, slopes = _ends(family.base), (t.slopes[0], t.slopes[-1])
    return [_moved(*each) for each in zip(inner, slopes, t.tails, strict=True)]


def _heaviness(tail: tuple[str, float]) -> tuple[int, float]:
    return ("power", "lognormal", "exponential", "normal").index(tail[0]), tail[1]


def _moved(tail: tuple[str, float], slope: float, bend: float) -> tuple[str, float]:
    """That of x where t(x) is distributed so, and t is linear or logarithmic far out."""
    kind, rate = tail
    if bend == 0:
        return kind, rate * slope if kind == "exponential" else rate
    if kind == "normal":
        return "lognormal", 1.0
    return "power", rate / bend if kind == "exponential" else 0.0
