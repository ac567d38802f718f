"""Far from the data units of a layer differ by more than a float holds, and none of them may be lost."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import squircuit as sq
from squircuit.inference.upward.unit_scales import needs_unit_scales

WIDTHS = st.lists(st.floats(0.05, 3.0), min_size=3, max_size=3)


def log_normal(x, widths):
    """log of normal densities around 0, straight from the formula."""
    widths = np.asarray(widths)
    return -((x / widths) ** 2) / 2 - np.log(widths) - math.log(2 * math.pi) / 2


def signed_log_sum(logs, factors):
    """log |Σ_k f_k e^{l_k}|."""
    largest = np.max(logs)
    return largest + np.log(np.abs(np.sum(factors * np.exp(logs - largest))))


def overlaps(widths):
    """∫ N(x; 0, a²) N(x; 0, b²) dx."""
    widths = np.asarray(widths)
    variance = widths[:, None] ** 2 + widths**2
    return 1 / np.sqrt(2 * math.pi * variance)


def model(first, second, weight, dtype=torch.float64):
    """p(x, y) ∝ |Σ_k w_k N(x; a_k) N(y; b_k)|²."""
    inputs = [
        sq.Input(v, sq.Gaussian(3, (0.0,) * 3, tuple(w), learnable=False))
        for v, w in enumerate((first, second))
    ]
    parameter = sq.Parameter((1, 3), "free", False, value=torch.tensor([weight], dtype=torch.float64))
    circuit = sq.Circuit(sq.Sum(sq.Hadamard(inputs), weight=parameter))
    return sq.SquaredCircuit(circuit, dtype=dtype).eval()


def log_z(first, second, weight):
    return math.log(np.outer(weight, weight).ravel() @ (overlaps(first) * overlaps(second)).ravel())


@settings(max_examples=40, deadline=None)
@given(WIDTHS, WIDTHS, st.floats(-60, 60), st.floats(-60, 60))
def test_log_prob_is_that_of_the_formula_at_any_distance(first, second, x, y):
    weight = np.array([0.7, 1.1, 0.4])
    logs = log_normal(x, first) + log_normal(y, second)
    expected = 2 * signed_log_sum(logs, weight) - log_z(first, second, weight)
    found = model(first, second, list(weight)).log_prob([[x, y]]).item()
    assert found == pytest.approx(expected, rel=1e-10, abs=1e-9)


def test_units_that_one_variable_loses_and_another_makes_up_for_count():
    first, second, weight = [0.1, 1.0, 0.4], [1.0, 0.1, 0.4], np.array([0.5, -0.8, 0.3])
    logs = log_normal(20.0, first) + log_normal(20.0, second)
    expected = 2 * signed_log_sum(logs, weight) - log_z(first, second, weight)
    for dtype in (torch.float32, torch.float64):
        found = model(first, second, list(weight), dtype).log_prob([[20.0, 20.0], [0.1, 0.2]])
        assert found[0].item() == pytest.approx(expected, rel=1e-6)
        assert found[1].isfinite()


@settings(max_examples=30, deadline=None)
@given(WIDTHS, WIDTHS, st.floats(-60, 60))
def test_marginals_are_those_of_the_formula_at_any_distance(first, second, x):
    weight = np.array([0.7, 1.1, 0.4])
    logs = log_normal(x, first)
    pairs = np.outer(weight, weight) * overlaps(second)
    expected = signed_log_sum((logs[:, None] + logs).ravel(), pairs.ravel()) - log_z(first, second, weight)
    found = model(first, second, list(weight)).log_prob([[x, math.nan]]).item()
    assert found == pytest.approx(expected, rel=1e-10, abs=1e-9)


def test_conditionals_on_what_is_far_are_those_of_the_formula():
    first, second, weight = [0.1, 1.0, 0.4], [1.0, 0.1, 0.4], np.array([0.5, 0.8, 0.3])
    logs, others = log_normal(25.0, first), log_normal(25.0, second)
    pairs = np.outer(weight, weight) * overlaps(second)
    joint = 2 * signed_log_sum(logs + others, weight)
    given_x = signed_log_sum((logs[:, None] + logs).ravel(), pairs.ravel())
    found = model(first, second, list(weight)).log_conditional([[25.0, 25.0]], of=[1], given=[0]).item()
    assert found == pytest.approx(joint - given_x, rel=1e-9)


def test_gradients_far_out_are_those_of_the_formula():
    first, second, weight = [0.1, 1.0, 0.4], [1.0, 0.1, 0.4], np.array([0.5, -0.8, 0.3])

    def log_p(w):
        logs = log_normal(20.0, first) + log_normal(20.0, second)
        return 2 * signed_log_sum(logs, w) - log_z(first, second, w)

    steps = 1e-5 * np.eye(3)
    expected = [(log_p(weight + h) - log_p(weight - h)) / 2e-5 for h in steps]
    found = model(first, second, list(weight))
    found.log_prob([[20.0, 20.0]]).sum().backward()
    (parameter,) = found.parameters()
    np.testing.assert_allclose(parameter.grad.flatten().numpy(), expected, rtol=1e-4, atol=1e-4)


def test_rows_near_the_data_need_no_scale_of_their_own():
    snapshot = model([0.1, 1.0, 0.4], [1.0, 0.1, 0.4], [0.5, 0.8, 0.3]).snapshot()
    rows = torch.tensor([[0.1, 0.2], [20.0, 0.0]], dtype=torch.float64)
    nothing = torch.zeros(2, 2, dtype=torch.bool)
    assert needs_unit_scales(snapshot, rows, nothing, torch.float64).tolist() == [False, True]


def test_rows_of_several_masks_lose_no_digits_to_matrices():
    """A row that lacks nothing has the digits of a vector, also beside rows that lack something."""
    rotation = torch.tensor([[-0.8, 0.6], [0.6, 0.8]], dtype=torch.float64)
    family = sq.Categorical(2)
    one = sq.Sum(sq.Input(0, family, weight=rotation), weight=rotation[:1])  # exactly 0 at state 1
    other = sq.Input(1, family, weight=torch.tensor([[1.0, 0.0]], dtype=torch.float64))
    mixed = sq.Input(0, family, weight=torch.tensor([[0.3, 0.7]], dtype=torch.float64))
    large = sq.Sum(sq.Kronecker([one, other]), weight=torch.tensor([[1e8]], dtype=torch.float64))
    circuit = sq.Circuit([large, sq.Kronecker([mixed, other])])
    found = sq.SquaredCircuit(circuit, dtype=torch.float64).eval()
    x = torch.tensor([[1, 0], [0, 0], [1, 0]])
    missing = torch.tensor([[False, False], [True, False], [False, True]])
    beside = found.log_prob(x, missing=missing)
    alone = torch.cat([found.log_prob(x[i : i + 1], missing=missing[i : i + 1]) for i in range(3)])
    expected = math.log(0.5 * 0.49 / (0.5 * (1e16 + 0.09 + 0.49)))  # the root of 1e8 is 0 there
    assert beside[0].item() == pytest.approx(expected, abs=1e-6)
    torch.testing.assert_close(beside, alone, rtol=1e-9, atol=1e-9)


def test_units_whose_squares_do_not_fit_beside_one_another_are_refused_by_name():
    family = sq.Categorical(2)
    weight = torch.tensor([[1e80, 1e80], [1e-80, 1e-80]], dtype=torch.float64)
    inverse = torch.tensor([[1e-80, 1e80]], dtype=torch.float64)
    circuit = sq.Circuit(sq.Sum(sq.Input(0, family, weight=weight), weight=inverse))
    with pytest.raises(sq.ParameterError, match="differ in size by a factor of 1e160"):
        sq.SquaredCircuit(circuit, dtype=torch.float64).eval().log_prob([[0]])


@pytest.mark.parametrize("far_first", [True, False])
def test_an_input_layer_that_is_far_away_takes_no_digits_from_one_that_is_near(far_first):
    near, far = sq.Input(0, sq.Hermite(2, -3e5, 0.3)), sq.Input(0, sq.Hermite(2, -9e5, 0.02))
    weights = torch.tensor([[0.5, 0.3, 2.0, 1.0]], dtype=torch.float64)
    parts = [far, near] if far_first else [near, far]
    weights = weights.roll(2, dims=1) if far_first else weights
    circuit = sq.Circuit(sq.Sum(parts, weight=sq.Parameter((1, 4), "fixed", value=weights)))
    model = sq.SquaredCircuit(circuit, dtype=torch.float64).eval()
    t = torch.tensor([-1.0, 0.2, 3.0], dtype=torch.float64)
    h = torch.pi**-0.25 * torch.exp(-(t**2) / 2)  # h₀; h₁ = √2 t h₀
    expected = (0.5 * h + 0.3 * 2**0.5 * t * h) ** 2 / 0.3 / (0.25 + 0.09 + 4 + 1)
    found = model.log_prob((-3e5 + 0.3 * t)[:, None])
    assert torch.allclose(found.exp(), expected, rtol=1e-8)
