"""Laws of input functions of several variables, by quadrature and by formulas of another library."""

from __future__ import annotations

import itertools
import json
import math
import pickle

import numpy as np
import pytest
import torch
from scipy import stats

from squircuit.errors import DataError, ParameterError, StructureError
from squircuit.families import (
    BlockFamily,
    Gaussian,
    Monotone,
    MultivariateGaussian,
    OrthonormalisedBlock,
    family_from_dict,
    family_to_dict,
)

KINDS = ("full", "diagonal", "tied", "low-rank")
POINTS = {1: 400, 2: 160, 3: 80}  # of the trapezoid rule on each axis, which is spectrally accurate


def family_of(kind: str, dimension: int, size: int = 3, learnable: bool = True) -> MultivariateGaussian:
    return MultivariateGaussian(size, dimension, kind, 2 if kind == "low-rank" else None, learnable=learnable)


def values_of(family: MultivariateGaussian, seed: int = 0) -> dict[str, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    return {
        name: 0.4 * torch.randn(value.shape, generator=g, dtype=torch.float64)
        for name, value in family.parameters().items()
    }


def moments(family: MultivariateGaussian, values) -> tuple[np.ndarray, np.ndarray]:
    """Means and covariances from the parameters by their definition, written with loops."""
    loc = values["loc"].numpy()
    n, d = loc.shape
    covariances = np.zeros((n, d, d))
    for k in range(n):
        if "factor" in values:
            raw = values["factor"].numpy()
            raw = raw if raw.ndim == 2 else raw[k]
            lower = np.tril(raw, -1) + np.diag(np.exp(np.diag(raw)))
            covariances[k] = lower @ lower.T
        else:
            covariances[k] = np.diag(np.exp(2 * values["log_scale"][k].numpy()))
            if "loading" in values:
                u = values["loading"][k].numpy()
                covariances[k] += u @ u.T
    return loc, covariances


def grid(dimension: int, reach: float = 16.0) -> tuple[torch.Tensor, float]:
    """Points (q, D) and the weight of each."""
    axis = torch.linspace(-reach, reach, POINTS[dimension], dtype=torch.float64)
    weight = float(axis[1] - axis[0]) ** dimension
    return torch.cartesian_prod(*[axis] * dimension).reshape(-1, dimension), weight


CASES = [(kind, d) for kind in KINDS for d in (1, 2, 3)]


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0]}{case[1]}")
def case(request) -> tuple[MultivariateGaussian, dict[str, torch.Tensor]]:
    family = family_of(*request.param)
    return family, values_of(family)


def test_squares_are_the_densities_of_scipy(case):
    family, values = case
    means, covariances = moments(family, values)
    x = torch.randn(20, family.dimension, dtype=torch.float64)
    expected = np.stack(
        [stats.multivariate_normal(m, c).pdf(x) for m, c in zip(means, covariances, strict=True)], -1
    )
    np.testing.assert_allclose(family.evaluate(x, values).square().numpy(), expected, rtol=1e-11)


def test_norms_inner_products_and_integrals_agree_with_quadrature(case):
    family, values = case
    other = family_of("diagonal", family.dimension, 2)
    others = values_of(other, seed=1)
    x, weight = grid(family.dimension)
    f, g = family.evaluate(x, values), other.evaluate(x, others)
    torch.testing.assert_close(weight * f.T @ f, family.gram(values), rtol=0, atol=1e-9)
    torch.testing.assert_close(weight * f.T @ g, family.inner(other, values, others), rtol=0, atol=1e-9)
    torch.testing.assert_close(weight * f.sum(0), family.integrals(values), rtol=1e-6, atol=1e-9)
    assert torch.equal(family.norms(values), torch.ones(family.size, dtype=torch.float64))


def patterns(dimension: int):
    return list(itertools.product((False, True), repeat=dimension))


def test_log_squares_and_pair_integrals_of_every_pattern_agree_with_quadrature(case):
    family, values = case
    d = family.dimension
    x = torch.randn(2, d, dtype=torch.float64)
    for observed in patterns(d):
        missing = [v for v in range(d) if not observed[v]]
        nodes, weight = grid(len(missing)) if missing else (torch.zeros(1, 0), 1.0)
        pairs, scale = family.pair_integrals(x, observed, values)
        logs = family.log_squares(x, observed, values)
        for row in range(2):
            points = x[row].expand(len(nodes), d).clone()
            points[:, missing] = nodes.double()
            f = family.evaluate(points, values)
            expected = weight * f.T @ f
            torch.testing.assert_close(pairs[row] * scale[row].exp(), expected, rtol=0, atol=1e-9)
            torch.testing.assert_close(logs[row].exp(), expected.diagonal(), rtol=0, atol=1e-9)


