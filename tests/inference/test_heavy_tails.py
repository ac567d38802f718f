"""Moments behind transforms with heavy tails: right where they are finite, else refused on every road."""

import math

import pytest
import torch

import squircuit as sq
from squircuit.families.tails import EXPONENTIAL, NORMAL, POWER, SLOWER, Tail


def bent(bend, slope=1.0):
    """The identity between 0 and 1, then log(1 + κ u)/κ at the distance u on both sides."""
    return sq.Monotone((0.0, 1.0), (0.0, 1.0), (slope, slope), (bend, bend))


def model_of(family, dtype=torch.float64):
    return sq.SquaredCircuit(sq.Circuit(sq.Input(0, family, 1)), seed=0, dtype=dtype).eval()


INFINITE = {
    "exp of exp of a normal variable": sq.Transformed(sq.Transformed(sq.Hermite(2), bent(0.5)), bent(0.1)),
    "Pareto of index 0.8": sq.Transformed(sq.Bins((0.0, 1.0), (2.5, 2.5)), bent(0.5)),
}
ROADS = {
    "mean": lambda model: model.mean(),
    "variance": lambda model: model.variance(),
    "moments": lambda model: model.moments(2),
    "expectation": lambda model: model.expectation({0: lambda x: x}),
    "expectation of squares": lambda model: model.expectation({0: torch.square}),
    "distribution": lambda model: model.distribution().mean,
    "impute": lambda model: model.impute(torch.zeros(1, 1), [True], how="mean"),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("family", INFINITE.values(), ids=INFINITE)
@pytest.mark.parametrize("road", ROADS.values(), ids=ROADS)
def test_infinite_means_are_refused_on_every_road(family, road, dtype):
    with pytest.raises(
        sq.StructureError, match=r"not finite at the .* variable 0: .* Fix: ask for quantiles"
    ):
        road(model_of(family, dtype))


@pytest.mark.parametrize("family", INFINITE.values(), ids=INFINITE)
def test_what_is_finite_of_them_is_answered(family):
    model = model_of(family)
    found = model.marginals()
    assert bool(found.mean.isnan())
    assert found.masses[0].sum().item() == pytest.approx(1, abs=1e-9)
    assert 0 < model.expectation({0: torch.sigmoid}).item() < 1  # bounded functions have a mean
    low, high = found.quantiles(0, [0.25, 0.75])[0].tolist()
    assert low < high


def test_moments_of_a_pareto_variable_are_finite_below_its_index():
    """P(|x| > u) falls like u^(−3): two of four moments are finite, by the exact integral of its tail."""
    edges, length, bend = (0.0, 1.0), 1.0, 1 / 3
    weight = sq.Parameter((1, 3), "free", False, value=torch.tensor([[0.0, 0.0, 1.0]]))
    family = sq.Transformed(sq.Bins(edges, (length, length)), bent(bend))
    model = sq.SquaredCircuit(sq.Circuit(sq.Input(0, family, weight=weight)), dtype=torch.float64).eval()
    # beyond 1, t − 1 is exponential of mean 1 and x = 1 + (e^{κ(t − 1)} − 1)/κ
    mean = 1 + (1 / (1 - bend) - 1) / bend
    assert model.mean().item() == pytest.approx(mean, rel=1e-9)
    second = 1 + 2 * (mean - 1) + (1 / (1 - 2 * bend) - 2 / (1 - bend) + 1) / bend**2
    assert model.moments(2)[1].item() == pytest.approx(second, rel=1e-9)
    assert model.expectation({0: torch.square}).item() == pytest.approx(second, rel=1e-9)
    with pytest.raises(sq.StructureError, match="moments up to 3"):
        model.moments(3)


def test_moments_of_a_lognormal_variable_in_a_block_are_exact_or_refused():
    """E[x^k] beyond an end is that of exp(κ t), which is e^{k²κ²s²/2} times e^{kκm}."""
    bend, far = 0.5, 60.0
    transform = sq.Monotone((0.0, 1e-3), (0.0, 1e-3), (1.0, 1.0), (0.0, bend))

    def made(width):
        family = sq.MultivariateGaussian.of([[far, 0.0]], [[width**2, 1.0]], "diagonal", (transform, None))
        return sq.SquaredCircuit(sq.Circuit(sq.Input((0, 1), family)), dtype=torch.float64).eval()

    def power(k, width):  # E[(e^{κ u} − 1)^k] / κ^k with u = t up to 1e-3
        terms = (
            math.comb(k, j) * (-1) ** (k - j) * math.exp(j * bend * far + (j * bend * width) ** 2 / 2)
            for j in range(k + 1)
        )
        return sum(terms) / bend**k

    found = made(1.0).moments(3)[:, 0, 0].tolist()
    assert found == pytest.approx([power(k, 1.0) for k in (1, 2, 3)], rel=2e-3)
    with pytest.raises(sq.StructureError, match="not finite at the moments up to 3 of variable 0"):
        made(25.0).moments(3)  # e^700


def test_functions_that_grow_faster_than_the_density_falls_are_refused():
    model = model_of(sq.Hermite(2))
    assert model.expectation({0: lambda x: (x / 4).exp()}).item() > 0
    with pytest.raises(sq.StructureError, match="not finite at the expectation of a function of variable 0"):
        model.expectation({0: lambda x: x.square().exp()})


def test_tails_after_maps_and_products():
    assert Tail(EXPONENTIAL, 2.0).after(3.0, 0.0) == Tail(EXPONENTIAL, 6.0)
    assert Tail(POWER, 3.0).after(3.0, 0.0).order == 3.0
    assert Tail(POWER, 3.0).after(1.0, 0.1) == Tail(SLOWER)
    assert Tail(SLOWER).order == 0.0
    assert Tail(POWER, 1.0).times(Tail(POWER, 2.0)).order == 4.0  # |x|^(−2) |x|^(−3) = |x|^(−1−4)
    assert Tail(NORMAL).times(Tail(SLOWER)) == Tail(NORMAL)
    heavy = sq.Transformed(sq.Bins((0.0, 1.0), (1.0, 2.0)), bent(0.5))
    both = sq.families.Concatenated(sq.Hermite(2), heavy)
    assert [tail.order for tail in both.ends] == [2.0, 1.0]


def test_integrals_of_functions_that_are_infinite_are_refused_and_others_exact():
    """Of the outermost bin φ = e^{−u/2a}/√a and √t′ = e^{−κu/2}: ∫ φ/√t′ du = 2/(√a (1/a − κ))."""
    found = sq.Transformed(sq.Bins((0.0, 1.0), (1.0, 1.0)), bent(0.3)).integrals()
    assert found.tolist() == pytest.approx([2 / 0.7, 1.0, 2 / 0.7], rel=1e-9)
    for family in (sq.Transformed(sq.Bins((0.0, 1.0), (1.0, 1.0)), bent(0.99)), *INFINITE.values()):
        circuit = sq.Circuit(sq.Input(0, family, 1)).initialise(seed=0)
        with pytest.raises(sq.StructureError, match="not finite at the integral"):
            sq.integrate(circuit)
        assert sq.partition(circuit) == pytest.approx(1, abs=1e-7)
