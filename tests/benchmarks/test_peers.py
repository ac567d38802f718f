"""Peers compute what we compute; skipped where they are not installed."""

import pytest
import torch

import squircuit as sq
from measure import Plan, measure
from peers.landing_pc import LandingPC, orthonormalise, project
from setups import KINDS, Setup


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("inputs", ["learnt", "fixed"])
def test_cirkit_has_our_log_density_with_our_weights(kind, inputs):
    pytest.importorskip("cirkit")
    from peers import cirkit

    setup = Setup(kind, units=2 if kind == "squared-kronecker" else 3, batch=5, side=3, inputs=inputs)
    model = sq.SquaredCircuit(setup.circuit())
    log_prob, _ = cirkit.build(setup, model.weights())
    torch.testing.assert_close(log_prob(setup.data()), model.log_prob(setup.data()), rtol=1e-5, atol=1e-4)


def test_pogo_trains_our_model():
    pytest.importorskip("pogo")
    plan = Plan(repeats=1, warm_up=1, isolate=False)
    assert measure("pogo", Setup(units=2, batch=3, side=2), plan).problem == ""
    squared = measure("pogo", Setup("squared-hadamard", 2, 3, 2), plan)
    assert squared.problem == "not offered: pogo-torch is for unitary models"


def random_stack(*shape, scale=1.0):
    return torch.randn(*shape, dtype=torch.complex64, generator=torch.Generator().manual_seed(0)) * scale


def distance(x):
    return torch.linalg.matrix_norm(x @ x.mH - torch.eye(x.shape[-2])).max().item()


def test_orthonormalise_and_project_reach_the_manifold():
    x = random_stack(20, 3, 8)
    assert distance(project(x)) < 1e-5
    orthonormalise(x)
    assert distance(x) < 1e-5


def test_the_peers_landing_pc_takes_the_steps_of_ours():
    start = random_stack(4, 3, 8)
    orthonormalise(start)
    goal = random_stack(4, 3, 8, scale=0.3)
    theirs, ours = (torch.nn.Parameter(start.clone()) for _ in range(2))
    optimisers = [
        LandingPC([theirs], lr=0.05),
        sq.optim.LandingPC([{"params": [ours], "constrained": True}], lr=0.05),
    ]
    for _ in range(20):
        for weight, optimiser in zip([theirs, ours], optimisers, strict=True):
            optimiser.zero_grad()
            (weight - goal).abs().square().sum().backward()
            optimiser.step()
    assert (theirs - start).abs().max() > 0.01
    torch.testing.assert_close(theirs, ours, rtol=1e-3, atol=1e-4)


def test_a_matrix_that_is_far_away_is_projected():
    weight = torch.nn.Parameter(random_stack(2, 3, 8))
    weight.grad = torch.zeros_like(weight)
    LandingPC([weight]).step()
    assert distance(weight.detach()) < 1e-4