def test_what_is_not_observed_is_not_read(case):
    family, values = case
    x = torch.randn(4, family.dimension, dtype=torch.float64)
    for observed in patterns(family.dimension):
        hidden = torch.where(torch.tensor(observed), x, torch.nan)
        assert torch.equal(
            family.log_squares(x, observed, values), family.log_squares(hidden, observed, values)
        )
        here, there = (family.pair_integrals(points, observed, values) for points in (x, hidden))
        assert torch.equal(here[0], there[0])
        assert torch.equal(here[1], there[1])


def test_conditionals_are_those_of_the_textbook(case):
    family, values = case
    means, covariances = moments(family, values)
    x = np.random.default_rng(0).normal(size=(3, family.dimension))
    for observed in patterns(family.dimension):
        seen, left = ([v for v, o in enumerate(observed) if o is flag] for flag in (True, False))
        found = family.given(torch.from_numpy(x), observed, values)
        for k in range(family.size):
            c = covariances[k]
            gain = c[np.ix_(left, seen)] @ np.linalg.pinv(c[np.ix_(seen, seen)])
            mean = means[k][left] + (x[:, seen] - means[k][seen]) @ gain.T
            rest = c[np.ix_(left, left)] - gain @ c[np.ix_(seen, left)]
            np.testing.assert_allclose(found.means[:, k].numpy(), mean, atol=1e-12)
            factor = found.factor[k].numpy()
            factor = np.diag(factor) if factor.ndim == 1 else factor
            np.testing.assert_allclose(factor @ factor.T, rest, atol=1e-12)


def normal_at(values: torch.Tensor) -> None:
    """Numbers that must be standard normal: Kolmogorov and Smirnov's test."""
    assert stats.kstest(values.numpy().ravel(), "norm").pvalue > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_samples_of_a_function_follow_its_square_in_every_pattern(kind):
    family = family_of(kind, 3)
    values, g = values_of(family), torch.Generator().manual_seed(0)
    means, covariances = moments(family, values)
    x = torch.tensor([[0.5, -0.7, 1.1]]).double().expand(4000, 3)
    for observed in patterns(3):
        if all(observed):
            continue
        seen, left = ([v for v, o in enumerate(observed) if o is flag] for flag in (True, False))
        drawn = family.sample(torch.full((4000,), 1), x, observed, values, g)
        assert torch.equal(drawn[:, seen], x[:, seen])
        c, m = covariances[1], means[1]
        gain = c[np.ix_(left, seen)] @ np.linalg.pinv(c[np.ix_(seen, seen)])
        mean = m[left] + gain @ (x[0, seen].numpy() - m[seen])
        lower = np.linalg.cholesky(c[np.ix_(left, left)] - gain @ c[np.ix_(seen, left)])
        normal_at(torch.from_numpy(np.linalg.solve(lower, (drawn[:, left].numpy() - mean).T)))


@pytest.mark.parametrize("observed", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("kind", ["full", "diagonal"])
def test_samples_of_a_squared_sum_follow_its_distribution_function(kind, observed):
    family = family_of(kind, 2)
    values, g = values_of(family), torch.Generator().manual_seed(1)
    amplitudes = torch.tensor([[1.0, -0.8 + 0.5j, 0.6j]]).to(torch.complex128)
    x = torch.tensor([[0.4, -0.3]]).double()
    drawn = family.sample_square(amplitudes.expand(4000, -1), x.expand(4000, 2), observed, values, g)
    axis = torch.linspace(-11, 11, 1200, dtype=torch.float64)
    points = torch.cartesian_prod(axis, axis)
    square = (family.evaluate(points, values).to(torch.complex128) @ amplitudes[0]).abs().square()
    square = square.reshape(1200, 1200)
    for v in (0, 1):
        if observed[v]:
            assert bool((drawn[:, v] == x[0, v]).all())
            continue
        density = square.sum(1 - v)
        if observed[1 - v]:
            row = torch.stack([axis, axis], 1)
            row[:, 1 - v] = x[0, 1 - v]
            density = (family.evaluate(row, values).to(torch.complex128) @ amplitudes[0]).abs().square()
        cdf = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]).numpy())])
        uniform = np.interp(drawn[:, v].numpy(), axis.numpy(), cdf / cdf[-1])
        assert stats.kstest(uniform, "uniform").pvalue > 1e-3
    if not any(observed):  # jointly, too: of the second coordinate given the first
        cdf = torch.cumsum(square, 1) / square.sum(1, keepdim=True)
        place = ((drawn[:, 0] + 11) / 22 * 1199).round().long()
        at = ((drawn[:, 1] + 11) / 22 * 1199).round().long()
        assert stats.kstest(cdf[place, at].numpy(), "uniform").pvalue > 1e-3


