"""The conformance suite of transformed families and of bins."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from families.conformance import Case, FamilyConformance, close, dense_rule, scalars
from squircuit.errors import ParameterError
from squircuit.families import (
    Bins,
    BSpline,
    Fourier,
    Gaussian,
    Hermite,
    Laguerre,
    Legendre,
    Monotone,
    Orthonormalised,
    Transformed,
)
from squircuit.families.quadrature import gauss_legendre

SKEW = Monotone((-1.0, 0.0, 0.5, 3.0), (-1.5, 0.2, 1.0, 1.8), (0.8, 2.5, 1.2, 0.1), tails=(0.5, 0.3))
SPIKE = Monotone((-2.0, 0.0, 0.05, 2.5), (-1.2, -0.7, 0.9, 1.6), (0.3, 1.0, 0.8, 0.2), tails=(0.0, 0.5))
BENT = Monotone((0.0, 1.0, 4.0), (-1.0, 0.5, 1.0), (0.7, 0.9, 0.1), tails=None)


def mapped(t: Monotone, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """t and t′ by the formulas of Gregory and Delbourgo, piece by piece."""
    value, slope = np.full_like(x, np.nan), np.full_like(x, np.nan)
    for k in range(len(t.knots) - 1):
        at = (x >= t.knots[k]) & (x <= t.knots[k + 1])
        width, rise = t.knots[k + 1] - t.knots[k], t.values[k + 1] - t.values[k]
        s, d, e, a = rise / width, t.slopes[k], t.slopes[k + 1], (x[at] - t.knots[k]) / width
        below = s + (d + e - 2 * s) * a * (1 - a)
        value[at] = t.values[k] + rise * (s * a**2 + d * a * (1 - a)) / below
        slope[at] = s**2 * (e * a**2 + 2 * s * a * (1 - a) + d * (1 - a) ** 2) / below**2
    for end, sign in ((0, -1.0), (-1, 1.0)) if t.tails is not None else ():
        at = sign * (x - t.knots[end]) > 0
        u, d, bend = sign * (x[at] - t.knots[end]), t.slopes[end], t.tails[end]
        value[at] = t.values[end] + sign * (np.log(1 + bend * d * u) / bend if bend else d * u)
        slope[at] = d / (1 + bend * d * u)
    return value, slope


def fine_rule(t: Monotone, reach: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Many even panels in each piece; in the tails even ones in t, up to |t| = reach."""
    rules = [dense_rule(a, b, 200) for a, b in zip(t.knots, t.knots[1:], strict=False)]
    for end, sign in ((0, -1.0), (-1, 1.0)) if t.tails is not None else ():
        d, bend = t.slopes[end], t.tails[end]
        beyond, weights = dense_rule(0.0, reach - sign * t.values[end], 60)
        u = torch.expm1(bend * beyond) / (bend * d) if bend else beyond / d
        rules.append((t.knots[end] + sign * u, weights * torch.exp(bend * beyond) / d))
    nodes, weights = (torch.cat(parts) for parts in zip(*rules, strict=True))
    return nodes, weights


class TestTransformed(FamilyConformance):
    def cases(self):
        return [
            Case(Transformed(Hermite(1), SKEW)),
            Case(Transformed(Hermite(6), SPIKE)),
            Case(Transformed(Hermite(4, learnable=True), SKEW), scalars(loc=0.3, log_scale=-0.2)),
            Case(Transformed(Gaussian(3, loc=(-1.0, 0.0, 1.0), learnable=False), SPIKE)),
            Case(Transformed(Legendre(4, -1.0, 1.0), BENT)),
            Case(Transformed(Fourier(5, period=2.0), BENT)),
            Case(Transformed(Orthonormalised(BSpline(5, -1.0, 1.0)), BENT)),
        ]

    def large(self):
        return [Case(Transformed(Hermite(60), SPIKE)), Case(Transformed(Legendre(60, -1.0, 1.0), BENT))]

    def rule(self, case):
        return fine_rule(case.family.transform, 24.0 if case.family.size > 6 else 16.0)

    def formula(self, case, x):
        t, slope = mapped(case.family.transform, x)
        rows = case.family.base.evaluate(torch.from_numpy(t), case.values).numpy()
        return rows * np.sqrt(slope)[:, None]

    def others(self, case):
        t = case.family.transform
        if t.tails is None:
            return [Case(Transformed(Legendre(3, -1.0, 1.0), t)), Case(Legendre(5, 0.0, 4.0))]
        return [
            Case(Transformed(Hermite(3, loc=0.2), t)),
            Case(Transformed(Hermite(2), SKEW if t is SPIKE else SPIKE)),
            Case(Gaussian(2, loc=(0.0, 0.5), scale=(0.8, 0.4))),
        ]

    def overlap(self, case, other, rule):
        if isinstance(other.family, Transformed) and other.family.transform != case.family.transform:
            both = sorted({*case.family.transform.knots, *other.family.transform.knots})
            ends = [*np.linspace(-60, both[0], 200)[:-1], *both, *np.linspace(both[-1], 120, 400)[1:]]
            rules = [dense_rule(a, b, 60 if a in both else 2) for a, b in itertools.pairwise(ends)]
            rule = tuple(torch.cat(parts) for parts in zip(*rules, strict=True))
        return super().overlap(case, other, rule)

    def outside(self, case):
        return [] if case.family.transform.tails is not None else [-1e-9, 4.0 + 1e-9]

    def points(self, case):
        return torch.tensor([0.03, 0.3, 0.7, 2.0, 3.7], dtype=torch.float64)

    def test_what_the_base_is_on_must_be_what_the_map_is_onto(self):
        for base, t in ((Legendre(3), SKEW), (Hermite(3), BENT), (Laguerre(2), SKEW)):
            with pytest.raises(ParameterError, match=r"^Transformed: base=.* onto .*Fix"):
                Transformed(base, t)


