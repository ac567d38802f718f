"""Everything that models answer holds for transformed columns and bins: against quadrature of log_prob."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import squircuit as sq
from families.conformance import dense_rule
from families.test_transformed import SKEW, SPIKE

BINS = sq.Bins((-1.0, -0.5, 0.5, 2.0), tails=(0.4, 0.6))


def bins_rule() -> tuple[torch.Tensor, torch.Tensor]:
    ends = (-1 - 40 * 0.4, *BINS.edges, 2 + 40 * 0.6)
    rules = [dense_rule(a, b, 10 if abs(b - a) > 5 else 1) for a, b in itertools.pairwise(ends)]
    nodes, weights = (torch.cat(parts) for parts in zip(*rules, strict=True))
    return nodes, weights


def coarse(t: sq.Monotone, reach: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Even panels in t, whose nodes are found by bisection: few points for products over two variables."""
    ends = (-reach, *t.values, reach)
    nodes, weights = (
        torch.cat(p) for p in zip(*(dense_rule(a, b, 2) for a, b in itertools.pairwise(ends)), strict=True)
    )
    low, high = (torch.full_like(nodes, s * 1e6) for s in (-1, 1))
    for _ in range(200):
        middle = (low + high) / 2
        above = t.forward(middle)[0] > nodes
        low, high = torch.where(above, low, middle), torch.where(above, middle, high)
    return low, weights / t.forward(low)[1].exp()


RULES = [coarse(SKEW, 11.0), coarse(SPIKE, 11.0), bins_rule()]


@pytest.fixture(scope="module", params=["kronecker", "hadamard"])
def model(request) -> sq.SquaredCircuit:
    families = [sq.Transformed(sq.Hermite(5), SKEW), sq.Transformed(sq.Hermite(5), SPIKE), BINS]
    circuit = sq.build(sq.regions.balanced_tree(3), families, units=2, product=request.param, roots=2)
    assert sq.is_unitary(circuit)
    return sq.SquaredCircuit(circuit, seed=3, dtype=torch.complex128).eval()


def grid(first: int, second: int, given: float) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Rows over two variables, the third at a value, and their weights."""
    (x, v), (y, w) = RULES[first], RULES[second]
    other = 3 - first - second
    rows = torch.full((len(x), len(y), 3), given, dtype=torch.float64)
    rows[..., first], rows[..., second] = x[:, None], y
    return rows.reshape(-1, 3), (v[:, None] * w).flatten(), other


@pytest.mark.parametrize(("first", "second"), [(0, 1), (0, 2), (1, 2)])
def test_marginals_are_integrals_of_the_density(model, first, second):
    rows, weights, other = grid(first, second, 0.3)
    density = model.log_prob(rows).detach().exp()
    missing = torch.tensor([v != other for v in range(3)])
    expected = (weights * density).sum().log()
    torch.testing.assert_close(
        model.log_prob(rows[:1], missing=missing)[0].detach(), expected, rtol=0, atol=1e-9
    )


@pytest.mark.parametrize("variable", [0, 1, 2])
def test_single_variables_have_mass_one_and_the_means_and_variances_of_their_density(model, variable):
    x, w = RULES[variable]
    rows = torch.full((len(x), 3), torch.nan, dtype=torch.float64)
    rows[:, variable] = x
    missing = torch.tensor([v != variable for v in range(3)])
    masses = w * model.log_prob(rows, missing=missing).detach().exp()
    assert masses.sum().item() == pytest.approx(1, abs=1e-10)
    empty, gone = torch.full((1, 3), torch.nan, dtype=torch.float64), torch.ones(3, dtype=torch.bool)
    mean = model.mean(empty, missing=gone)[0, variable].item()
    assert mean == pytest.approx((masses * x).sum().item(), rel=1e-7)
    variance = model.variance(empty, missing=gone)[0, variable].item()
    assert variance == pytest.approx((masses * x * x).sum().item() - mean**2, rel=1e-6)


def test_samples_follow_the_distribution_of_every_variable(model):
    drawn = model.sample(4000, seed=0).double().numpy()
    for variable, (x, w) in enumerate(RULES):
        order = torch.argsort(x)
        rows = torch.full((len(x), 3), torch.nan, dtype=torch.float64)
        rows[:, variable] = x
        missing = torch.tensor([v != variable for v in range(3)])
        masses = (w * model.log_prob(rows, missing=missing).detach().exp())[order].numpy()
        reached = np.interp(np.sort(drawn[:, variable]), x[order].numpy(), np.cumsum(masses) - masses / 2)
        assert np.abs(reached - (np.arange(4000) + 0.5) / 4000).max() < 2.2 / np.sqrt(4000)


def test_far_from_the_data_the_density_is_tiny_and_finite_in_logarithms(model):
    rows = torch.tensor([[1e6, 0.0, 0.0], [0.0, -1e6, 0.0], [0.0, 0.0, 1e5]], dtype=torch.float64)
    found = model.log_prob(rows).detach()
    assert found.isfinite().all()
    assert (found < -30).all()


def test_files_keep_the_maps(model, tmp_path):
    model.save(tmp_path / "model.sq")
    again = sq.load(tmp_path / "model.sq")
    rows = torch.tensor([[0.2, 0.01, -0.7]], dtype=torch.float64)
    assert torch.equal(again.log_prob(rows), model.log_prob(rows))
    assert [layer.family for layer in again.circuit().inputs] == [
        layer.family for layer in model.circuit().inputs
    ]


def test_bins_mix_with_gaussians_on_one_column():
    gaussian = sq.Gaussian(2, loc=(0.0, 1.0), scale=0.4, learnable=False)
    inner = BINS.inner(gaussian)
    nodes, weights = bins_rule()
    expected = (weights[:, None] * BINS.evaluate(nodes)).mT @ gaussian.evaluate(nodes)
    torch.testing.assert_close(inner, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("base", [sq.Hermite(2, learnable=True), sq.Gaussian(2, learnable=True)])
def test_sums_of_layers_with_learnt_places_of_their_own_have_the_partition_function_of_quadrature(base):
    family = sq.Transformed(base, SKEW)
    layers = [sq.Input(0, family, 1), sq.Input(0, family, 1)]
    circuit = sq.Circuit(sq.Sum(layers, weight=torch.tensor([[0.5, -1.5]]))).initialise(seed=1)
    moved = {n: v + 0.3 for n, v in circuit.weights.items() if n == "input1.loc"}
    model = sq.SquaredCircuit(circuit.with_weights(moved), dtype=torch.float64)
    nodes, weights = RULES[0]
    density = sq.evaluate(model.circuit(), nodes[:, None])[:, 0].abs() ** 2
    assert model.log_partition().exp().item() == pytest.approx(float(density @ weights), rel=1e-9)
