"""log Z of sums over orthogonal alternatives, all layers of a group together."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import oracle
import squircuit as sq
from strategies import Shape, circuits


def propagated(model: sq.SquaredCircuit, stacks: list[torch.Tensor]) -> torch.Tensor:
    norms = model._density.network.log_norms(stacks, model.family_values, model.device)
    return torch.logsumexp(norms + model.root_shares().log(), dim=0)


def with_any_sums(circuit: sq.Circuit, seed: int) -> sq.SquaredCircuit:
    """Input functions stay orthonormal, weights of sums are anything: alternatives are still orthogonal."""
    model = sq.SquaredCircuit(circuit, dtype=torch.complex128)
    generator = torch.Generator().manual_seed(seed)
    for stack, values in zip(model.plan.stacks, model.stacks(), strict=True):
        if stack.name.startswith("sum"):
            values.data = torch.randn(values.shape, dtype=values.dtype, generator=generator)
    return model


@given(data=st.data(), seed=st.integers(0, 9))
@settings(max_examples=40)
def test_log_z_of_orthogonal_alternatives_is_the_log_of_the_sum_over_all_states(data, seed):
    circuit = data.draw(circuits(Shape(structured=False, alternatives=(2, 3)), max_variables=3))
    assume(oracle.small(circuit, 5000))
    model = with_any_sums(circuit, seed)
    expected = math.log(oracle.partition(model.circuit()))
    assert propagated(model, model.stacks()).item() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("product", ["kronecker", "hadamard"])
def test_gradients_of_log_z_of_alternatives_agree_with_finite_differences(product):
    splits = sq.regions.patch_splits((2, 2), min_side=2)
    model = with_any_sums(sq.build(splits, sq.Categorical(5), 2, product).initialise(seed=1), seed=2)
    assert model.plan.has_cross_terms
    assert torch.autograd.gradcheck(lambda *stacks: propagated(model, list(stacks)), model.stacks())


def test_log_z_of_alternatives_off_the_manifold_is_the_log_of_the_sum_over_all_states():
    splits = sq.regions.patch_splits((2, 2), min_side=2)
    model = sq.SquaredCircuit(
        sq.build(splits, sq.Categorical(8), 2).initialise(seed=0), dtype=torch.complex128
    )
    assert abs(model.log_partition().item()) < 1e-12
    with torch.no_grad():
        model.stacks()[-1].mul_(3)
    assert not model.is_normalised()
    expected = math.log(oracle.partition(model.circuit()))
    assert model.log_partition().item() == pytest.approx(expected, abs=1e-9)


def test_an_alternative_of_probability_0_leaves_log_z_finite():
    splits = sq.regions.patch_splits((2, 2), min_side=2)
    model = with_any_sums(sq.build(splits, sq.Categorical(8), 2).initialise(seed=0), seed=0)
    first = next(
        v for s, v in zip(model.plan.stacks, model.stacks(), strict=True) if s.name.startswith("sum")
    )
    with torch.no_grad():
        first[0] = 0
    expected = math.log(oracle.partition(model.circuit()))
    assert propagated(model, model.stacks()).item() == pytest.approx(expected, abs=1e-9)