class TestBins(FamilyConformance):
    def cases(self):
        return [
            Case(Bins((0.0, 4.0))),
            Case(Bins((0.0, 1.0, 1.5, 4.0))),
            Case(Bins((0.0, 1.0, 1.5, 4.0), tails=(0.5, 2.0))),
        ]

    def large(self):
        return [Case(Bins(tuple(4 * k / 200 for k in range(201)), tails=(0.1, 0.3)))]

    def rule(self, case):
        edges = case.family.edges
        rules = [dense_rule(a, b, 1) for a, b in itertools.pairwise(edges)]
        if case.family.tails is not None:
            before, after = case.family.tails
            rules += [dense_rule(-120 * before, 0.0, 40), dense_rule(4.0, 4 + 120 * after, 40)]
        return tuple(torch.cat(parts) for parts in zip(*rules, strict=True))

    def formula(self, case, x):
        edges, tails = np.array(case.family.edges), case.family.tails
        inner = [((x >= a) & (x < b)) / np.sqrt(b - a) for a, b in itertools.pairwise(edges)]
        if tails is None:
            return np.stack(inner, axis=1)
        first = np.where(x < 0, np.exp(np.minimum(x, 0) / (2 * tails[0])) / np.sqrt(tails[0]), 0.0)
        last = np.where(x >= 4, np.exp(-np.maximum(x - 4, 0) / (2 * tails[1])) / np.sqrt(tails[1]), 0.0)
        return np.stack([first, *inner, last], axis=1)

    def others(self, case):
        if case.family.tails is None:
            return [Case(Bins((0.0, 0.5, 1.5, 2.0, 4.0))), Case(Legendre(3, 0.0, 4.0))]
        return [Case(Bins((0.2, 0.5, 2.0), tails=(1.0, 0.3))), Case(Gaussian(1, loc=(1.0,), scale=0.5))]

    def overlap(self, case, other, rule):
        if isinstance(other.family, Bins) and case.family.size < 100:  # their jumps are elsewhere
            cuts = np.unique([*case.family.edges, *other.family.edges])
            ends = np.concatenate(
                [np.linspace(-60, cuts[0], 61)[:-1], cuts, np.linspace(cuts[-1], 240, 121)[1:]]
            )
            rules = [dense_rule(a, b, 2) for a, b in itertools.pairwise(ends)]
            rule = tuple(torch.cat(parts) for parts in zip(*rules, strict=True))
        return super().overlap(case, other, rule)

    def outside(self, case):
        return [-1e-9, 4 + 1e-9] if case.family.tails is None else []

    def points(self, case):
        return torch.tensor([0.03, 0.3, 1.2, 2.0, 3.7], dtype=torch.float64)

    def test_the_end_of_an_interval_belongs_to_it(self):
        close(
            Bins((0.0, 1.0, 2.0)).evaluate(torch.tensor([0.0, 1.0, 2.0])),
            torch.tensor([[1.0, 0], [0, 1], [0, 1]]),
        )


def test_sixteen_points_integrate_on_maps_of_all_kinds():
    for bow in (0.0, 1e-12, 0.5):  # without poles, with some far out, near ones
        t = Monotone((0.0, 1.0, 2.0), (0.0, 1.0, 1.001), (2.0 - 1e-4 + bow, 1e-4, 1e-4), tails=(0.5, 0.0))
        nodes, weights = gauss_legendre(Transformed(Hermite(8), t).breakpoints(), points=16)
        rows = Transformed(Hermite(8), t).evaluate(nodes)
        close((rows.mT * weights) @ rows, torch.eye(8), atol=1e-12)


def test_a_transform_that_takes_the_base_beyond_floats_is_refused_with_the_fix():
    steep = Monotone((0.0, 1.0), (0.0, 1.0), (1.0, 1.0), tails=(0.0, 40.0))
    with pytest.raises(ParameterError, match=r"takes the ends of the base to .*Fix: pass a transform"):
        Transformed(Hermite(2), steep)