def test_one_variable_has_the_square_root_of_the_gaussian_of_one_variable():
    family = MultivariateGaussian.of([[0.3], [-1.0]], [[0.25], [4.0]], "diagonal")
    plain = Gaussian(2, loc=(0.3, -1.0), scale=(0.5, 2.0), learnable=False)
    x = torch.linspace(-3, 3, 7, dtype=torch.float64)
    torch.testing.assert_close(family.evaluate(x[:, None]).square(), plain.evaluate(x))


@pytest.mark.parametrize("distance", [1e2, 1e6, 1e12])
def test_logarithms_are_exact_far_from_the_data_and_far_from_zero(distance):
    family = family_of("full", 2, 1)
    values = values_of(family)
    far = torch.full((1, 2), distance, dtype=torch.float64)
    near = torch.tensor([[0.25, -0.5]], dtype=torch.float64)
    shifted = {**values, "loc": values["loc"] * 0 + distance}
    centred = {**values, "loc": values["loc"] * 0}
    both = (True, True)
    torch.testing.assert_close(  # a shift of all changes nothing
        family.log_squares(near + far, both, shifted),
        family.log_squares(near + far - far, both, centred),
        rtol=1e-12,
        atol=0,
    )
    (_, covariance) = moments(family, centred)
    expected = stats.multivariate_normal([0, 0], covariance[0]).logpdf(far.numpy())
    np.testing.assert_allclose(family.log_squares(far, both, centred).numpy().ravel(), expected, rtol=1e-12)
    v, s = family.evaluate_scaled(far, centred)
    np.testing.assert_allclose(2 * (v.log() + s[:, None]).numpy().ravel(), expected, rtol=1e-12)
    v, s = family.evaluate_separately(far, centred)
    np.testing.assert_allclose(2 * (v.log() + s).numpy().ravel(), expected, rtol=1e-12)


def test_huge_points_nan_and_infinity_give_neither_nan_values_nor_nan_gradients(case):
    family, values = case
    values = {name: value.requires_grad_() for name, value in values.items()}
    for bad in (1e30, -1e200, torch.nan, torch.inf):
        x = torch.zeros(2, family.dimension, dtype=torch.float64)
        x[0, -1] = bad
        x.requires_grad_()
        found = [family.evaluate(x, values), *family.evaluate_scaled(x, values)]
        assert found[0][0].eq(0).all()
        assert all(part.isfinite().all() for part in found)
        gradients = torch.autograd.grad(found[1].sum(), [x, *values.values()])
        assert all(gradient.isfinite().all() for gradient in gradients)
    outside = family.log_squares(torch.full((1, family.dimension), torch.nan), (True,) * family.dimension)
    assert bool((outside == -torch.inf).all())


def test_derivatives_are_right(case):
    family, values = case
    d = family.dimension
    observed = (True, False, True)[:d]
    x = torch.randn(3, d, dtype=torch.float64, requires_grad=True)

    def results(x, *tensors):
        given = dict(zip(values, tensors, strict=True))
        pairs, scale = family.pair_integrals(x, observed, given)
        return (
            family.evaluate(x, given),
            family.log_squares(x, observed, given),
            pairs * scale.exp()[:, None, None],
            family.gram(given),
            family.integrals(given),
            *family.given(x, observed, given),
        )

    tensors = [value.clone().requires_grad_() for value in values.values()]
    assert torch.autograd.gradcheck(results, [x, *tensors])


