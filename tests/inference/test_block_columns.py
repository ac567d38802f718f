"""Single columns of blocks behind steep transforms: quantiles, masses, means of functions, highest points."""

import math

import numpy as np
import pytest
import torch

import squircuit as sq
from squircuit.families.quadrature import gauss_legendre


def monotone(rng, knots, evenness=0.7):
    """A map whose slope changes by orders of magnitude from knot to knot."""
    x, y = (np.cumsum(rng.gamma(evenness, size=knots) + 1e-3) for _ in range(2))
    x, y = (3 * (a - a.mean()) / np.ptp(a) for a in (x, y))
    slopes = np.exp(rng.normal(0, min(1.0, 1 / evenness), size=knots))
    return sq.Monotone(tuple(x), tuple(y), tuple(slopes), (0.05, 0.0))


def member(rng, transform, units=3):
    """A mixture of Gaussians of two columns, the first behind a transform."""
    means = torch.tensor(rng.normal(size=(units, 2)))
    roots = torch.tensor(rng.normal(size=(units, 2, 2)) * 0.6)
    spread = roots @ roots.mT + 0.02 * torch.eye(2, dtype=torch.float64)
    family = sq.MultivariateGaussian.of(means, spread, columns=(transform, None))
    shares = torch.tensor(rng.dirichlet(np.ones(units)))
    weights = sq.Parameter((units,), sq.Constraint.SIMPLEX, False, value=shares)
    circuit = sq.Circuit(sq.Input((0, 1), family), root_weights=weights)
    return sq.SquaredCircuit(circuit, dtype=torch.float64).eval()


def model(seed):
    """Two mixtures with transforms of their own, as members of a stack have them."""
    rng = np.random.default_rng(seed)
    members = [member(rng, monotone(rng, int(rng.integers(3, 12)))) for _ in range(2)]
    return sq.mixture(members, [0.3, 0.7])


def fine_grid(model, row):
    """Points, fine about every knot, and the distribution function of the first column there."""
    transforms = [
        layer.family.columns[0] for layer in model.structure.inputs if layer.family.columns is not None
    ]
    t = torch.linspace(-14, 14, 12_001, dtype=torch.float64)
    ends = [transform.inverse(t) for transform in transforms]
    ends += [torch.tensor(transform.knots, dtype=torch.float64) for transform in transforms]
    x, widths = gauss_legendre(torch.cat(ends).unique(), 4)
    rows = torch.tensor(row, dtype=torch.float64).repeat(len(x), 1)
    rows[:, 0] = x
    with torch.no_grad():
        density = model.log_prob(rows.nan_to_num(), missing=[False, math.isnan(row[1])]).exp()
        shown = model.log_prob(rows[:1].nan_to_num(), missing=[True, math.isnan(row[1])]).exp()
    mass = density * widths / shown
    assert mass.sum().item() == pytest.approx(1, abs=2e-4)  # how fine the grid is
    return x, density, mass


ROWS = ([0.0, 0.4], [0.0, math.nan])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("row", ROWS)
def test_quantiles_are_where_the_distribution_function_of_the_grid_reaches_the_levels(seed, row):
    made = model(seed)
    x, _, mass = fine_grid(made, row)
    levels = torch.tensor([0.01, 0.1, 0.5, 0.9, 0.999], dtype=torch.float64)
    rows = torch.tensor([row]).nan_to_num()
    found = made.marginals(rows, missing=[True, math.isnan(row[1])]).quantiles(0, levels)[0]
    reached = mass.cumsum(0)[torch.searchsorted(x, found).clamp(max=len(x) - 1)]
    assert torch.allclose(reached, levels, atol=2e-3)


