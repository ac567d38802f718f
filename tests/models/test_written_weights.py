"""Whatever tensor is put in the place of a weight: the same answers, or one clear error."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

import squircuit as sq


def conjugated(value: Tensor) -> Tensor:
    return value.conj().resolve_conj().conj() if value.is_complex() else value


def negated(value: Tensor) -> Tensor:
    return torch._neg_view(-value)


def transposed(value: Tensor) -> Tensor:
    return value.mT.contiguous().mT if value.ndim > 1 else value


def spaced(value: Tensor) -> Tensor:
    return torch.stack([value, value], dim=-1)[..., 0]


VIEWS = [conjugated, negated, transposed, spaced]


def discrete() -> tuple[sq.SquaredCircuit, Tensor]:
    circuit = sq.build(sq.regions.quad_tree((2, 2)), sq.Categorical(4), units=3)
    rows = torch.randint(4, (6, 4), generator=torch.Generator().manual_seed(0))
    return sq.SquaredCircuit(circuit, seed=0).eval(), rows


def continuous() -> tuple[sq.SquaredCircuit, Tensor]:
    circuit = sq.build(sq.regions.linear(3), sq.Hermite(4, learnable=True), units=2)
    rows = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    return sq.SquaredCircuit(circuit, seed=0).eval(), rows


MODELS = [discrete, continuous]


def assigned(model: sq.SquaredCircuit, view) -> sq.SquaredCircuit:
    changed = copy.deepcopy(model)
    changed.load_state_dict({name: view(v) for name, v in changed.state_dict().items()}, assign=True)
    return changed


def written(model: sq.SquaredCircuit, view) -> sq.SquaredCircuit:
    changed = copy.deepcopy(model)
    for parameter in changed.parameters():
        parameter.data = view(parameter.data)
    return changed


def answers(model: sq.SquaredCircuit, x: Tensor) -> list[Tensor]:
    missing = torch.zeros(x.shape, dtype=torch.bool)
    missing[:, 0] = True
    learnt = list(model.parameters())
    return [
        model.log_prob(x).detach(),
        model.log_prob(x, missing).detach(),
        model.log_partition().detach(),
        model.mean(x, missing),
        model.variance(x, missing),
        model.marginals(x, missing).values[0],
        model.log_conditional(x, of=[0], given=[1]).detach(),
        model.sample(3, seed=0),
        model.sample(2, given=x, missing=missing, seed=0),
        *(
            g
            for g in torch.autograd.grad(model.log_prob(x).sum(), learnt, allow_unused=True)
            if g is not None
        ),
    ]


@pytest.mark.parametrize("made", MODELS)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("put", [assigned, written])
def test_weights_that_are_views_answer_like_dense_ones(made, view, put):
    model, x = made()
    for got, expected in zip(answers(put(model, view), x), answers(model, x), strict=True):
        torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("made", MODELS)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("put", [assigned, written])
def test_weights_that_are_views_are_saved_as_what_they_are(made, view, put, tmp_path):
    model, x = made()
    put(model, view).save(tmp_path / "views.safetensors")
    assert torch.equal(sq.load(tmp_path / "views.safetensors").log_prob(x), model.log_prob(x))


@pytest.mark.parametrize("made", MODELS)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.filterwarnings("ignore:a training step on weights")
@pytest.mark.parametrize("optimiser", ["Polar", "POGO", "LandingPC", "LandingSGD"])
def test_weights_that_are_views_are_trained_like_dense_ones(made, view, optimiser):
    model, x = made()
    both = [written(model, view), model]
    for each in both:
        steps = getattr(sq.optim, optimiser)(each.parameters(), lr=0.05)
        each.train()
        for _ in range(3):
            steps.zero_grad()
            (-each.log_prob(x).mean()).backward()
            steps.step()
        each.eval()
    torch.testing.assert_close(both[0].log_prob(x), both[1].log_prob(x), rtol=1e-3, atol=1e-3)


def doubled(value: Tensor) -> Tensor:
    return value.to(torch.complex128 if value.is_complex() else torch.float64)


def complexified(value: Tensor) -> Tensor:
    return value.to(torch.complex64)


def flattened(value: Tensor) -> Tensor:
    return value.flatten()


@pytest.mark.parametrize(
    ("made", "put", "form"),
    [
        (discrete, assigned, doubled),
        (continuous, written, doubled),
        (continuous, assigned, complexified),
        (discrete, written, flattened),
    ],
)
def test_weights_of_another_precision_type_or_shape_are_refused_by_questions_and_files_alike(
    made, put, form, tmp_path
):
    model, x = made()
    changed = put(model, form)
    file = tmp_path / "other.safetensors"
    for ask in (lambda: changed.log_prob(x), lambda: changed.sample(2), lambda: changed.save(file)):
        with pytest.raises(sq.ParameterError, match=r"expected .* of torch.*Fix: "):
            ask()
    assert not file.exists()


def test_real_weights_in_the_place_of_complex_ones_are_kept_in_files(tmp_path):
    model, x = discrete()
    real = assigned(model, lambda value: value.real.clone())
    real.save(tmp_path / "real.safetensors")
    assert torch.equal(sq.load(tmp_path / "real.safetensors").log_prob(x), real.log_prob(x))


@pytest.mark.parametrize("put", [assigned, written])
def test_a_change_of_precision_makes_weights_of_several_precisions_one_model_again(put):
    model, x = discrete()
    expected = copy.deepcopy(model).double().log_prob(x)
    changed = put(model, doubled).double()
    assert changed.precision == torch.float64
    torch.testing.assert_close(changed.log_prob(x), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "change",
    [
        lambda value: value.to(torch.complex64) if value.is_complex() else value.float(),
        lambda value: value.half() if not value.is_complex() else value.real.half(),
        lambda value: value.to("meta"),
        lambda value: value.to_sparse(),
    ],
    ids=["single", "half", "meta", "sparse"],
)
def test_weights_of_another_kind_are_refused_by_questions_and_files_alike(change, tmp_path):
    model = sq.SquaredCircuit(
        sq.build(sq.regions.linear(2), sq.Categorical(2), units=2), dtype=torch.complex128
    )
    model.load_state_dict({name: change(value) for name, value in model.state_dict().items()}, assign=True)
    file = tmp_path / "model.squircuit"
    for ask in (lambda: model.log_prob([[0, 1]]), lambda: model.save(file)):
        with pytest.raises(sq.ParameterError, match=r"the weights 'input0' .*Fix: give them"):
            ask()
    assert not any(tmp_path.iterdir())