def test_families_of_several_layers_are_one_batched_call(case):
    family, values = case
    x = torch.randn(3, 5, family.dimension, dtype=torch.float64)
    batch = {name: torch.stack([value, value + 0.1, value - 0.1]) for name, value in values.items()}
    actual = torch.func.vmap(family.evaluate)(x, batch)
    grams = torch.func.vmap(family.gram)(batch)
    for k in range(3):
        one = {name: value[k] for name, value in batch.items()}
        torch.testing.assert_close(actual[k], family.evaluate(x[k], one), atol=1e-14, rtol=1e-13)
        torch.testing.assert_close(grams[k], family.gram(one), atol=1e-14, rtol=1e-13)


def test_moments_become_parameters_and_back(case):
    family, values = case
    means, covariances = moments(family, values)
    given = {
        "full": covariances,
        "diagonal": np.stack([np.diag(c) for c in covariances]),
        "tied": covariances[0],
        "low-rank": (torch.exp(2 * values["log_scale"]), values["loading"]) if family.rank else None,
    }[family.covariance]
    again = family.values_of(means, given)
    assert again.keys() == values.keys()
    for a, b in zip(moments(family, again), (means, covariances), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)
    fixed = MultivariateGaussian.of(means, given, family.covariance)
    x = torch.randn(4, family.dimension, dtype=torch.float64)
    torch.testing.assert_close(fixed.evaluate(x), family.evaluate(x, values))


def test_the_first_values_are_a_mixture_with_mean_near_0_and_variance_near_1(case):
    family, _ = case
    family = MultivariateGaussian(64, family.dimension, family.covariance, family.rank)
    means, covariances = moments(family, family.parameters())
    assert len(np.unique(means, axis=0)) == 64
    assert np.abs(means.mean(0)).max() < 0.1
    assert np.abs(np.diag(covariances.mean(0)) + means.var(0) - 1).max() < 0.15


def test_orthonormalised_blocks_are_orthonormal_and_span_the_same(case):
    base, values = case
    base = MultivariateGaussian(
        base.size,
        base.dimension,
        base.covariance,
        base.rank,
        learnable=False,
        start=tuple(tuple((2 * v if n == "loc" else v).flatten().tolist()) for n, v in values.items()),
    )
    family = OrthonormalisedBlock(base)
    x, weight = grid(base.dimension)
    f, g = family.evaluate(x), base.evaluate(x)
    torch.testing.assert_close(weight * f.T @ f, torch.eye(3, dtype=torch.float64), rtol=0, atol=1e-8)
    torch.testing.assert_close(weight * f.T @ g, family.inner(base), rtol=0, atol=1e-8)
    torch.testing.assert_close(base.inner(family), family.inner(base).T)
    torch.testing.assert_close(weight * f.sum(0), family.integrals(), rtol=1e-7, atol=1e-8)
    v, s = family.evaluate_separately(x)
    torch.testing.assert_close(v * s.exp(), f)
    d = base.dimension
    observed = (True, False, True)[:d]
    points = torch.randn(2, d, dtype=torch.float64)
    pairs, scale = family.pair_integrals(points, observed)
    missing = [v for v in range(d) if not observed[v]]
    nodes, weight = grid(len(missing)) if missing else (torch.zeros(1, 0), 1.0)
    for row in range(2):
        rows = points[row].expand(len(nodes), d).clone()
        rows[:, missing] = nodes.double()
        f = family.evaluate(rows)
        torch.testing.assert_close(pairs[row] * scale[row].exp(), weight * f.T @ f, rtol=0, atol=1e-8)
        logs = family.log_squares(points, observed)[row]
        torch.testing.assert_close(logs.exp(), (weight * f.T @ f).diagonal(), rtol=0, atol=1e-8)


def test_samples_of_an_orthonormalised_function_follow_its_square():
    base = MultivariateGaussian.of([[0.0, 0.0], [1.0, 1.0]], [[[1, 0.6], [0.6, 1]], [[0.5, 0], [0, 1.0]]])
    family = OrthonormalisedBlock(base)
    g = torch.Generator().manual_seed(2)
    drawn = family.sample(torch.ones(4000, dtype=torch.long), torch.zeros(4000, 2), (False, False), None, g)
    axis = torch.linspace(-8, 8, 800, dtype=torch.float64)
    square = family.evaluate(torch.cartesian_prod(axis, axis))[:, 1].square().reshape(800, 800)
    for v in (0, 1):
        density = square.sum(1 - v).numpy()
        cdf = np.concatenate([[0], np.cumsum(density[1:] + density[:-1])])
        uniform = np.interp(drawn[:, v].numpy(), axis.numpy(), cdf / cdf[-1])
        assert stats.kstest(uniform, "uniform").pvalue > 1e-3


