"""Rows of many masks computed together: what each row gives by itself, whatever the others lack."""

import pytest
import torch

import squircuit as sq
from squircuit.inference import likelihood, marginals
from squircuit.inference.upward.block_inputs import are_many

ROWS = 24


def chow_liu_like(product="kronecker", unitary=True):
    families = [sq.Categorical(3), sq.Hermite(4), sq.Legendre(4), sq.Categorical(2), sq.Hermite(3)]
    circuit = sq.build(
        sq.regions.random_tree(5, seed=1),
        families,
        3 if product == "kronecker" else 2,
        product,
        unitary=unitary,
    )
    return sq.SquaredCircuit(circuit, seed=3, dtype=torch.float64).eval()


def blocks():
    covariances = torch.stack([a @ a.T + torch.eye(3) for a in torch.randn(4, 3, 3, generator=seeded())])
    means = torch.randn(4, 3, generator=seeded())
    bent = sq.Monotone.fit(torch.randn(300, generator=seeded()).exp().numpy(), knots=8)
    family = sq.MultivariateGaussian.of(means, covariances, columns=(None, bent, None), learnable=True)
    block = sq.Input((1, 2, 4), family)
    weights = {v: sq.Parameter((4, n), sq.Constraint.FREE, False) for v, n in ((0, 3), (3, 2))}
    others = [sq.Input(v, sq.Categorical(w.shape[1]), weight=w) for v, w in weights.items()]
    root = sq.Hadamard([block, *others])
    circuit = sq.Circuit(root, root_weights=sq.Parameter((4,), sq.Constraint.SIMPLEX, False))
    return sq.SquaredCircuit(circuit.initialise(seed=2), dtype=torch.float64).eval()


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def data():
    x = torch.rand(ROWS, 5, generator=seeded(), dtype=torch.float64)
    x[:, 0], x[:, 3] = torch.arange(ROWS) % 3, torch.arange(ROWS) % 2
    missing = torch.rand(ROWS, 5, generator=seeded(4)) < 0.4
    missing[0], missing[1] = False, True
    return x, missing


MODELS = {
    "kronecker": lambda: chow_liu_like(),
    "hadamard": lambda: chow_liu_like("hadamard"),
    "not normalised": lambda: chow_liu_like(unitary=False),
    "blocks": blocks,
}


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]()


def by_row(function, x, missing):
    return torch.cat([function(x[i : i + 1], missing[i : i + 1]) for i in range(len(x))])


def test_densities_of_many_masks_are_those_of_each_row_alone(model, monkeypatch):
    x, missing = data()
    monkeypatch.setattr(likelihood, "is_mixed", lambda snapshot, evidence: snapshot.is_tree_of_sums)
    together = model.log_prob(x, missing)
    monkeypatch.setattr(likelihood, "is_mixed", lambda *_: False)
    torch.testing.assert_close(together, by_row(model.log_prob, x, missing), rtol=1e-10, atol=1e-10)


def test_gradients_of_many_masks_are_those_of_each_row_alone(model, monkeypatch):
    x, missing = data()
    found = []
    for is_mixed in (True, False):
        monkeypatch.setattr(likelihood, "is_mixed", lambda s, e, on=is_mixed: on and s.is_tree_of_sums)
        model.zero_grad()
        log_p = model.log_prob(x, missing) if is_mixed else by_row(model.log_prob, x, missing)
        log_p.sum().backward()
        found.append([p.grad.clone() for p in model.parameters()])
    for together, alone in zip(*found, strict=True):
        torch.testing.assert_close(together, alone, rtol=1e-8, atol=1e-9)


def test_marginals_and_means_of_many_masks_are_those_of_each_row_alone(model):
    x, missing = data()
    assert len(x) > marginals.FEW
    assert are_many(missing)
    found = model.marginals(x, missing)
    filled = model.impute(x, missing, how="mean")
    for i in range(len(x)):
        alone = model.marginals(x[i : i + 1], missing[i : i + 1])
        torch.testing.assert_close(found.mean[i], alone.mean[0], rtol=1e-8, atol=1e-8)
        torch.testing.assert_close(found.variance[i], alone.variance[0], rtol=1e-7, atol=1e-8)
        row = model.impute(x[i : i + 1], missing[i : i + 1], how="mean")[0]
        torch.testing.assert_close(filled[i], row, rtol=1e-8, atol=1e-8)
