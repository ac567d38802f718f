"""mean, mode and sample of what is missing: one choice with one name."""

import math

import numpy as np
import pytest
import torch

import squircuit as sq

FAMILIES = {
    "hermite": sq.Hermite(9, 0.5, 1.2),
    "legendre": sq.Legendre(7, -2.0, 3.0),
    "fourier": sq.Fourier(9, 4.0),
    "bspline": sq.Orthonormalised(sq.BSpline(8, -1.0, 2.0)),
}


def mixed(family, seed=0, dtype=torch.complex128):
    families = [family, sq.Categorical(3), family]
    circuit = sq.build(sq.regions.linear(3), families, units=3)
    return sq.SquaredCircuit(circuit, seed=seed, dtype=dtype).eval()


def dense(model, row, missing, v):
    """Points and densities of one variable given the rest of a row, by likelihoods of single rows."""
    low, high = (float(x) for x in model.marginals([row], [missing]).nodes[v][[0, -1]])
    points = torch.linspace(low, high, 20001, dtype=torch.float64)
    rows = torch.tensor(row, dtype=torch.float64).repeat(len(points), 1)
    rows[:, v] = points
    others = torch.tensor(missing).clone()
    others[v] = False
    return points, model.log_prob(rows, missing=others).exp().detach()


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("missing", [[True, False, False], [True, True, False], [True, False, True]])
def test_the_mode_of_a_continuous_variable_is_where_its_density_is_highest(name, seed, missing):
    model = mixed(FAMILIES[name], seed)
    row = [0.0, 1.0, 0.3]
    _, p = dense(model, row, missing, 0)
    mode = model.impute([row], [missing], how="mode")[0, 0]
    rows = torch.tensor([[mode.item(), *row[1:]]], dtype=torch.float64)
    found = model.log_prob(rows, missing=torch.tensor([False, *missing[1:]])).exp().item()
    assert found >= p.max().item() * (1 - 1e-6)


def bimodal(n=600):
    rng = np.random.default_rng(0)
    return np.stack([rng.choice([-3.0, 3.0], n) + 0.3 * rng.normal(size=n), rng.normal(size=n)], axis=1)


def test_the_mode_of_two_humps_is_on_one_of_them_and_the_mean_between():
    x = bimodal()
    model = sq.table_model(x, units=2)
    sq.fit(model, x, epochs=20, progress=False)
    gaps = torch.tensor([True, False])
    rows = torch.zeros(5, 2, dtype=torch.float64)
    mode, mean = (model.impute(rows, gaps, how=how)[:, 0] for how in ("mode", "mean"))
    assert ((mode.abs() - 3).abs() < 0.3).all()
    assert (mean.abs() < 2).all()
    assert torch.allclose(mean, model.mean(rows, gaps)[:, 0].to(mean))


def test_the_mean_of_ordered_states_is_the_nearest_and_that_of_others_the_most_probable():
    for ordered in (True, False):
        families = [sq.Categorical(6, ordered=ordered)] * 2
        model = sq.SquaredCircuit(sq.build(sq.regions.linear(2), families, units=2), seed=3)
        rows, gaps = torch.tensor([[0, s] for s in range(6)]), torch.tensor([True, False])
        p = torch.stack([model.log_conditional(rows.index_fill(1, torch.tensor([0]), s), [0], [1]).exp()
                         for s in range(6)], dim=1)  # fmt: skip
        mean = (p @ torch.arange(6.0)).round() if ordered else p.argmax(dim=1)
        filled = model.impute(rows, gaps, how="mean")
        assert filled.dtype == torch.int64
        assert torch.equal(filled[:, 0], mean.long())


def test_the_mean_on_a_circle_is_a_direction():
    rng = np.random.default_rng(0)
    x = np.stack([np.mod(rng.normal(0, 20, 400), 360), rng.normal(size=400)], axis=1)
    table = sq.data.table(x, {"0": "periodic:360"})
    model = sq.table_model(table, units=2)
    sq.fit(model, table, epochs=15, progress=False)
    angle = model.impute([[0.0, 0.0]], [True, False], how="mean")[0, 0].item()
    assert min(angle, 360 - angle) < 30  # the mean of numbers would be near 180


def test_observed_entries_stay_and_rows_may_lack_different_ones():
    model = mixed(FAMILIES["hermite"])
    rows = torch.tensor([[0.2, 1.0, 0.1], [0.4, 2.0, -0.3]], dtype=torch.float64)
    gaps = torch.tensor([[True, False, False], [False, True, True]])
    for how in ("mean", "mode", "sample"):
        filled = model.impute(rows, gaps, how=how)
        assert torch.equal(filled[~gaps], rows[~gaps])
        assert filled.isfinite().all()
        assert filled[1, 1] in (0, 1, 2)
    assert torch.equal(model.impute(rows, [False] * 3), rows)


def test_single_precision_finds_the_same_mode():
    row, gaps = [[0.0, 1.0, 0.3]], [True, False, False]
    single, double = (
        mixed(FAMILIES["hermite"], dtype=dtype).impute(row, gaps)[0, 0].item()
        for dtype in (torch.complex64, torch.complex128)
    )
    assert math.isclose(single, double, abs_tol=1e-3)


def test_the_word_of_before_names_the_words_of_now():
    with pytest.raises(sq.ParameterError, match=r"'likely' is not known\. Fix: pass one of 'mean', 'mode'"):
        mixed(FAMILIES["hermite"]).impute([[0.0, 1.0, 0.3]], [True, False, False], how="likely")
