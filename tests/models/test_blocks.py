"""Models over blocks of variables: training, files, mixtures."""

from __future__ import annotations

import pytest
import torch

import squircuit as sq

KINDS = [("full", None), ("diagonal", None), ("tied", None), ("low-rank", 1)]


def clusters(count: int = 200) -> torch.Tensor:
    g = torch.Generator().manual_seed(0)
    mixing = torch.tensor([[1.0, 0.9, 0.0], [0.0, 0.3, 0.2], [0.0, 0.0, 0.5]])
    first = torch.randn(count, 3, generator=g) @ mixing + 2
    return torch.cat([first, 0.5 * torch.randn(count, 3, generator=g) - 1]).double()


def gaussian_mixture(
    means, covariances, weights, variables=None, dtype=torch.complex128
) -> sq.SquaredCircuit:
    means = torch.as_tensor(means, dtype=torch.float64)
    family = sq.MultivariateGaussian(*means.shape)
    places = tuple(range(means.shape[1])) if variables is None else variables
    layer = sq.Input(places, family, parameters=family.values_of(means, covariances))
    pi = sq.Parameter((len(means),), "simplex", False, value=torch.as_tensor(weights, dtype=torch.float64))
    return sq.SquaredCircuit(sq.Circuit(layer, root_weights=pi), dtype=dtype)


@pytest.mark.parametrize(("kind", "rank"), KINDS)
def test_adam_improves_a_gaussian_mixture_and_z_stays_1(kind, rank):
    x = clusters()
    layer = sq.Input((0, 1, 2), sq.MultivariateGaussian(3, 3, kind, rank))
    model = sq.SquaredCircuit(sq.Circuit(layer, root_weights=sq.Parameter((3,), "simplex", False)))
    before = model.log_prob(x).mean().item()
    sq.fit(model, x, epochs=10, lr=0.03, progress=False)
    after = model.log_prob(x).mean().item()
    assert after > before + 2
    assert abs(model.log_partition().item()) < 1e-6
    exact = model.double()
    assert abs(exact.log_partition().item()) < 1e-12


def test_a_gaussian_mixture_has_the_density_of_torch():
    g = torch.Generator().manual_seed(1)
    means = torch.randn(4, 3, generator=g, dtype=torch.float64)
    root = torch.randn(4, 3, 3, generator=g, dtype=torch.float64)
    covariances = root @ root.mT + 0.2 * torch.eye(3)
    weights = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    model = gaussian_mixture(means, covariances, weights, (2, 0, 1))
    x = torch.randn(50, 3, generator=g, dtype=torch.float64)
    normal = torch.distributions.MultivariateNormal(means, covariances)
    expected = (normal.log_prob(x[:, None, [2, 0, 1]]) + weights.log()).logsumexp(dim=1)
    torch.testing.assert_close(model.log_prob(x), expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(model.float().log_prob(x).double(), expected, rtol=1e-5, atol=1e-5)


def test_a_model_of_blocks_comes_back_from_its_file(tmp_path):
    layers = [
        sq.Input((0, 2), sq.MultivariateGaussian(2, 2)),
        sq.Input(1, sq.Categorical(3), units=2),
        sq.Input((4, 3), sq.MultivariateGaussian(2, 2, "low-rank", 1)),
    ]
    model = sq.SquaredCircuit(sq.Circuit(sq.Hadamard(layers)), seed=3)
    x = torch.randn(5, 5, dtype=torch.float64)
    x[:, 1] = torch.tensor([0, 1, 2, 0, 1])
    model.save(tmp_path / "model.safetensors")
    assert torch.equal(sq.load(tmp_path / "model.safetensors").log_prob(x), model.log_prob(x))


def test_a_mixture_of_models_of_blocks_and_others_is_the_weighted_sum_of_their_densities():
    eye = torch.eye(2).double()
    first = gaussian_mixture([[0.0, 0.0]], eye[None], [1.0])
    second = gaussian_mixture([[1.0, 1.0], [2.0, 0.0]], torch.stack([eye, 2 * eye]), [0.5, 0.5], (1, 0))
    third = sq.SquaredCircuit(sq.build(sq.regions.linear(2), sq.Hermite(4), units=3), dtype=torch.complex128)
    mixed = sq.mixture([first, second, third], [0.2, 0.3, 0.5])
    x = torch.randn(6, 2, dtype=torch.float64)
    parts = torch.stack([m.log_prob(x) for m in (first, second, third)], dim=1)
    expected = (parts + torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64).log()).logsumexp(dim=1)
    torch.testing.assert_close(mixed.log_prob(x), expected, rtol=1e-9, atol=1e-9)
    assert abs(mixed.log_partition().item()) < 1e-9


def test_layers_of_one_family_are_one_group_with_one_stack_a_parameter():
    family = sq.MultivariateGaussian(3, 2)
    layers = [sq.Input(block, family) for block in ((0, 1), (2, 3), (5, 4))]
    model = sq.SquaredCircuit(sq.Circuit(sq.Hadamard(layers)))
    (group,) = model.plan.input_groups
    assert group.blocks == ((0, 1), (2, 3), (5, 4))
    shapes = {tuple(parameter.shape) for parameter in model.parameters()}
    assert shapes == {(3, 3, 2), (3, 3, 2, 2)}


def test_values_outside_and_wrong_rows_are_refused_as_ever():
    model = gaussian_mixture([[0.0, 0.0]], torch.eye(2)[None], [1.0])
    with pytest.raises(sq.DataError, match="Fix"):
        model.log_prob(torch.zeros(3, 5))
    with pytest.raises(sq.DataError, match=r"column 1.*Fix"):
        model.log_prob(torch.tensor([[0.0, torch.inf]]))