@pytest.mark.parametrize("seed", range(4))
def test_masses_add_up_to_the_distribution_function_between_nodes(seed):
    made = model(seed)
    x, _, mass = fine_grid(made, ROWS[0])
    found = made.marginals(torch.tensor([ROWS[0]]), missing=[True, False])
    nodes, masses = found.nodes[0], found.masses[0][0]
    ends = (nodes[1:] + nodes[:-1]) / 2
    reached = torch.cat([torch.zeros(1, dtype=torch.float64), mass.cumsum(0)])[torch.searchsorted(x, ends)]
    assert masses.sum().item() == pytest.approx(1, abs=1e-12)
    assert (masses.cumsum(0)[:-1] - reached).abs().max() < 2e-3


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("row", ROWS)
def test_means_of_functions_are_those_of_the_grid(seed, row):
    made = model(seed)
    x, _, mass = fine_grid(made, row)
    rows, missing = torch.tensor([row]).nan_to_num(), [True, math.isnan(row[1])]
    off = 1e-7 + 30 * abs(1 - mass.sum().item())
    for function in (torch.sigmoid, torch.square, torch.tanh):
        found = made.expectation({0: function}, rows, missing=missing)
        assert found.item() == pytest.approx((mass * function(x)).sum().item(), rel=off, abs=off)
    second = made.moments(2, rows, missing=missing)[1, 0, 0].item()
    assert made.expectation({0: torch.square}, rows, missing=missing).item() == pytest.approx(
        second, rel=1e-9
    )


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("row", ROWS)
def test_no_point_of_the_grid_is_higher_than_the_mode(seed, row):
    made = model(seed)
    _, density, _ = fine_grid(made, row)
    missing = [True, math.isnan(row[1])]
    filled = made.impute(torch.tensor([row]).nan_to_num(), missing, how="mode")
    asked = torch.cat([filled[:, :1], torch.tensor([[row[1]]]).nan_to_num()], dim=1)
    with torch.no_grad():
        height = made.log_prob(asked, missing=[False, math.isnan(row[1])]).exp().item()
    assert height >= density.max().item() * (1 - 1e-6)


@pytest.mark.slow
def test_quantiles_of_states_and_of_columns_alone():
    rows = [[0, 0.0], [0, 0.2], [1, 1.0], [2, 3.0]] * 30
    made = sq.model_for(sq.data.table(rows, {"0": "categorical"}), units=2, size=6)
    found = made.marginals([[0.0, 0.0]], missing=[True, True])
    states = found.quantiles(0, [0.05, 0.5, 0.99])[0]
    reached = found.values[0][0].double().cumsum(0)
    for level, state in zip((0.05, 0.5, 0.99), states.long().tolist(), strict=True):
        assert reached[state] >= level > (reached[state - 1] if state else 0)
    drawn = made.sample(4000, seed=0)[:, 1]
    levels = torch.tensor([0.1, 0.5, 0.9])
    assert ((drawn[:, None] <= found.quantiles(1, levels)[0]).double().mean(0) - levels).abs().max() < 0.03
    with pytest.raises(sq.ParameterError, match="between 0 and 1"):
        found.quantiles(1, [1.5])
    shown = made.marginals([[0.0, 0.0]], missing=[False, True])
    with pytest.raises(sq.ParameterError, match="no row lacks variable 0"):
        shown.quantiles(0, [0.5])


def grid_behind(transform):
    """Points x, fine about every knot, and the widths that they stand for."""
    t = torch.linspace(-12, 12, 120, dtype=torch.float64)
    ends = torch.cat([transform.inverse(t), torch.tensor(transform.knots, dtype=torch.float64)])
    return gauss_legendre(ends.unique(), 8)