def test_nearly_equal_gaussians_are_not_orthonormalised():
    base = MultivariateGaussian.of([[0.0, 0.0], [1e-4, 0.0]], [[1.0, 1.0]] * 2, "diagonal")
    with pytest.raises(ParameterError, match=r"condition number .*Fix: take fewer"):
        OrthonormalisedBlock(base)
    with pytest.raises(ParameterError, match=r"learnable.*Fix"):
        OrthonormalisedBlock(MultivariateGaussian(2, 2))


def test_overlaps_of_nearly_equal_gaussians_keep_their_digits():
    step = 1e-6
    family = MultivariateGaussian.of([[0.0, 0.0], [step, 0.0]], [[[1.0, 0.5], [0.5, 1.0]]] * 2)
    assert family.gram()[0, 1].item() == pytest.approx(math.exp(-(step**2) / 6), abs=1e-15)


@pytest.mark.parametrize("kind", KINDS)
def test_json_and_pickle_give_an_equal_family(kind):
    learnable = family_of(kind, 2)
    start = tuple(tuple(value.flatten().tolist()) for value in learnable.parameters().values())
    fixed = MultivariateGaussian(3, 2, kind, learnable.rank, learnable=False, start=start)
    for family in (learnable, fixed, OrthonormalisedBlock(fixed)):
        text = json.dumps(family_to_dict(family), allow_nan=False)
        assert family_from_dict(json.loads(text)) == family
        assert pickle.loads(pickle.dumps(family)) == family
        assert hash(family_from_dict(json.loads(text))) == hash(family)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: MultivariateGaussian(0, 2), "size=0"),
        (lambda: MultivariateGaussian(2, 0), "dimension=0"),
        (lambda: MultivariateGaussian(2, 2, "round"), "covariance='round' is unknown"),
        (lambda: MultivariateGaussian(2, 2, "low-rank"), "rank=None"),
        (lambda: MultivariateGaussian(2, 2, "full", 1), "rank=1"),
        (lambda: MultivariateGaussian(2, 2, columns=(None,)), "columns"),
        (lambda: MultivariateGaussian(2, 2, start=((1.0,),)), "start"),
        (lambda: MultivariateGaussian.of([[0.0]], [[[-1.0]]]), "not positive definite"),
        (lambda: MultivariateGaussian.of([[0.0]], [[0.0]], "diagonal"), "variance"),
        (lambda: MultivariateGaussian(1, 2).evaluate(torch.zeros(3)), "coordinates"),
        (lambda: MultivariateGaussian(1, 2).log_squares(torch.zeros(1, 2), (True,)), "pattern of 1"),
        (lambda: MultivariateGaussian(1, 2).evaluate(torch.zeros(1, 2), {"lok": torch.zeros(1)}), "'loc'"),
        (lambda: MultivariateGaussian(1, 2).inner(MultivariateGaussian(1, 3)), "different domains"),
    ],
)
def test_mistakes_are_named_with_a_fix(make, match):
    with pytest.raises(ParameterError, match=match) as error:
        make()
    assert "Fix: " in str(error.value)


def test_half_precision_is_refused_and_single_stays_single():
    family: BlockFamily = MultivariateGaussian(2, 2)
    with pytest.raises(DataError, match="convert it to float32"):
        family.evaluate(torch.zeros(1, 2, dtype=torch.float16))
    x = torch.randn(4, 2)
    assert family.evaluate(x).dtype == torch.float32
    torch.testing.assert_close(family.evaluate(x).double(), family.evaluate(x.double()), atol=1e-6, rtol=1e-5)
    v, s = family.evaluate_scaled(x.double(), None, torch.float32)
    assert v.dtype == torch.float32
    assert s.dtype == torch.float64


# ------------------------------------------------------------------ transformed columns

BENT = Monotone(knots=(-1.0, 0.0, 2.0), values=(-1.5, 0.0, 1.0), slopes=(1.2, 0.8, 0.5))
HEAVY = Monotone(knots=(0.0, 1.0, 3.0), values=(-1.0, 0.0, 1.0), slopes=(1.0, 0.7, 0.4), tails=(0.0, 0.3))


def transformed(covariance: str = "full") -> tuple[MultivariateGaussian, dict[str, torch.Tensor]]:
    family = MultivariateGaussian(3, 2, covariance, columns=(BENT, None))
    return family, values_of(family)


