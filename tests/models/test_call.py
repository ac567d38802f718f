"""A call is an evaluation unless it is said to be a training step."""

import math

import pytest
import torch

import squircuit as sq
from squircuit.models import density
from squircuit.storage import memory

X = torch.zeros(1, 16, dtype=torch.long)


@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("mode", [True, False])
def test_calls_divide_by_z_whatever_the_mode_and_gradients(mode, gradients):
    circuit = sq.build(sq.regions.balanced_tree(4), sq.Categorical(2), units=2)
    model = sq.SquaredCircuit(circuit, dtype=torch.complex128).train(mode)
    for parameter in model.parameters():
        parameter.data.mul_(1.5)
    every = torch.cartesian_prod(*[torch.arange(2)] * 4)
    with torch.set_grad_enabled(gradients):
        assert model.log_prob(every).detach().exp().sum().item() == pytest.approx(1, abs=1e-9)


def test_a_step_on_the_manifold_takes_z_for_granted_and_the_next_call_does_not():
    circuit = sq.build(sq.regions.balanced_tree(4), sq.Categorical(2), units=2)
    model = sq.SquaredCircuit(circuit, dtype=torch.complex128)
    before = model.log_prob(X[:, :4]).item()
    for parameter in model.parameters():
        parameter.data.mul_(2)
    weights = len(circuit.inputs) + len(circuit.sums)
    with model.training_step(on_manifold=True):
        assert model.log_prob(X[:, :4]).item() == pytest.approx(before + 2 * weights * math.log(2), abs=1e-9)
    assert model.log_prob(X[:, :4]).item() == pytest.approx(before, abs=1e-9)


def test_a_step_that_fails_leaves_evaluations():
    circuit = sq.build(sq.regions.balanced_tree(4), sq.Categorical(2), units=2)
    model = sq.SquaredCircuit(circuit)
    with pytest.raises(sq.DataError), model.training_step(on_manifold=True):
        model.log_prob([[0, 1, 1, 7]])
    for parameter in model.parameters():
        parameter.data.mul_(2)
    every = torch.cartesian_prod(*[torch.arange(2)] * 4)
    assert model.log_prob(every).detach().exp().sum().item() == pytest.approx(1, abs=1e-5)


def test_what_is_not_tractable_is_an_error_outside_training_steps_and_a_warning_inside():
    circuit = sq.build(sq.regions.patch_splits((4, 4), 2), sq.Categorical(16), units=2)
    model = sq.SquaredCircuit(circuit)
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        noise = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
        parameter.data.add_(0.1 * noise)
    assert model.training
    assert model.needs_manifold
    with pytest.raises(sq.StructureError, match=r"left the manifold.*Fix: .*retract"):
        model.log_prob(X)
    with (
        pytest.warns(UserWarning, match=r"left the manifold.*Fix: train with") as caught,
        model.training_step(),
    ):
        assert model.log_prob(X).requires_grad
    assert caught[0].filename == __file__


def test_the_former_name_of_a_trusted_step_still_serves_and_says_the_new_one():
    model = sq.SquaredCircuit(sq.build(sq.regions.linear(2), sq.Categorical(2), units=2))
    step = model.trusting()
    with pytest.warns(DeprecationWarning, match=r"training_step\(on_manifold=True\)"):
        step.__enter__()
    model.stacks()[0].data.mul_(2)
    assert model.log_prob([[0, 1]]).requires_grad
    step.__exit__(None, None, None)


@pytest.mark.parametrize("components", [False, True])
@pytest.mark.parametrize("mixed", [False, True])
def test_rows_in_blocks_have_the_densities_that_they_have_one_by_one(mixed, components, monkeypatch):
    circuit = sq.build(sq.regions.balanced_tree(4), sq.Categorical(2), units=2, components=3)
    if mixed:  # without sums, each unit has a scale of its own
        layers = [sq.Input(v, sq.Categorical(2), 3, sq.Parameter((3, 2), "free")) for v in range(4)]
        circuit = sq.Circuit(sq.Hadamard(layers))
    model = sq.SquaredCircuit(circuit, dtype=torch.complex128)
    every = torch.cartesian_prod(*[torch.arange(2)] * 4)
    ask = model.component_log_prob if components else model.log_prob
    alone = torch.cat([ask(row[None]) for row in every])
    monkeypatch.setattr(density, "BLOCK_BYTES", 3 * 8 * model.plan.numbers_a_row)
    sizes, blocks = [], density.Density._blocks
    monkeypatch.setattr(
        density.Density, "_blocks", lambda *given: [sizes.append(len(b)) or b for b in blocks(*given)]
    )
    with torch.no_grad():
        assert torch.allclose(ask(every), alone, rtol=0, atol=1e-12)
    assert sizes == [3, 3, 3, 3, 3, 1]
    assert torch.allclose(ask(every), alone, rtol=0, atol=1e-12)
    assert sizes[6:] == [16]


def test_rows_whose_gradients_do_not_fit_into_memory_are_refused_with_a_fix(monkeypatch):
    circuit = sq.build(sq.regions.balanced_tree(4), sq.Categorical(2), units=2)
    model = sq.SquaredCircuit(circuit)
    every = torch.cartesian_prod(*[torch.arange(2)] * 4)
    monkeypatch.setattr(memory, "free_bytes", lambda: 1000)
    with pytest.raises(sq.ParameterError, match=r"log_prob of 16 rows with gradients.*Fix: .*no_grad"):
        model.log_prob(every)
    with torch.no_grad():
        assert model.log_prob(every).exp().sum().item() == pytest.approx(1, abs=1e-5)
