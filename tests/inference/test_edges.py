"""Edges of queries: no rows, one row, nothing or all missing, tiny probabilities, wrong masks and data."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import oracle
import squircuit as sq
from query_laws import close, log_marginals, random_mask
from squircuit.inference.upward import batches


def model_of(dtype=torch.complex128, **options):
    circuit = sq.build(sq.regions.quad_tree((2, 3)), sq.Categorical(3), 2, **options).initialise(seed=0)
    return circuit, sq.SquaredCircuit(circuit, dtype=dtype)


OPTIONS = [{}, {"product": "hadamard"}, {"unitary": False}, {"roots": 3}, {"tie": 1}, {"is_complex": False}]


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("options", OPTIONS)
def test_everything_missing_is_one_and_nothing_missing_the_likelihood(options, dtype):
    circuit, model = model_of(dtype, **options)
    x = torch.from_numpy(oracle.some_rows(circuit, 5)).long()
    tolerance = 1e-5 if dtype is torch.complex64 else 1e-12
    nothing, everything = torch.zeros(6, dtype=torch.bool), torch.ones(6, dtype=torch.bool)
    assert torch.allclose(model.log_prob(x, nothing), model.log_prob(x), atol=10 * tolerance)
    assert model.log_prob(x, everything).abs().max() < tolerance
    assert model.log_prob(x, everything).dtype == dtype.to_real()


@pytest.mark.parametrize("options", OPTIONS)
def test_single_precision_agrees_with_enumeration(options):
    circuit, model = model_of(torch.complex64, **options)
    rows, masks = oracle.some_rows(circuit, 6), random_mask(circuit, 6, 3)
    with torch.no_grad():
        assert close(model.log_prob(rows, masks), log_marginals(circuit, rows, masks), 2e-4)


def test_results_do_not_depend_on_the_order_or_the_grouping_of_rows(monkeypatch):
    circuit, model = model_of()
    rows, masks = (
        torch.from_numpy(oracle.some_rows(circuit, 40)),
        torch.from_numpy(random_mask(circuit, 40, 0)),
    )
    with torch.no_grad():
        together = model.log_prob(rows, masks)
        single = torch.cat([model.log_prob(r[None], m[None]) for r, m in zip(rows, masks, strict=True)])
        order = torch.randperm(40, generator=torch.Generator().manual_seed(0))
        assert torch.allclose(together, single, atol=1e-12)
        assert torch.allclose(together[order], model.log_prob(rows[order], masks[order]), atol=1e-12)
        for is_cheaper in (True, False):  # as matrices of all rows, or mask by mask
            monkeypatch.setattr(batches, "_is_cheaper_together", lambda *_, answer=is_cheaper: answer)
            assert torch.allclose(together, model.log_prob(rows, masks), atol=1e-12)
            found = model.marginals(given=rows, missing=masks)
            again = model.marginals(given=rows[order], missing=masks[order])
            assert torch.allclose(found.mean[order], again.mean, atol=1e-12)


def test_batches_are_cut_so_that_memory_is_bounded_without_changing_the_result(monkeypatch):
    circuit, model = model_of()
    rows, masks = oracle.some_rows(circuit, 9), random_mask(circuit, 9, 0)
    with torch.no_grad():
        whole = model.log_prob(rows, masks)
        monkeypatch.setitem(batches.BLOCK, "cpu", 64)
        assert torch.allclose(model.log_prob(rows, masks), whole, atol=1e-12)


def test_questions_may_be_asked_in_inference_mode():
    circuit, model = model_of(is_complex=False)
    x, mask = torch.from_numpy(oracle.some_rows(circuit, 3)), torch.from_numpy(random_mask(circuit, 3, 0))
    with torch.inference_mode():
        found = model.marginals(x, mask).mean, model.sample(2, x, mask, seed=0), model.log_prob(x, mask)
    again = model.marginals(x, mask).mean, model.sample(2, x, mask, seed=0), model.log_prob(x, mask)
    for one, other in zip(found, again, strict=True):  # with gradients, rows take another way
        torch.testing.assert_close(one, other.detach(), rtol=0, atol=1e-12)
    again[2].sum().backward()


def test_no_rows_give_no_results():
    _, model = model_of()
    x, mask = torch.zeros(0, 6, dtype=torch.long), torch.zeros(0, 6, dtype=torch.bool)
    assert model.log_prob(x, mask).shape == (0,)
    assert model.log_conditional(x, [0], [1]).shape == (0,)
    assert model.marginals(given=x, missing=mask).mean.shape == (0, 6)
    assert model.sample(3, given=x, missing=mask).shape == (3, 0, 6)
    assert model.sample(0).shape == (0, 6)
    assert model.expectation({0: torch.square}, given=x, missing=mask).shape == (0,)


def test_one_row_with_nothing_missing_is_returned_as_it_is():
    _, model = model_of()
    x, nothing = torch.tensor([[0, 1, 2, 0, 1, 2]]), torch.zeros(6, dtype=torch.bool)
    assert torch.equal(model.sample(2, given=x, missing=nothing), x.expand(2, 1, 6))
    assert torch.equal(model.impute(x, nothing), x)
    assert model.marginals(given=x, missing=nothing).values == {}
    assert model.given(x, missing=nothing).log_prob(x).abs().max() < 1e-12


def test_nan_in_continuous_data_means_missing_and_is_differentiable():
    families = [sq.Hermite(3), sq.Categorical(3), sq.Fourier(5, 4.0)]
    circuit = sq.build(sq.regions.linear(3), families, 2).initialise(seed=0)
    model = sq.SquaredCircuit(circuit, dtype=torch.complex128)
    rows = np.array([[0.1, 1.0, 0.3], [0.5, 2.0, -1.0]])
    gaps = rows.copy()
    gaps[0, 0] = gaps[1, 2] = math.nan
    masks = np.isnan(gaps)
    found = model.log_prob(torch.from_numpy(gaps))
    assert close(found.detach(), log_marginals(circuit, rows, masks))
    found.sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())
    assert not model.sample(2, given=gaps, seed=0).isnan().any()


@pytest.mark.parametrize("options", [{}, {"product": "hadamard"}, {"unitary": False}])
def test_likelihoods_far_below_the_smallest_float_are_finite_with_half_of_an_image_missing(options):
    model = sq.SquaredCircuit(sq.build(sq.regions.quad_tree((28, 28)), sq.Categorical(256), 3, **options))
    x = torch.randint(256, (2, 784), generator=torch.Generator().manual_seed(0))
    mask = torch.arange(784) % 28 < 14
    with torch.no_grad():
        log_p = model.log_prob(x, mask)
        assert torch.isfinite(log_p).all()
        assert log_p.max() < -1500
        whole = model.log_conditional(x, mask, ~mask) + log_p
    assert torch.allclose(whole, model.log_prob(x), rtol=1e-4)
    assert model.sample(2, given=x, missing=mask, seed=0).shape == (2, 2, 784)


def test_wrong_masks_are_refused_with_their_shape():
    _, model = model_of()
    x = torch.zeros(2, 6, dtype=torch.long)
    with pytest.raises(sq.ParameterError, match=r"missing has shape \(5,\).*pass \(6,\).* or \(2, 6\)"):
        model.log_prob(x, missing=torch.zeros(5, dtype=torch.bool))
    with pytest.raises(sq.ParameterError, match="missing must be booleans"):
        model.log_prob(x, missing=torch.zeros(6))
    with pytest.raises(sq.ParameterError, match="pass given=x, too"):
        model.sample(3, missing=torch.zeros(6, dtype=torch.bool))
    with pytest.raises(sq.ParameterError, match=r"\{1\} are both in of= and in given="):
        model.log_conditional(x, [0, 1], [1])
    with pytest.raises(sq.ParameterError, match="mask of variables"):
        model.log_conditional(x, torch.zeros(5, dtype=torch.bool))


def test_values_outside_their_domain_are_refused_unless_missing():
    _, model = model_of()
    x = torch.zeros(2, 6, dtype=torch.long)
    x[1, 4] = 3
    with pytest.raises(sq.DataError, match="row 1, column 4: 3 is not in the domain, integers 0 to 2"):
        model.log_prob(x, missing=torch.zeros(6, dtype=torch.bool))
    masked = torch.zeros(2, 6, dtype=torch.bool)
    masked[1, 4] = True
    assert torch.isfinite(model.log_prob(x, missing=masked)).all()
    gap = x.double()
    gap[1, 4] = math.nan
    with pytest.raises(
        sq.DataError, match=r"row 1, column 4: nan is not in the domain.*mark the entry in missing="
    ):
        model.sample(1, given=gap)
    assert torch.isfinite(model.log_prob(gap, missing=masked)).all()
    with pytest.raises(sq.DataError, match=r"shape \(n, 6\)"):
        model.marginals(given=[[0, 1]])


def test_a_continuous_value_outside_its_domain_has_density_zero():
    model = sq.SquaredCircuit(sq.build(sq.regions.linear(2), sq.Legendre(3), 2))
    x = torch.tensor([[2.0, 0.0], [0.5, 0.0]])
    log_p = model.log_prob(x, missing=[False, True])
    assert log_p[0] == -math.inf
    assert torch.isfinite(log_p[1])


def not_tractable():
    """Two ways to split three variables over shared inputs: neither U4 nor structured-decomposable."""
    x, y, z = (sq.Input(v, sq.Categorical(2), 2) for v in range(3))
    first = sq.Hadamard([x, sq.Sum(sq.Hadamard([y, z]), units=2)])
    second = sq.Hadamard([sq.Sum(sq.Hadamard([x, y]), units=2), z])
    return sq.Circuit(sq.Sum([first, second], units=1)).initialise(seed=0)


def test_queries_that_are_not_tractable_name_the_property_and_the_layer():
    model = sq.SquaredCircuit(not_tractable(), dtype=torch.complex128)
    x, mask = torch.zeros(1, 3, dtype=torch.long), torch.tensor([True, False, False])
    for question in (lambda: model.log_prob(x, mask), lambda: model.sample(1), lambda: model.marginals()):
        with pytest.raises(sq.StructureError, match="not structured-decomposable at hadamard") as caught:
            question()
        assert "U4" in str(caught.value)


def test_expectations_that_bring_back_cross_terms_are_refused_and_others_not():
    weights = [sq.Parameter((2, 2)) for _ in range(3)]
    a, b = ([sq.Input(v, sq.Categorical(2), 1, w, r) for v, w in enumerate(weights)] for r in (0, 1))
    first = sq.Hadamard([a[0], sq.Sum(sq.Hadamard(a[1:]))])
    second = sq.Hadamard([sq.Sum(sq.Hadamard(b[:2])), b[2]])
    circuit = sq.Circuit(sq.Sum([first, second], units=1)).initialise(seed=0)
    model = sq.SquaredCircuit(circuit, dtype=torch.complex128)
    rows, _ = oracle.assignments(circuit, circuit.scope)
    functions = dict.fromkeys(range(2), lambda x: x + 2)
    expected = oracle.density(circuit, rows) @ (rows[:, :2] + 2).prod(axis=1)
    assert model.expectation(functions).item() == pytest.approx(expected)
    with pytest.raises(sq.StructureError, match="bring back cross terms"):
        model.expectation(dict.fromkeys(range(3), lambda x: x + 2))


def test_wrong_arguments_of_samples_and_expectations_are_refused():
    _, model = model_of()
    with pytest.raises(sq.ParameterError, match="integer ≥ 0, got -1"):
        model.sample(-1)
    with pytest.raises(sq.ParameterError, match="at most 2147483648 at a time"):
        model.sample(2**40)
    with pytest.raises(sq.ParameterError, match="both seed= and generator="):
        model.sample(1, seed=0, generator=torch.Generator())
    with pytest.raises(sq.ParameterError, match="real tensor of the same shape"):
        model.expectation({0: lambda x: x.sum()})
    with pytest.raises(sq.ParameterError, match="is not a variable of the circuit"):
        model.expectation({9: torch.square})
    with pytest.raises(sq.ParameterError, match="grid: variable 0 is discrete"):
        model.marginals(grid={0: [0.5]})
    with pytest.raises(sq.ParameterError, match="how='best' is not known"):
        model.impute(torch.zeros(1, 6, dtype=torch.long), how="best")


@pytest.mark.parametrize("family", [sq.Categorical(3), sq.Hermite(4)])
@pytest.mark.parametrize("missing", [None, [True, False, False], torch.zeros(0, 3, dtype=torch.bool)])
@pytest.mark.parametrize("factor", [1.0, 1.3])
def test_every_question_about_no_rows_has_an_answer_without_rows(family, missing, factor):
    model = sq.SquaredCircuit(sq.build(sq.regions.linear(3), family, units=2, components=2), seed=0).eval()
    for parameter in model.parameters():
        parameter.data *= factor
    x = torch.zeros(0, 3, dtype=torch.long if isinstance(family, sq.Categorical) else torch.float32)
    assert model.log_prob(x, missing).shape == (0,)
    assert model.component_log_prob(x, missing).shape == (0, 2)
    assert model.log_conditional(x, of=[0], given=[1]).shape == (0,)
    for found in (model.mean(x, missing), model.variance(x, missing), model.impute(x, missing)):
        assert found.shape == (0, 3)
    assert model.moments(2, x, missing).shape == (2, 0, 3)
    assert model.sample(4, given=x, missing=missing).shape == (4, 0, 3)
    one = model.marginals()
    none = model.marginals(x, missing)
    for variable in range(3):  # the same points, so that parts of data can be put together
        assert torch.equal(none.points[variable], one.points[variable])
        assert none.values[variable].shape == (0, one.values[variable].shape[1])
        assert none.mode(variable).shape == (0,)
