"""First derivatives are right; of others a model says that they are not there, and what to do instead."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

import squircuit as sq


def discrete() -> tuple[sq.SquaredCircuit, Tensor]:
    circuit = sq.build(sq.regions.quad_tree((2, 2)), sq.Categorical(3), units=2)
    return sq.SquaredCircuit(circuit, seed=0, dtype=torch.complex128).eval(), torch.tensor([[0, 1, 2, 0]])


def continuous() -> tuple[sq.SquaredCircuit, Tensor]:
    circuit = sq.build(sq.regions.linear(3), sq.Hermite(4, learnable=True), units=2)
    return sq.SquaredCircuit(circuit, seed=0, dtype=torch.complex128).eval(), torch.tensor([[0.3, -1.0, 0.5]])


MODELS = [discrete, continuous]
ASKED = {
    "log_prob": lambda model, x: model.log_prob(x).sum(),
    "component_log_prob": lambda model, x: model.component_log_prob(x).sum(),
    "log_partition": lambda model, x: model.log_partition(),
}


@pytest.mark.parametrize("made", MODELS)
@pytest.mark.parametrize("asked", ASKED)
def test_a_graph_of_derivatives_is_refused_with_a_fix(made, asked):
    model, x = made()
    with pytest.raises(sq.SquircuitError, match=r"create_graph=True.*Fix: "):
        torch.autograd.grad(
            ASKED[asked](model, x), list(model.parameters()), create_graph=True, allow_unused=True
        )


@pytest.mark.parametrize("made", MODELS)
def test_transforms_of_torch_func_are_refused_with_a_fix(made):
    model, x = made()
    weights = dict(model.named_parameters())

    def log_p(values):
        return torch.func.functional_call(model, values, (x,)).sum()

    with pytest.raises(sq.SquircuitError, match=r"torch\.func .*Fix: "):
        torch.func.grad(log_p)(weights)
    with pytest.raises(sq.SquircuitError, match=r"torch\.func.vmap .*Fix: "):
        torch.func.vmap(log_p)({name: torch.stack([v.detach()] * 2) for name, v in weights.items()})
    with pytest.raises(sq.SquircuitError, match=r"torch\.func.vmap .*Fix: "):
        torch.func.vmap(lambda row: model.log_prob(row[None]))(x)
    with pytest.raises(sq.SquircuitError, match=r"torch\.func.vmap .*Fix: "):
        torch.func.vmap(lambda row: torch.func.grad(lambda v: model.log_prob(v[None]).sum())(row))(x.double())


def test_forward_mode_is_refused_with_a_fix():
    model, x = continuous()
    with forward_ad.dual_level():
        duals = {n: forward_ad.make_dual(p.detach(), p.detach()) for n, p in model.named_parameters()}
        with pytest.raises(sq.SquircuitError, match=r"forward mode.*Fix: "):
            torch.func.functional_call(model, duals, (x,))


def test_the_way_that_the_error_names_has_second_derivatives():
    model, x = continuous()
    weights = list(model.parameters())
    generator = torch.Generator().manual_seed(0)
    ways = [torch.randn(w.shape, dtype=w.dtype, generator=generator) for w in weights]

    def slope(create_graph: bool) -> Tensor:
        amplitude = sq.evaluate(model.structure.with_weights(model.weights()), x)
        log_p = amplitude.abs().square().log().sum()
        found = torch.autograd.grad(log_p, weights, create_graph=create_graph, allow_unused=True)
        return sum((g.conj() * w).real.sum() for g, w in zip(found, ways, strict=True) if g is not None)

    second = torch.autograd.grad(slope(True), weights, allow_unused=True)
    exact = sum((g.conj() * w).real.sum() for g, w in zip(second, ways, strict=True) if g is not None)
    step, ends = 1e-5, []
    for sign in (1, -1):
        with torch.no_grad():
            for weight, way in zip(weights, ways, strict=True):
                weight += sign * step * way
        ends.append(slope(False))
        with torch.no_grad():
            for weight, way in zip(weights, ways, strict=True):
                weight -= sign * step * way
    assert exact.abs() > 0.1
    torch.testing.assert_close(exact, (ends[0] - ends[1]) / (2 * step), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("made", MODELS)
def test_marginals_have_second_derivatives_that_are_right(made):
    model, x = made()
    missing = torch.zeros(x.shape, dtype=torch.bool)
    missing[:, 0] = True
    weights = list(model.parameters())
    generator = torch.Generator().manual_seed(1)
    ways = [torch.randn(w.shape, dtype=w.dtype, generator=generator) for w in weights]
    with torch.no_grad():
        for weight, way in zip(weights, ways, strict=True):
            weight += 0.1 * way  # off the manifold, so that Z is computed nearby, too

    def slope(create_graph: bool) -> Tensor:
        log_p = model.log_prob(x, missing).sum()
        found = torch.autograd.grad(log_p, weights, create_graph=create_graph, allow_unused=True)
        return sum((g.conj() * w).real.sum() for g, w in zip(found, ways, strict=True) if g is not None)

    second = torch.autograd.grad(slope(True), weights, allow_unused=True)
    exact = sum((g.conj() * w).real.sum() for g, w in zip(second, ways, strict=True) if g is not None)
    step, ends = 1e-5, []
    for sign in (1, -1):
        with torch.no_grad():
            for weight, way in zip(weights, ways, strict=True):
                weight += sign * step * way
        ends.append(slope(False))
        with torch.no_grad():
            for weight, way in zip(weights, ways, strict=True):
                weight -= sign * step * way
    torch.testing.assert_close(exact, (ends[0] - ends[1]) / (2 * step), rtol=1e-4, atol=1e-4)
