"""Bad arguments are refused with the class, the argument, its value and the fix."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import squircuit as sq
from squircuit.errors import ParameterError
from squircuit.families import (
    BSpline,
    Categorical,
    Conjugated,
    Fourier,
    Gaussian,
    Hermite,
    Laguerre,
    Legendre,
    Orthonormalised,
    Product,
)

NAN, INF = float("nan"), float("inf")
SIZED = [
    Categorical,
    lambda size: Fourier(size, period=1.0),
    Hermite,
    Legendre,
    Laguerre,
    lambda size: BSpline(size, degree=0),
    Gaussian,
]


@pytest.mark.parametrize("make", SIZED)
@pytest.mark.parametrize("size", [0, -1, True, 2.0, "3", None, torch.tensor(3)], ids=repr)
def test_sizes_are_positive_integers(make, size):
    with pytest.raises(ParameterError, match=r"^\w+: size=.* (is too small|is not an integer)\. Fix: pass"):
        make(size)


@pytest.mark.parametrize("make", SIZED)
def test_numpy_numbers_become_plain_ones(make):
    family = make(np.int64(3))
    assert type(family.size) is int
    assert family == make(3)


POSITIVE = {
    "Fourier: period": lambda value: Fourier(3, period=value),
    "Hermite: scale": lambda value: Hermite(3, scale=value),
    "Laguerre: scale": lambda value: Laguerre(3, scale=value),
    "Gaussian: scale": lambda value: Gaussian(1, scale=value),
}
FINITE = {
    "Fourier: centre": lambda value: Fourier(3, period=1.0, centre=value),
    "Fourier: shift": lambda value: Fourier(3, period=1.0, shift=value),
    "Hermite: loc": lambda value: Hermite(3, loc=value),
    "Laguerre: start": lambda value: Laguerre(3, start=value),
    "Legendre: low": lambda value: Legendre(3, low=value),
    "Legendre: high": lambda value: Legendre(3, high=value),
    "BSpline: low": lambda value: BSpline(4, low=value),
    "BSpline: high": lambda value: BSpline(4, high=value),
    "Gaussian: loc": lambda value: Gaussian(1, loc=(value,)),
}
FLAGS = {
    "Fourier": lambda value: Fourier(3, period=1.0, learnable=value),
    "Hermite": lambda value: Hermite(3, learnable=value),
    "Laguerre": lambda value: Laguerre(3, learnable=value),
    "Gaussian": lambda value: Gaussian(3, learnable=value),
}


@pytest.mark.parametrize("name", POSITIVE)
@pytest.mark.parametrize("value", [0.0, -1.0])
def test_scales_and_periods_are_positive(name, value):
    with pytest.raises(ParameterError, match=rf"^{name}={value} is not positive\. Fix: pass"):
        POSITIVE[name](value)


@pytest.mark.parametrize("name", POSITIVE | FINITE)
@pytest.mark.parametrize("value", [NAN, INF, -INF, "1", True, torch.tensor(1.0)], ids=repr)
def test_numbers_are_finite_and_not_bools(name, value):
    with pytest.raises(ParameterError, match=rf"^{name}=.* is not .*finite number.*\. Fix: pass"):
        (POSITIVE | FINITE)[name](value)


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize("value", [1, 0.0, "yes", None])
def test_flags_are_bools(name, value):
    with pytest.raises(ParameterError, match=rf"^{name}: learnable={value!r} is not a bool\. Fix: pass"):
        FLAGS[name](value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Fourier(4, period=1.0),
            r"Fourier: size=4 is even\. Fix: pass an odd size .* as 5",
        ),
        (lambda: Legendre(3, 1.0, -1.0), r"Legendre: low=1\.0 is not below high=-1\.0\. Fix"),
        (lambda: BSpline(4, 1.0, 1.0), r"BSpline: low=1\.0 is not below high=1\.0\. Fix"),
        (lambda: BSpline(3), r"BSpline: size=3 is too small for degree=3\. Fix: pass size ≥ 4"),
        (lambda: BSpline(30, degree=16), r"BSpline: degree=16 is above 15\. Fix"),
        (lambda: BSpline(3, degree=-1), r"BSpline: degree=-1 is too small\. Fix"),
        (lambda: BSpline(3, degree=True), r"BSpline: degree=True is not an integer\. Fix"),
        (lambda: Gaussian(2, loc=(0.0,)), r"Gaussian: loc=\(0\.0,\) is not 2 finite numbers.*\. Fix"),
        (lambda: Gaussian(2, loc=1.0), r"Gaussian: loc=1\.0 is not 2 finite numbers.*\. Fix"),
        (lambda: Gaussian(2, scale=(1.0, 0.0)), r"Gaussian: scale=\(1\.0, 0\.0\) is not positive\. Fix"),
        (lambda: Gaussian(2, scale=(1.0, NAN)), r"Gaussian: scale=.* is not 2 finite numbers.*\. Fix"),
        (lambda: Conjugated(Hermite(2)), r"Conjugated: base=.* is already conjugated or real\. Fix"),
        (lambda: Conjugated(3), r"Conjugated: base=3 is not a family\. Fix"),
        (lambda: Product(Hermite(2), 3), r"Product: right=3 is not a family\. Fix"),
        (lambda: Product(Hermite(2), Legendre(2)), r"Product: right=.* is on the interval .*real line\. Fix"),
        (lambda: Orthonormalised(3), r"Orthonormalised: base=3 is not a family\. Fix"),
        (lambda: Orthonormalised(Gaussian(2)), r"base=Gaussian.* has learnable parameters\. Fix"),
        (
            lambda: Orthonormalised(Gaussian(2, loc=(1.0, 1.0), learnable=False)),
            r"base=Gaussian.*linearly dependent.*condition number.*Fix",
        ),
        (
            lambda: Orthonormalised(Product(Categorical(2), Categorical(2))),
            r"base=Product.*linearly dependent.*condition number inf.*Fix",
        ),
    ],
)
def test_other_mistakes_are_named_with_their_fix(make, message):
    with pytest.raises(ParameterError, match=message):
        make()


def test_conjugating_twice_by_hand_points_to_the_method():
    conjugate = Fourier(3, period=1.0).conjugate()
    with pytest.raises(ParameterError, match=r"already conjugated.*call base\.conjugate\(\)"):
        Conjugated(conjugate)


def test_a_list_of_numbers_becomes_a_tuple():
    family = Gaussian(2, loc=[0, 1], scale=[1, 2])
    assert (family.loc, family.scale) == ((0.0, 1.0), (1.0, 2.0))
    assert hash(family) == hash(Gaussian(2, loc=(0.0, 1.0), scale=(1.0, 2.0)))


@pytest.mark.parametrize("value", [0, "yes", None], ids=repr)
def test_states_are_ordered_or_not(value):
    with pytest.raises(ParameterError, match=rf"^Categorical: ordered={value!r} is not a bool\. Fix: pass"):
        Categorical(3, ordered=value)


@pytest.mark.parametrize(
    "make",
    [
        lambda width: Hermite(3, scale=width),
        lambda width: Laguerre(3, scale=width),
        lambda width: Fourier(3, period=width),
        lambda width: Legendre(3, 0.0, width),
        lambda width: BSpline(5, 0.0, width),
        lambda width: Gaussian(2, scale=(1.0, width)),
    ],
)
@pytest.mark.parametrize("width", [2e200, 1e36, 1e-36])
def test_widths_beyond_the_range_of_floats_are_refused(make, width):
    with pytest.raises(
        ParameterError, match=r"makes a width of .*, beyond the range of floats\. Fix: measure"
    ):
        make(width)


@pytest.mark.parametrize("width", [1e35, 1e-35])
def test_samples_at_the_widths_that_are_accepted_are_numbers(width):
    families = (Hermite(3, scale=width), Fourier(3, period=width), Legendre(3, 0.0, width))
    for family in families:
        model = sq.SquaredCircuit(sq.build(sq.regions.linear(2), family, units=2), seed=0).eval()
        drawn = model.sample(20, seed=0)
        assert drawn.isfinite().all()
        assert model.log_prob(drawn).isfinite().all()
        assert (drawn.abs() <= 20 * width).all()
        assert (drawn.abs().amax(dim=0) > width / 100).all()
