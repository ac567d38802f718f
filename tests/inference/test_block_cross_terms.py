"""Blocks below weights and sums whose terms cancel: right in single precision, or refused."""

import math

import pytest
import torch

import squircuit as sq

MEANS = [[-1.793, 2.56], [-1.574, 1.235]]
SPREAD = [[0.0809, -0.5], [-0.5, 21.6]]


def cancelling(dtype):
    """√p₁ and √p₂ with weights of opposite signs: where both are alike, almost nothing is left."""
    family = sq.MultivariateGaussian.of(MEANS, SPREAD, "tied", learnable=False)
    weight = sq.Parameter((1, 2), "fixed", False, value=torch.tensor([[-0.8, 0.6]], dtype=torch.float64))
    return sq.SquaredCircuit(sq.Circuit(sq.Sum(sq.Input((0, 1), family), weight=weight)), dtype=dtype).eval()


def near_a_zero():
    """A point between the means where c is 2e-5 of its terms: log p₂/p₁ = (s − ½) D at μ₁ + s (μ₂ − μ₁)."""
    first, second = torch.tensor(MEANS, dtype=torch.float64)
    way = second - first
    distance = way @ torch.linalg.solve(torch.tensor(SPREAD, dtype=torch.float64), way)
    return first + way * (0.5 + (2 * math.log(0.8 / 0.6) + 4e-5) / distance)


def test_rows_of_different_masks_have_the_density_that_each_has_alone_where_terms_cancel():
    single, double = cancelling(torch.float32), cancelling(torch.float64)
    x = near_a_zero().repeat(6, 1)
    missing = torch.zeros(6, 2, dtype=torch.bool)
    missing[1, 1] = missing[2] = True
    exact = double.log_prob(x)[0].item()  # by the functions themselves
    assert exact < double.log_prob(x, missing)[1].item() - 7
    for model in (single, double):
        found = model.log_prob(x, missing)
        for row in (0, 3, 4, 5):
            assert found[row].item() == pytest.approx(exact, abs=1e-2)


def alternatives():
    """Two products of a block and a discrete variable below one sum, which is unitary by construction."""
    means, spread = [[0.3, -4.5], [0.5, 1.6], [1.0, 8.7]], [[0.067, -0.23], [-0.23, 4.0]]
    family = sq.OrthonormalisedBlock(sq.MultivariateGaussian.of(means, spread, "tied", learnable=False))
    blocks, states = sq.Parameter((3, 3)), sq.Parameter((4, 4))
    products = [
        sq.Kronecker(
            [sq.Input((0, 1), family, 1, blocks, i), sq.Input(2, sq.Categorical(4), 2, states, 2 * i)]
        )
        for i in (0, 1)
    ]
    return sq.SquaredCircuit(sq.Circuit(sq.Sum(products, 1)), seed=3, dtype=torch.complex128).eval()


def test_expectations_beside_a_block_of_which_a_part_is_shown_are_refused_where_cross_terms_count():
    model = alternatives()
    with pytest.raises(sq.StructureError, match="over single variables"):
        model.expectation({2: torch.square}, [[0.4, 0.0, 0.0]], [False, True, True])


@pytest.mark.parametrize("shown", [True, False])
def test_expectations_beside_a_block_that_is_shown_or_missing_as_a_whole_are_sums_over_states(shown):
    model, missing = alternatives(), [not shown, not shown, True]
    rows = torch.tensor([[0.4, 1.0, float(state)] for state in range(4)], dtype=torch.float64)
    p = model.log_prob(rows, [not shown, not shown, False]).exp()
    expected = (p * torch.arange(4).square()).sum() / p.sum()
    found = model.expectation({2: torch.square}, rows[:1], missing)
    assert math.isclose(found.item(), expected.item(), rel_tol=1e-9)