def fine_rule(low: float, high: float, panels: int = 60) -> tuple[torch.Tensor, torch.Tensor]:
    """Gauss and Legendre's rule with panels that end at all knots."""
    ends = np.unique(np.concatenate([np.linspace(low, high, panels), BENT.knots, HEAVY.knots]))
    nodes, weights = np.polynomial.legendre.leggauss(12)
    half = np.diff(ends)[:, None] / 2
    points = (ends[:-1, None] + half + half * nodes).ravel()
    return torch.from_numpy(points), torch.from_numpy((half * weights).ravel())


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_transformed_columns_keep_norms_overlaps_and_marginals(covariance):
    family, values = transformed(covariance)
    (x, w), (y, v) = fine_rule(-15, 30), fine_rule(-14, 14)
    f = family.evaluate(torch.cartesian_prod(x, y), values)
    weights = (w[:, None] * v).flatten()
    torch.testing.assert_close((f.T * weights) @ f, family.gram(values), rtol=0, atol=1e-8)
    point = torch.tensor([[0.7, -0.4]]).double()
    for observed, nodes, weight in (((False, True), x, w), ((True, False), y, v)):
        rows = point.repeat(len(nodes), 1)
        rows[:, observed.index(False)] = nodes
        f = family.evaluate(rows, values)
        expected = (f.T * weight) @ f
        pairs, scale = family.pair_integrals(point, observed, values)
        torch.testing.assert_close(pairs[0] * scale[0].exp(), expected, rtol=0, atol=1e-8)
        logs = family.log_squares(point, observed, values)
        torch.testing.assert_close(logs[0].exp(), expected.diagonal(), rtol=0, atol=1e-8)


def test_samples_of_transformed_columns_are_normal_where_they_are_transformed():
    family = MultivariateGaussian(3, 2, columns=(BENT, HEAVY))
    values, g = values_of(family), torch.Generator().manual_seed(0)
    means, covariances = moments(family, values)
    drawn = family.sample(torch.full((4000,), 2), torch.zeros(4000, 2), (False, False), values, g)
    t = torch.stack([BENT.forward(drawn[:, 0])[0], HEAVY.forward(drawn[:, 1])[0]])
    lower = np.linalg.cholesky(covariances[2])
    normal_at(torch.from_numpy(np.linalg.solve(lower, t.numpy() - means[2][:, None])))
    amplitudes = torch.tensor([[0.0, 0.0, 2.0]]).double().expand(4000, -1)
    drawn = family.sample_square(amplitudes, torch.zeros(4000, 2), (False, False), values, g)
    t = torch.stack([BENT.forward(drawn[:, 0])[0], HEAVY.forward(drawn[:, 1])[0]])
    normal_at(torch.from_numpy(np.linalg.solve(lower, t.numpy() - means[2][:, None])))


def test_what_has_no_closed_form_with_transformed_columns_is_refused():
    family, values = transformed()
    with pytest.raises(StructureError, match=r"columns are transformed.*Fix"):
        family.integrals(values)
    with pytest.raises(StructureError, match=r"transformed differently.*Fix"):
        family.inner(MultivariateGaussian(3, 2), values)
    bounded = Monotone(knots=(0.0, 1.0), values=(0.0, 1.0), slopes=(1.0, 1.0), tails=None)
    with pytest.raises(ParameterError, match=r"onto an interval only.*Fix"):
        MultivariateGaussian(3, 2, columns=(bounded, None))
    assert family_from_dict(json.loads(json.dumps(family_to_dict(family)))) == family


def test_entries_of_the_mixing_matrix_keep_their_digits_however_small_they_are():
    """Of two unit Gaussians apart by d, ψ₁ = φ₁ − ½ e^{−d²/8} φ₂, where only the second term is left."""
    d = 16.0
    family = OrthonormalisedBlock(MultivariateGaussian.of([[0.0], [d]], [[1.0], [1.0]], "diagonal"))
    x = torch.tensor([[d + 30.0]], dtype=torch.float64)
    v, s = family.evaluate_separately(x)
    exact = -0.5 * math.exp(-(d**2) / 8) * (2 * math.pi) ** -0.25  # times e^{−30²/4}
    assert (v * (s + 30.0**2 / 4).exp())[0, 0].item() == pytest.approx(exact, rel=1e-12, abs=0.0)
