"""Inputs over several variables: every answer agrees with integrals over fine grids."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats

import squircuit as sq
from squircuit.families import Monotone, MultivariateGaussian, OrthonormalisedBlock

STATES = 2
GRID = torch.linspace(-14, 14, 141, dtype=torch.float64)
"""The trapezoidal rule is exact to rounding for Gaussians on this scale."""
STEP = float(GRID[1] - GRID[0])


def free(*shape, is_complex=False):
    return sq.Parameter(shape, sq.Constraint.FREE, is_complex)


def gaussians(size, dimension, covariance="full", seed=0, learnable=True, columns=None):
    """Square roots of Gaussians of standard deviations around 1, with correlations."""
    generator = torch.Generator().manual_seed(seed)
    means = 1.5 * torch.randn(size, dimension, generator=generator, dtype=torch.float64)
    roots = torch.randn(size, dimension, dimension, generator=generator, dtype=torch.float64)
    covariances = 0.3 * roots @ roots.mT + 0.5 * torch.eye(dimension, dtype=torch.float64)
    if covariance == "diagonal":
        covariances = covariances.diagonal(dim1=1, dim2=2)
    if covariance == "tied":
        covariances = covariances[0]
    return MultivariateGaussian.of(means.tolist(), covariances.tolist(), covariance, columns, learnable)


def states(v, units, is_complex=False):
    return sq.Input(v, sq.Categorical(STATES), weight=free(units, STATES, is_complex=is_complex))


def mixture():
    return [sq.Hadamard([sq.Input((0, 2), gaussians(3, 2)), states(1, 3)])]


def below_a_sum():
    block = sq.Input((2, 0), gaussians(3, 2, "tied", seed=1))
    return [sq.Sum(sq.Kronecker([block, states(1, 2, True)]), weight=free(2, 6, is_complex=True))]


def combined_functions():
    block = sq.Input((0, 2), gaussians(3, 2, "diagonal", seed=2), weight=free(2, 3, is_complex=True))
    return [sq.Hadamard([block, states(1, 2)])]


def orthonormal():
    family = OrthonormalisedBlock(gaussians(3, 2, seed=3, learnable=False))
    inputs = [sq.Input((0, 2), family, 2), sq.Input(1, sq.Categorical(STATES), 2)]
    return [sq.Sum(sq.Kronecker(inputs), units=1)]


def orthonormal_root():
    family = OrthonormalisedBlock(gaussians(3, 2, seed=3, learnable=False))
    return [sq.Hadamard([sq.Input((0, 2), family), states(1, 3)])]


def different_blocks():
    """Two roots that split the variables differently."""
    apart = [sq.Input((v,), gaussians(2, 1, seed=4 + v)) for v in (2, 0)]
    return [
        sq.Hadamard([sq.Input((0, 2), gaussians(2, 2)), states(1, 2)]),
        sq.Hadamard([*apart, states(1, 2)]),
    ]


def of_both_kinds():
    """Two roots, one over a block and one over single variables."""
    single = [sq.Input(v, sq.Gaussian(2, (-0.5, 1.0), 0.9)) for v in (0, 2)]
    return [
        sq.Hadamard([sq.Input((0, 2), gaussians(2, 2)), states(1, 2)]),
        sq.Hadamard([*single, states(1, 2)]),
    ]


def alternatives():
    blocks = [sq.Input((0, 2), gaussians(2, 2, seed=seed)) for seed in (0, 1)]
    return [sq.Sum([sq.Hadamard([block, states(1, 2)]) for block in blocks], weight=free(1, 4))]


def orthogonal_alternatives():
    family = OrthonormalisedBlock(gaussians(3, 2, seed=3, learnable=False))
    both = sq.Parameter((2, 3)), sq.Parameter((2, STATES))
    products = [
        sq.Kronecker(
            [sq.Input((0, 2), family, 1, both[0], row), sq.Input(1, sq.Categorical(STATES), 1, both[1], row)]
        )
        for row in (0, 1)
    ]
    return [sq.Sum(products, units=1)]


BUILDERS = [mixture, below_a_sum, combined_functions, orthonormal, orthonormal_root, different_blocks]


def model_of(build, seed=0):
    circuit = sq.Circuit(build()).initialise(seed=seed)
    return circuit, sq.SquaredCircuit(circuit, dtype=torch.complex128).eval()


def density(circuit, rows):
    """Σ_r π_r |c_r|² by the reference, not divided by Z."""
    return sq.evaluate(circuit, rows).abs().square() @ circuit.root_shares


def table_of(circuit):
    """The density at all points of the grid, (Q, states, Q), divided by its integral."""
    rows = torch.cartesian_prod(GRID, torch.arange(STATES, dtype=torch.float64), GRID)
    p = density(circuit, rows).reshape(len(GRID), STATES, len(GRID)).numpy()
    return p / (p.sum() * STEP**2)


def marginal(table, circuit, z, row, mask):
    """p of what a row shows, by sums over what it lacks; exact values in place of points of the grid."""
    axes = [GRID.numpy() if mask[v] else np.array([row[v]]) for v in (0, 2)]
    second = range(STATES) if mask[1] else [int(row[1])]
    rows = torch.tensor(list(itertools.product(axes[0], second, axes[1])), dtype=torch.float64)
    return float(density(circuit, rows).sum()) * STEP ** (int(mask[0]) + int(mask[2])) / z


def integral(circuit):
    rows = torch.cartesian_prod(GRID, torch.arange(STATES, dtype=torch.float64), GRID)
    return float(density(circuit, rows).sum()) * STEP**2


MASKS = torch.tensor(list(itertools.product([False, True], repeat=3)))
ROWS = torch.tensor([[0.3, 1, -0.7], [-1.1, 0, 0.4]], dtype=torch.float64)


@pytest.mark.parametrize("build", [*BUILDERS, of_both_kinds])
def test_log_prob_with_another_mask_in_every_row_is_the_integral_over_what_is_missing(build):
    circuit, model = model_of(build)
    z = integral(circuit)
    rows, masks = ROWS.repeat_interleave(8, dim=0), MASKS.repeat(2, 1)
    with torch.no_grad():
        found = model.log_prob(rows, missing=masks)
        assert model.log_partition().item() == pytest.approx(math.log(z), abs=1e-9)
    expected = [
        math.log(marginal(None, circuit, z, row, mask))
        for row, mask in zip(rows.tolist(), masks, strict=True)
    ]
    assert torch.allclose(found, torch.tensor(expected, dtype=torch.float64), atol=1e-8)
    conditional = model.log_conditional(ROWS, of=[0], given=[1, 2]).tolist()
    for row, value in zip(ROWS.tolist(), conditional, strict=True):
        joint, given = (marginal(None, circuit, z, row, mask) for mask in ([False] * 3, [True, False, False]))
        assert value == pytest.approx(math.log(joint / given), abs=1e-8)


@pytest.mark.parametrize("build", BUILDERS)
def test_densities_means_variances_and_moments_given_evidence_are_those_of_the_grid(build):
    circuit, model = model_of(build)
    table = table_of(circuit)
    masks, points = [[True, True, True], [True, False, True], [False, True, True]], GRID[::10]
    rows = [[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [float(GRID[72]), 0.0, 0.0]]
    found = model.marginals(rows, masks, grid={0: points, 2: points})
    moments = model.moments(3, rows, masks)
    for i, p in enumerate((table, table[:, 1:2], table[72:73])):
        p = p / p.sum()
        for v, axes in ((0, (1, 2)), (2, (0, 1))):
            if not masks[i][v]:
                continue
            mass, x = p.sum(axis=axes), GRID.numpy()
            mean = mass @ x
            assert found.mean[i, v].item() == pytest.approx(mean, abs=1e-8)
            assert found.variance[i, v].item() == pytest.approx(mass @ (x - mean) ** 2, abs=1e-8)
            assert moments[2, i, v].item() == pytest.approx(mass @ x**3, abs=1e-7)
            assert np.allclose(found.values[v][i], mass[::10] / STEP, atol=1e-8)
        if masks[i][1]:
            assert np.allclose(found.values[1][i], p.sum(axis=(0, 2)), atol=1e-8)
    every = model.marginals().values[0][0]
    assert float(every.max()) > 0


@pytest.mark.parametrize("build", [*BUILDERS, of_both_kinds])
def test_expectations_of_functions_of_one_or_two_variables_of_a_block_are_those_of_the_grid(build):
    circuit, model = model_of(build)
    p = table_of(circuit) * STEP**2
    x, s = GRID.numpy(), np.arange(STATES)
    both = model.expectation({0: torch.sin, 1: torch.cos, 2: lambda t: t.square()}).item()
    assert both == pytest.approx(np.einsum("isj,i,s,j->", p, np.sin(x), np.cos(s), x**2), abs=1e-8)
    row = [[float(GRID[76]), 0.0, 0.0]]
    given = model.expectation({0: torch.exp, 2: torch.sin}, row, [[False, True, True]]).item()
    q = p[76].sum(axis=0) / p[76].sum()
    assert given == pytest.approx(math.exp(float(GRID[76])) * (q @ np.sin(x)), abs=1e-8)


@pytest.mark.parametrize("build", [*BUILDERS, of_both_kinds])
def test_samples_follow_the_distribution_functions_of_the_grid(build):
    circuit, model = model_of(build)
    table = table_of(circuit)
    x = GRID.numpy() + STEP / 2
    drawn = model.sample(2000, seed=1)
    given = model.sample(2000, given=[[float(GRID[72]), 0.0, 0.0]], missing=[False, True, True], seed=2)[:, 0]
    assert (given[:, 0] == GRID[72]).all()
    shown = table[72:73] / (table[72:73].sum() * STEP**2)
    for samples, p, v, axes in (
        (drawn, table, 0, (1, 2)),
        (drawn, table, 2, (0, 1)),
        (given, shown, 2, (0, 1)),
    ):
        cdf = np.cumsum(p.sum(axis=axes))
        statistic = stats.kstest(samples[:, v].numpy(), lambda t, c=cdf: np.interp(t, x, c / c[-1])).statistic
        assert statistic * math.sqrt(2000) < 2.2
    u, w = np.meshgrid(GRID.numpy(), GRID.numpy(), indexing="ij")
    product = (table.sum(axis=1) * u * w).sum() * STEP**2
    values = (drawn[:, 0] * drawn[:, 2]).numpy()
    assert abs(values.mean() - product) < 5 * values.std() / math.sqrt(2000)
    share = table[:, 1].sum() * STEP**2
    assert abs(float(drawn[:, 1].mean()) - share) < 5 * math.sqrt(share * (1 - share) / 2000)


@pytest.mark.parametrize("build", BUILDERS)
def test_imputation_fills_gaps_with_the_mean_the_highest_point_or_a_sample(build):
    circuit, model = model_of(build)
    row, missing = torch.tensor([[0.0, 1.0, float(GRID[66])]], dtype=torch.float64), [[True, False, False]]
    rows = torch.stack([GRID, torch.ones_like(GRID), GRID[66].expand_as(GRID)], dim=1)
    p = density(circuit, rows)
    mean = model.impute(row, missing, how="mean")[0]
    assert mean[0].item() == pytest.approx(float((p * GRID).sum() / p.sum()), abs=1e-8)
    mode = model.impute(row, missing, how="mode")
    beside = torch.cat([mode + shift * torch.tensor([1.0, 0, 0]) for shift in (-1e-4, 1e-4)])
    assert density(circuit, mode) >= p.max()
    assert (density(circuit, mode) >= density(circuit, beside)).all()
    sample = model.impute(row, missing, how="sample", seed=0)[0]
    assert sample[1:].tolist() == row[0, 1:].tolist()


@pytest.mark.parametrize("build", [mixture, below_a_sum, combined_functions, different_blocks])
def test_gradients_of_marginals_agree_with_finite_differences(build):
    _, model = model_of(build)
    names = [name for name, _ in model.named_parameters()]
    values = [value.detach().clone().requires_grad_() for value in model.parameters()]
    masks = torch.tensor([[True, False, False], [False, True, True], [False, False, True]])

    def answers(*held):
        return torch.func.functional_call(
            model, dict(zip(names, held, strict=True)), (ROWS[[0, 1, 0]], masks)
        )

    assert torch.autograd.gradcheck(answers, values)


def test_log_densities_of_a_mixture_are_exact_at_any_distance():
    family = gaussians(4, 3, seed=7)
    model = sq.SquaredCircuit(sq.Circuit(sq.Input((0, 1, 2), family)), dtype=torch.float64).eval()
    values = family.parameters()
    raw = values["factor"]
    lower = raw.tril(-1) + torch.diag_embed(raw.diagonal(dim1=1, dim2=2).exp())
    covariance, mean = lower @ lower.mT, values["loc"]
    for distance, mask in itertools.product((1.0, 1e3, 1e7), itertools.product([False, True], repeat=3)):
        row = distance * torch.tensor([[0.3, -0.8, 0.5]], dtype=torch.float64)
        seen = [v for v in range(3) if not mask[v]]
        expected = 0.0
        if seen:
            part = torch.distributions.MultivariateNormal(mean[:, seen], covariance[:, seen][:, :, seen])
            expected = float((part.log_prob(row[:, seen]) - math.log(4)).logsumexp(dim=0))
        found = model.log_prob(row, missing=list(mask)).item()
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_three_variables_of_one_block_are_integrated_in_any_combination():
    family = gaussians(2, 3, seed=8)
    circuit = sq.Circuit(sq.Sum(sq.Input((2, 0, 1), family), weight=free(1, 2))).initialise(seed=1)
    model = sq.SquaredCircuit(circuit, dtype=torch.float64).eval()
    grid = torch.linspace(-8, 8, 65, dtype=torch.float64)
    step = float(grid[1] - grid[0])
    p = density(circuit, torch.cartesian_prod(grid, grid, grid)).reshape(65, 65, 65)
    p = p / (p.sum() * step**3)
    at = [30, 35, 28]
    row = grid[at].unsqueeze(0)
    for mask in itertools.product([False, True], repeat=3):
        part = p[tuple(slice(None) if lacks else place for lacks, place in zip(mask, at, strict=True))]
        expected = float((part.sum() * step ** sum(mask)).log())
        assert model.log_prob(row, missing=list(mask)).item() == pytest.approx(expected, abs=1e-6)
    assert model.mean()[0, 1].item() == pytest.approx(
        float((p.sum(dim=(0, 2)) * grid).sum() * step**3), abs=1e-6
    )


def test_transformed_columns_have_the_means_and_densities_of_the_grid():
    bent = Monotone.fit(np.exp(np.linspace(-2, 2, 400)), knots=12)
    family = gaussians(2, 2, seed=9, columns=(bent, None))
    circuit = sq.Circuit(
        sq.Input((0, 1), family), root_weights=sq.Parameter((2,), sq.Constraint.SIMPLEX, False)
    )
    model = sq.SquaredCircuit(circuit.initialise(seed=2), dtype=torch.float64).eval()
    t = torch.linspace(-9, 9, 4001, dtype=torch.float64)
    x = bent.inverse(t)
    rows = torch.stack([x, torch.full_like(x, 0.4)], dim=1)
    p = model.log_prob(rows).detach().exp()
    p = p * (-bent.forward(x)[1]).exp()  # dx/dt: in t the rule is the better one
    total = p.sum()
    found = model.marginals(rows[:1], [True, False], grid={0: x[1500:2500:100]})
    assert found.mean[0, 0].item() == pytest.approx(float((p * x).sum() / total), rel=1e-9)
    slope = bent.forward(x)[1].exp()
    assert torch.allclose(
        found.values[0][0], (p / total * slope / float(t[1] - t[0]))[1500:2500:100], rtol=1e-9
    )
    drawn = model.sample(2000, given=rows[:1], missing=[True, False], seed=3)[:, 0, 0]
    assert abs(float(drawn.mean()) - found.mean[0, 0].item()) < 5 * float(drawn.std()) / math.sqrt(2000)


def test_distributions_of_torch_and_fidelities_know_blocks():
    _, model = model_of(mixture)
    rest = model.given(ROWS, missing=[True, False, False])
    drawn = rest.sample((3,), seed=0)
    assert drawn.shape == (3, 2, 3)
    assert torch.allclose(
        rest.log_prob(drawn[0]), model.log_conditional(drawn[0], of=[0], given=[1, 2]), atol=1e-9
    )
    assert sq.inference.fidelity(model, model) == pytest.approx(1.0)
    assert model.distribution().mean.shape == (3,)


def test_what_has_no_closed_form_is_refused_with_a_fix():
    _, model = model_of(alternatives)
    with pytest.raises(sq.StructureError, match="give the block one input layer that has all"):
        model.log_prob(ROWS)
    _, model = model_of(orthogonal_alternatives)
    assert model.log_prob(ROWS, missing=MASKS[:2]).isfinite().all()
    for question in (model.marginals, lambda: model.sample(2)):
        with pytest.raises(sq.StructureError, match="interference the last missing variable sees alone"):
            question()
    assert model.sample(2, given=ROWS, missing=[False, True, False], seed=0).shape == (2, 2, 3)
    _, model = model_of(of_both_kinds)
    with pytest.raises(sq.StructureError, match="layers of one kind"):
        model.marginals()
    four = sq.SquaredCircuit(sq.Circuit(sq.Input((0, 1, 2, 3), gaussians(2, 4))), dtype=torch.float64)
    with pytest.raises(sq.StructureError, match="ask for fewer at a time"):
        four.expectation(dict.fromkeys(range(4), torch.sin))


def test_no_rows_and_rows_that_lack_nothing_have_answers_of_their_shapes():
    _, model = model_of(mixture)
    none = torch.zeros(0, 3, dtype=torch.float64)
    assert model.marginals(none, MASKS[:0]).mean.shape == (0, 3)
    assert model.impute(none, MASKS[:0], how="mode").shape == (0, 3)
    assert torch.equal(model.impute(ROWS, torch.zeros(2, 3, dtype=torch.bool), how="mean"), ROWS)


def test_in_single_precision_answers_are_those_of_double_up_to_rounding():
    circuit, model = model_of(mixture)
    single = sq.SquaredCircuit(circuit, dtype=torch.float32).eval()
    rows, masks = ROWS.repeat_interleave(8, dim=0), MASKS.repeat(2, 1)
    with torch.no_grad():
        assert torch.allclose(single.log_prob(rows, masks).double(), model.log_prob(rows, masks), atol=1e-4)
        assert torch.allclose(single.mean(rows, masks).double(), model.mean(rows, masks), atol=1e-4)


def test_below_a_sum_units_that_are_far_apart_count_each_with_its_own_scale():
    """One block is e^−20000 smaller in one unit, the other in the other: their products are alike."""
    far, spread = 200.0, torch.tensor([[1.0, 0.3], [0.3, 1.0]], dtype=torch.float64)
    means = torch.tensor([[[0.0, 0.0], [far, far]], [[far, far], [0.0, 0.0]]], dtype=torch.float64)
    blocks = [
        sq.Input(variables, MultivariateGaussian.of(mean.tolist(), [spread.tolist()] * 2))
        for variables, mean in zip(((0, 1), (2, 3)), means, strict=True)
    ]
    weights = torch.tensor([[0.6, 0.8]], dtype=torch.float64)
    circuit = sq.Circuit(sq.Sum(sq.Hadamard(blocks), weight=weights))
    model = sq.SquaredCircuit(circuit, dtype=torch.float64).eval()
    row = torch.tensor([[0.1, -0.2, 0.3, 0.2]], dtype=torch.float64)
    log_z = _log_of_pairs(means, spread, weights[0], row[0], [True] * 4)
    for mask in itertools.product([False, True], repeat=4):
        expected = _log_of_pairs(means, spread, weights[0], row[0], mask) - log_z
        found = model.log_prob(row, missing=list(mask)).item()
        assert found == pytest.approx(expected, rel=1e-10, abs=1e-9)


def _log_of_pairs(means, spread, weights, row, mask):
    """log Σ_jk w_j w_k ∏_b ∫ f_j f_k over what is missing of the two blocks, by Gaussian formulas."""
    logs = (weights[:, None] * weights).log()
    for b, mean in enumerate(means):
        seen = [v for v in (0, 1) if not mask[2 * b + v]]
        left = [v for v in (0, 1) if mask[2 * b + v]]
        rest = mean[:, left]
        if seen:
            part, at = spread[seen][:, seen], row[2 * b : 2 * b + 2][seen]
            half = torch.distributions.MultivariateNormal(mean[:, seen], part).log_prob(at) / 2
            logs = logs + half[:, None] + half
            gain = spread[left][:, seen] @ torch.linalg.inv(part)
            rest = rest + (at - mean[:, seen]) @ gain.mT
        if left:
            within = spread[left][:, left]
            if seen:
                within = within - gain @ spread[seen][:, left]
            apart = rest[:, None] - rest  # equal covariances: the overlap is exp(−|Δ|²/8)
            logs = logs - torch.einsum("jka,ab,jkb->jk", apart, torch.linalg.inv(within), apart) / 8
    return float(logs.flatten().logsumexp(dim=0))


def test_modes_are_the_highest_points_also_between_gaussians_that_are_subtracted():
    family = MultivariateGaussian.of(
        [[-0.56, 0.72], [-0.8, 0.52]], [[0.059, 0.089], [0.131, 0.133]], "diagonal"
    )
    layer = sq.Input((0, 1), family, weight=torch.tensor([[1.67, -1.65]]))
    model = sq.SquaredCircuit(sq.Circuit(layer), dtype=torch.float64).eval()
    found = model.impute(torch.zeros(1, 2), torch.tensor([True, True]))[0]
    grid = torch.linspace(-3, 3, 1201, dtype=torch.float64)
    densities = model.marginals(grid={0: grid, 1: grid}).values
    for v, mode in enumerate(found):
        assert mode.item() == pytest.approx(grid[densities[v][0].argmax()].item(), abs=0.01)


def test_expectations_over_one_transformed_variable_are_exact_to_rounding():
    bent = Monotone((-0.6, -0.1, 0.2, 1.1), (-1.5, -0.2, 0.9, 2.0), (0.8, 2.2, 2.7, 2.3), (0.5, 0.5))
    family = MultivariateGaussian.of([[-0.5], [0.6]], [[[0.08]], [[0.3]]], columns=(bent,))
    layer = sq.Input((0,), family, weight=torch.tensor([[1.0, -0.4]]))
    model = sq.SquaredCircuit(sq.Circuit(layer), dtype=torch.float64).eval()
    mean, variance = model.mean()[0, 0], model.variance()[0, 0]  # by rules of their own
    assert model.expectation({0: torch.square}).item() == pytest.approx(
        (variance + mean**2).item(), rel=1e-12
    )


@pytest.mark.parametrize("covariance", ["full", "diagonal", "tied"])
def test_blocks_without_learnable_numbers_answer_another_mask_in_every_row(covariance):
    """As rows with the same masks do when asked one by one."""
    family = gaussians(3, 2, covariance, learnable=False)
    model = sq.SquaredCircuit(sq.Circuit(sq.Input((0, 1), family)), dtype=torch.float64).eval()
    rows = torch.randn(6, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    masks = torch.tensor([[1, 1], [1, 1], [0, 1], [0, 0], [1, 0], [1, 1]]).bool()
    alone = [model.log_prob(row[None], mask[None]).item() for row, mask in zip(rows, masks, strict=True)]
    with torch.no_grad():
        assert model.log_prob(rows, masks).tolist() == pytest.approx(alone, abs=1e-12)
