"""The shared numerics: panels and recurrences."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from squircuit.families.quadrature import gauss_legendre, halve, merge, spread
from squircuit.families.recurrence import three_term

numbers = st.floats(-100, 100)
breaks = st.lists(numbers, min_size=2, max_size=8).map(lambda x: torch.tensor(sorted(x), dtype=torch.float64))


@given(breaks, st.integers(0, 31))
def test_sixteen_points_integrate_degree_31_exactly(points, degree):
    scale = points.abs().max() + 1
    nodes, weights = gauss_legendre(points, points=16)
    exact = ((points[-1] / scale) ** (degree + 1) - (points[0] / scale) ** (degree + 1)) / (degree + 1)
    assert abs((weights * (nodes / scale) ** degree).sum() / scale - exact) < 1e-13


@given(breaks, breaks)
def test_merged_breakpoints_are_sorted_and_span_the_intersection(first, second):
    merged = merge(first, second)
    low, high = max(first[0], second[0]), min(first[-1], second[-1])
    assert merged.diff().ge(0).all()
    assert merged[0] == low
    assert merged[-1] == max(low, high)
    if low < high:
        both = set(first.tolist()) | set(second.tolist())
        assert set(merged.tolist()) == {x for x in both if low <= x <= high}


@given(breaks)
def test_halving_keeps_the_integral_and_doubles_the_panels(points):
    halved = halve(points)
    assert len(halved) == 2 * len(points) - 1
    assert abs(gauss_legendre(halved)[1].sum() - (points[-1] - points[0])) < 1e-11


@given(numbers, numbers)
def test_spreading_meets_both_ends_exactly(low, high):
    ends = spread(torch.tensor([0.0, 1.0], dtype=torch.float64), low, high)
    assert ends.tolist() == [low, high]


def test_a_recurrence_whose_weight_underflows_still_gives_its_product():
    # p_n = t^n with the weight exp(−n log t) at the last n: the product is 1, its factors are not numbers.
    t = torch.tensor(50.0)
    rows = three_term(t, [(0.0, 1.0, 0.0)] * 100, -100 * t.log())
    assert t**100 == torch.inf
    assert abs(rows[-1] - 1) < 1e-3
