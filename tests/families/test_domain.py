"""Domains: which values belong, and how they are named."""

from __future__ import annotations

import pytest
import torch

from squircuit.errors import ParameterError
from squircuit.families import Finite, HalfLine, Interval, Line

NAN, INF = float("nan"), float("inf")

MEMBERSHIP = [
    (Finite(3), [0.0, 1.0, 2.0], [-1.0, 0.5, 3.0, NAN, INF]),
    (Interval(0.0, 0.1), [0.0, 0.05, 0.1], [-1e-9, 0.1001, NAN, INF]),
    (HalfLine(2.0), [2.0, 1e30], [1.9, NAN, INF, -INF]),
    (Line(), [-1e30, 0.0, 1e30], [NAN, INF, -INF]),
]


@pytest.mark.parametrize(("domain", "inside", "outside"), MEMBERSHIP, ids=lambda value: str(value))
def test_a_domain_contains_its_members_and_nothing_else(domain, inside, outside):
    for dtype in (torch.float32, torch.float64):
        assert domain.contains(torch.tensor(inside, dtype=dtype)).all()
        assert not domain.contains(torch.tensor(outside, dtype=dtype)).any()
        assert domain.contains(torch.tensor(domain.anchor, dtype=dtype))


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool]
)
def test_finite_domains_take_every_integer_type(dtype):
    x = torch.tensor([0, 1], dtype=dtype)
    assert Finite(256).contains(x).tolist() == [True, True]
    assert Finite(1).contains(x).tolist() == [True, False]


def test_domains_describe_themselves():
    domains = (Finite(256), Interval(0.0, 1.0), HalfLine(-2.0), Line())
    words = ["integers 0 to 255", "the interval [0, 1]", "the half-line [-2, ∞)", "the real line"]
    assert [domain.describe() for domain in domains] == words
    assert [domain.is_discrete for domain in domains] == [True, False, False, False]


def test_equal_domains_are_one_key():
    assert len({Finite(2), Finite(2), Interval(0.0, 1.0), Interval(0, 1), HalfLine(0), Line(), Line()}) == 4


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Finite(0), r"Finite: size=0 is too small\. Fix: pass an integer ≥ 1"),
        (lambda: Finite(True), r"Finite: size=True is not an integer"),
        (lambda: Interval(1.0, 1.0), r"Interval: low=1\.0 is not below high=1\.0\. Fix"),
        (lambda: Interval(0.0, INF), r"Interval: high=inf is not a finite number\. Fix"),
        (lambda: HalfLine(NAN), r"HalfLine: start=nan is not a finite number\. Fix"),
    ],
)
def test_bad_domains_are_refused(make, message):
    with pytest.raises(ParameterError, match=message):
        make()
