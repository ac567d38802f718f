"""Random families of input functions, as Python text: of one variable on any domain, and of blocks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fuzz.program import Program

Random = np.random.Generator
Place = tuple[str, float, float]  #: kind of a domain with two numbers that say where it is

LARGE = (1e6, -3e5, 1.7e9)  #: locations of the kind of timestamps


def chance(random: Random, probability: float) -> bool:
    """True with that probability."""
    return bool(random.random() < probability)


def choice(random: Random, options: Any) -> Any:
    """One of several, as Python values."""
    return options[int(random.integers(len(options)))]


def domain(random: Random, kind: str | None = None) -> Place:
    """Where a continuous variable lives."""
    kind = choice(random, ("line", "line", "interval", "half")) if kind is None else kind
    large = chance(random, 0.12)
    if kind == "line":
        loc = choice(random, LARGE) if large else round(random.normal(), 2)
        return kind, loc, 1000.0 if loc == 1.7e9 else choice(random, (1.0, 0.3, 2.5))
    low = choice(random, LARGE) if large else choice(random, (-1.0, 0.0, -2.5))
    if kind == "half":
        return kind, low, choice(random, (1.0, 0.5, 3.0)) * (1000 if low == 1.7e9 else 1)
    return kind, low, low + (3600.0 if low == 1.7e9 else choice(random, (1.0, 2.0, 6.0)))


def categorical(random: Random, wide: bool) -> str:
    """Of a discrete variable."""
    sizes = random.choice([4, 5, 6]) if wide else random.choice([1, 2, 3, 4], p=[0.04, 0.4, 0.36, 0.2])
    return f"sq.Categorical({int(sizes)}{', ordered=True' if chance(random, 0.15) else ''})"


def family(random: Random, where: Place, wide: bool, *, learnable: bool | None = None, depth: int = 0) -> str:
    """A family on a domain.

    Args:
        random: the choices.
        where: the domain.
        wide: whether it has many functions.
        learnable: whether its numbers are parameters; None: perhaps.
        depth: of transforms around it.
    """
    kind, first, second = where
    size = int(random.choice([4, 5])) if wide else int(random.choice([1, 2, 3, 4]))
    learnable = chance(random, 0.4) if learnable is None else learnable
    if kind == "half":
        return f"sq.Laguerre({size}, {first}, {second}, {learnable})"
    if chance(random, 0.35) and depth < 2:
        return _of_new_kinds(random, where, size, wide, learnable, depth)
    if kind == "interval":
        return _on_interval(random, size, first, second, learnable)
    return _on_line(random, size, first + second * choice(random, (0.0, 0.0, 0.5)), second, learnable)


def _of_new_kinds(random: Random, where: Place, size: int, wide: bool, learnable: bool, depth: int) -> str:
    if chance(random, 0.3) and depth == 0:
        return bins(random, where, size)
    made, inner = monotone(random, where)
    if inner[0] == "line" and chance(random, 0.2):
        if chance(random, 0.7):  # beyond linear tails, of exponential ones few moments exist
            made = linear(random, where)
        inner = ("line", 0.0, 1.0)
        return f"sq.Transformed({bins(random, inner, size)}, {made})"
    if chance(random, 0.12):
        base = family(random, inner, wide, learnable=False, depth=depth + 1)
        return f"sq.Orthonormalised(sq.Transformed({base}, {made}))"
    base = family(random, inner, wide, learnable=learnable, depth=depth + 1)
    return f"sq.Transformed({base}, {made})"


def _on_line(random: Random, size: int, loc: float, scale: float, learnable: bool) -> str:
    if chance(random, 0.6):
        return f"sq.Hermite({size}, {loc}, {scale}, {learnable})"
    locs = [float(loc + scale * (k - 1)) for k in range(size)]
    scales = [float(scale * (1 + 0.2 * k)) for k in range(size)]
    if chance(random, 0.4):
        return f"sq.Orthonormalised(sq.Gaussian({size}, {tuple(locs)}, {tuple(scales)}, False))"
    return f"sq.Gaussian({size}, {tuple(locs)}, {tuple(scales)}, {learnable})"


def _on_interval(random: Random, size: int, low: float, high: float, learnable: bool) -> str:
    kind = choice(random, ("fourier", "legendre", "spline", "orthonormal"))
    if kind == "fourier":
        odd, period = size + (size + 1) % 2, high - low
        shift = choice(random, (0.0, 0.3))
        return f"sq.Fourier({odd}, {period}, {low + period / 2}, {shift}, {learnable})"
    if kind == "legendre":
        return f"sq.Legendre({size}, {low}, {high})"
    degree = int(random.integers(0, min(3, size - 1) + 1))
    spline = f"sq.BSpline({size}, {low}, {high}, {degree})"
    return spline if kind == "spline" else f"sq.Orthonormalised({spline})"


# ---------------------------------------------------------------------- bins and maps


def bins(random: Random, where: Place, size: int) -> str:
    """Functions that are even on intervals, with tails on a line."""
    kind, first, second = where
    if kind == "interval":
        return f"sq.Bins({_between(random, first, second, size - 1)})"
    count = max(2, size - 1)
    edges = (first + second * np.cumsum(random.uniform(0.2, 1.5, count))).tolist()
    if chance(random, 0.25):
        rows = np.round(first + second * random.exponential(size=25), 3 if abs(first) < 1e3 else 0)
        rows[:: int(random.integers(2, 6))] = rows[0]
        return f"sq.Bins.fit({rows.tolist()}, {count + 1})"
    tails = tuple(float(second * choice(random, (0.3, 1.0, 4.0))) for _ in range(2))
    return f"sq.Bins({tuple(edges)}, {tails})"


def _between(random: Random, low: float, high: float, inner: int) -> tuple[float, ...]:
    """Increasing numbers from low to high."""
    parts = np.cumsum(random.uniform(0.3, 1.5, inner + 1))
    return (low, *(low + (high - low) * parts[:-1] / parts[-1]).tolist(), high)


def monotone(random: Random, where: Place) -> tuple[str, Place]:
    """A map of a domain, and what it is onto."""
    kind, first, second = where
    count = int(random.integers(2, 5))
    if kind == "interval":
        low, high = choice(random, ((-1.0, 1.0), (0.0, 2.0), (-3.0, 0.5)))
        knots, values = _between(random, first, second, count - 2), _between(random, low, high, count - 2)
        return f"sq.Monotone({knots}, {values}, {_slopes(random, knots, values)}, None)", (kind, low, high)
    if chance(random, 0.25):
        return _fitted(random, first, second), ("line", 0.0, 1.0)
    steps = random.uniform(0.3, 1.5, (2, count))
    knots = tuple((first + second * (np.cumsum(steps[0]) - steps[0].sum() / 2)).tolist())
    values = tuple((np.cumsum(steps[1]) - steps[1].sum() / 2).tolist())
    tails = choice(random, ((0.0, 0.0), (0.0, 0.0), (0.3, 0.0), (0.5, 0.5), (0.0, 0.8)))
    made = f"sq.Monotone({knots}, {values}, {_slopes(random, knots, values)}, {tails})"
    return made, ("line", 0.0, choice(random, (1.0, 1.0, 0.5)))


def linear(random: Random, where: Place) -> str:
    """A map of the line that is linear beyond its knots."""
    while True:
        made, _ = monotone(random, where)
        if made.endswith("(0.0, 0.0))"):
            return made


def _slopes(random: Random, knots: tuple[float, ...], values: tuple[float, ...]) -> tuple[float, ...]:
    """Slopes at knots, about those between them, some of them odd."""
    mean = (values[-1] - values[0]) / (knots[-1] - knots[0])
    slopes = mean * np.exp(0.5 * random.normal(size=len(knots)))
    if chance(random, 0.1):
        slopes[random.integers(len(knots))] *= choice(random, (0.05, 20.0))
    return tuple(slopes.tolist())


def _fitted(random: Random, loc: float, scale: float) -> str:
    """A map that is fitted to a column of data, which may have spikes."""
    shape = random.exponential(size=25) if chance(random, 0.5) else random.normal(size=25)
    rows = np.round(loc + scale * shape, 3 if abs(loc) < 1e3 else 0)
    if chance(random, 0.4):
        rows[: int(random.integers(2, 12))] = rows[0]
    return f"sq.Monotone.fit({rows.tolist()}, {int(random.integers(2, 9))})"


# ---------------------------------------------------------------------- blocks


@dataclass
class Block:
    """Variables with functions of all of them at once."""

    variables: tuple[int, ...]
    families: list[str] = field(default_factory=list)

    @property
    def scope(self) -> frozenset[int]:
        """The variables as a set."""
        return frozenset(self.variables)


def block(program: Program, random: Random, variables: tuple[int, ...], where: list[Place]) -> Block:
    """A block with one or two families, mostly in the same coordinates."""
    found = Block(variables)
    shared: str | None = None
    for _ in range(1 + chance(random, 0.3)):
        if shared is None or chance(random, 0.1):
            shared = _columns(program, random, where)
        found.families.append(program.let("f", gaussians(random, where, shared)))
    return found


def _columns(program: Program, random: Random, where: list[Place]) -> str:
    """The maps of the variables of a block, "None" where there are none."""
    if not chance(random, 0.35):
        return "None"
    maps = [
        program.let("t", monotone(random, place)[0]) if chance(random, 0.6) else "None" for place in where
    ]
    return f"({', '.join(maps)},)"


def gaussians(random: Random, where: list[Place], maps: str) -> str:
    """Gaussians of several variables, learnable or not, orthonormalised or not."""
    d = len(where)
    size = int(random.choice([1, 2, 3] if d < 3 else [1, 2]))
    kind = str(choice(random, ("full", "full", "diagonal", "tied", "low-rank")))
    rank = int(random.integers(1, d + 1)) if kind == "low-rank" else None
    near = all(abs(loc) < 5 for _, loc, _ in where)
    if near and chance(random, 0.25):
        return f"sq.MultivariateGaussian({size}, {d}, {kind!r}, {rank}, {maps})"
    mapped = [name != "None" for name in maps.strip("(),").split(", ")] if maps != "None" else [False] * d
    loc = np.array([0.0 if m else place[1] for place, m in zip(where, mapped, strict=True)])
    scale = np.array([1.0 if m else place[2] for place, m in zip(where, mapped, strict=True)])
    orthonormal = chance(random, 0.35)
    learnable = not orthonormal and chance(random, 0.7)
    means = loc + scale * np.round(random.normal(size=(size, d)), 2)
    if orthonormal:
        means = means + 1.5 * scale * np.arange(size)[:, None]
    made = (
        f"sq.MultivariateGaussian.of({means.tolist()}, {_spreads(random, kind, rank, size, scale)}, {kind!r}"
    )
    made += f", {maps}, {learnable})"
    return f"sq.OrthonormalisedBlock({made})" if orthonormal else made


def _spreads(random: Random, kind: str, rank: int | None, size: int, scale: Any) -> str:
    """Covariances of a kind, as Python text."""
    d = len(scale)
    widths = scale * np.exp(0.3 * random.normal(size=(size, d)))
    if chance(random, 0.1):
        widths[0] *= choice(random, (0.2, 4.0))
    if kind == "diagonal":
        return str((widths**2).tolist())
    strength = choice(random, (0.3, 0.7, 2.0) if d < 3 else (0.3, 0.6))
    if kind == "low-rank":
        loading = strength * scale[:, None] * random.normal(size=(size, d, rank))
        return f"({(widths**2).tolist()}, {loading.tolist()})"
    factor = strength * np.tril(random.normal(size=(size, d, d)), -1) + np.eye(d)
    factor = widths[:, :, None] * factor
    found = factor @ np.swapaxes(factor, 1, 2)
    return str((found[0] if kind == "tied" else found).tolist())