@pytest.mark.parametrize("correlation", [0.0, 0.6, -0.97])
@pytest.mark.parametrize("seed", range(2))
def test_means_of_products_of_two_and_three_columns_are_those_of_the_grid(seed, correlation):
    """The third is not transformed: its mean given the others is linear, and a grid of two is enough."""
    rng = np.random.default_rng(seed)
    bends = [monotone(rng, 4, 5.0), monotone(rng, 7, 5.0)]
    mean = torch.tensor(rng.normal(size=3))
    widths = torch.tensor([0.8, 0.5, 0.7], dtype=torch.float64)
    slopes = torch.tensor([0.4, -0.3], dtype=torch.float64)  # of the third beside the others
    spread = torch.eye(3, dtype=torch.float64)
    spread[0, 1] = spread[1, 0] = correlation
    spread[2, :2] = spread[:2, 2] = spread[:2, :2] @ slopes
    spread = spread * widths * widths[:, None]
    family = sq.MultivariateGaussian.of(mean[None], spread[None], columns=(*bends, None))
    made = sq.SquaredCircuit(sq.Circuit(sq.Input((0, 1, 2), family)), dtype=torch.float64).eval()

    (x, w), (y, v) = (grid_behind(bend) for bend in bends)
    (t, log_t), (s, log_s) = (bend.forward(points) for bend, points in zip(bends, (x, y), strict=True))
    apart = torch.stack(torch.broadcast_tensors((t - mean[0])[:, None], s - mean[1]), dim=2)
    inside = torch.linalg.inv(spread[:2, :2])
    density = (-torch.einsum("xyi,ij,xyj->xy", apart, inside, apart) / 2).exp()
    mass = density * log_t.exp()[:, None] * log_s.exp() * w[:, None] * v
    assert (mass.sum() * inside.det().sqrt() / (2 * math.pi)).item() == pytest.approx(1, abs=1e-10)
    product = mass / mass.sum() * torch.sigmoid(x)[:, None] * torch.tanh(y)
    third = mean[2] + apart @ inside @ spread[:2, 2]

    functions = {0: torch.sigmoid, 1: torch.tanh}
    assert made.expectation(functions).item() == pytest.approx(product.sum().item(), abs=1e-9)
    found = made.expectation({**functions, 2: lambda z: z}).item()
    assert found == pytest.approx((product * third).sum().item(), abs=1e-9)


def test_products_of_columns_that_are_nearly_functions_of_each_other_are_refused():
    family = sq.MultivariateGaussian.of([[0.0, 0.0]], [[[1.0, 1 - 1e-9], [1 - 1e-9, 1.0]]])
    made = sq.SquaredCircuit(sq.Circuit(sq.Input((0, 1), family)), dtype=torch.float64).eval()
    with pytest.raises(sq.StructureError, match=r"strongly correlated.*average over samples"):
        made.expectation({0: torch.sin, 1: torch.sin})


def test_marginals_of_single_precision_are_there_also_in_rows_far_from_all_components():
    family = sq.MultivariateGaussian.of([[6.0, 4.0], [-5.0, 2.5]], [[11.0, 7.0], [5.0, 2.0]], "diagonal")
    weight = sq.Parameter((1, 2), "free", False, value=torch.tensor([[0.0, 1.0]]))
    circuit = sq.Circuit(sq.Sum(sq.Input((0, 1), family), weight=weight))
    x, missing = [[24.0, 21.0], [60.0, 0.0]], [[False, False], [False, True]]
    found = [
        sq.SquaredCircuit(circuit, dtype=kind).marginals(x, missing)
        for kind in (torch.float32, torch.float64)
    ]
    single, double = (each.mean[1, 1].item() for each in found)
    assert double == pytest.approx(2.5, abs=1e-9)  # that of the one component which has a weight
    assert single == pytest.approx(double, abs=1e-5)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_a_component_of_tiny_share_is_the_whole_density_where_no_other_reaches(kind):
    means, variances = [[0.0, 0.0], [30.0, 10.0]], [[1.0, 1.0], [1.0, 1.0]]
    family = sq.MultivariateGaussian.of(means, variances, "diagonal")
    weight = sq.Parameter((2,), sq.Constraint.SIMPLEX, False, value=torch.tensor([0.5, 0.5]))
    circuit = sq.Circuit(sq.Input((0, 1), family), root_weights=weight)
    made = sq.SquaredCircuit(circuit, dtype=kind).eval()
    found = made.marginals([[0.0, 0.0]], [[True, False]], grid={0: [30.0, 31.0]}).values[0][0]
    share = math.exp(-50) / (1 + math.exp(-50))  # 2e-22, of the second component given the second variable
    for value, apart in zip(found.tolist(), (0.0, 1.0), strict=True):
        expected = share * math.exp(-(apart**2) / 2) / math.sqrt(2 * math.pi)
        assert value == pytest.approx(expected, rel=1e-5, abs=0.0)
