"""The sweep in both of its algebras: gradients by hand are those of the values, wherever layers are read."""

from __future__ import annotations

import importlib

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import squircuit as sq
from squircuit.execution.cuda_graph import CapturedStep
from strategies import Shape, circuits

ANY = Shape(unitary=False, share_inputs=True, tied=(False, True), alternatives=(1, 2))


def with_free_weights(circuit: sq.Circuit, seed: int = 0) -> sq.SquaredCircuit:
    model = sq.SquaredCircuit(circuit, dtype=torch.complex128)
    generator = torch.Generator().manual_seed(seed)
    for stack in model.stacks():
        stack.data = torch.randn(stack.shape, dtype=stack.dtype, generator=generator)
    return model


def log_values(model: sq.SquaredCircuit, *tensors: torch.Tensor) -> torch.Tensor:
    """log |c_r(x)|² of some inputs and stacks."""
    count = len(model.plan.input_groups)
    values, scales = model._density.network(tensors[:count], tensors[count:])
    return values.square().sum(dim=1).log() + 2 * scales


def inputs_of(model: sq.SquaredCircuit, rows: int = 2) -> list[torch.Tensor]:
    """Anything in place of the outputs of input layers: a sweep takes them as they are."""
    generator = torch.Generator().manual_seed(1)
    planes = 2 if model.structure.is_complex else 1
    shapes = [(g.folds, g.units, planes, rows) for g in model.plan.input_groups]
    return [torch.randn(s, dtype=torch.float64, generator=generator).requires_grad_() for s in shapes]


def agree_with_finite_differences(model: sq.SquaredCircuit) -> None:
    stacks = [s.detach().requires_grad_() for s in model.stacks(torch.float64)]

    def values(*tensors: torch.Tensor) -> torch.Tensor:
        return log_values(model, *tensors)

    def norms(*given: torch.Tensor) -> torch.Tensor:
        return model._density.network.log_norms(given, model.family_values, model.device)

    assert torch.autograd.gradcheck(values, [*inputs_of(model), *stacks])
    assert torch.autograd.gradcheck(norms, stacks)


@given(circuit=circuits(ANY, max_variables=3), seed=st.integers(0, 9))
@settings(max_examples=15)
def test_gradients_of_both_sweeps_agree_with_finite_differences(circuit, seed):
    assume(sum(p.shape[0] * p.shape[1] for p in circuit.parameters.values()) < 60)
    agree_with_finite_differences(with_free_weights(circuit, seed))


def test_gradients_of_one_matrix_at_two_depths_and_of_a_layer_with_two_readers_are_sums():
    leaf = [sq.Input(v, sq.Categorical(2), 2, sq.Parameter((2, 2))) for v in range(3)]
    shared = sq.Parameter((2, 4))
    low = sq.Sum(sq.Kronecker([leaf[0], leaf[1]]), weight=shared)
    high = sq.Sum(sq.Kronecker([low, leaf[2]]), weight=shared)
    twice = sq.Hadamard([low, leaf[2]])
    root = sq.Sum([high, twice], units=1)
    agree_with_finite_differences(with_free_weights(sq.Circuit(root, validate=False)))


def test_the_old_place_of_a_captured_step_still_has_it_and_says_where_it_is_now():
    old = importlib.import_module("squircuit.execution.graph")
    with pytest.deprecated_call(match="squircuit.execution.cuda_graph"):
        assert old.CapturedStep is CapturedStep
    with pytest.raises(AttributeError, match="no attribute 'Captured'"):
        _ = old.Captured
