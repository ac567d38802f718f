"""A new optimiser is one class: as soon as it exists, everything that takes an optimiser knows it."""

import pytest
import torch

import squircuit as sq
from squircuit.optim import StiefelOptimizer, base


@pytest.fixture
def mine(monkeypatch):
    """Gradient descent, back to the manifold by a decomposition; known for one test."""
    monkeypatch.setattr(base, "_KNOWN", dict(base._KNOWN))

    class Mine(StiefelOptimizer):
        name, rate = "mine", 0.07
        stays_on_manifold = True

        def update(self, stacks, group):
            self.taken.append(float(group["lr"]))
            for weight, gradient in zip(stacks.weights, stacks.gradients, strict=True):
                weight.copy_(sq.optim.project(weight - group["lr"] * gradient))

    Mine.taken = []
    return Mine


def coins():
    return torch.randint(2, (64, 1), generator=torch.Generator().manual_seed(0)).expand(-1, 4)


def model():
    return sq.SquaredCircuit(sq.build(sq.regions.balanced_tree(4), sq.Categorical(2), units=2))


@pytest.mark.parametrize("by_class", [False, True])
def test_fit_trains_with_a_new_optimiser_by_name_or_class_at_its_own_rate(mine, by_class):
    trained = model()
    options = {"epochs": 4, "warm_up": 0.0, "progress": False}
    history = sq.fit(trained, coins(), optimiser=mine if by_class else "mine", **options)
    assert max(mine.taken) == pytest.approx(0.07)
    assert len(mine.taken) >= history.rows[-1].step  # once for each shape of weights
    assert history.rows[-1].train < history.rows[0].train
    assert history.best.normalised


def test_the_config_keeps_it_by_name_so_that_runs_resume(mine, tmp_path):
    config = sq.TrainingConfig(optimiser=mine, epochs=2, progress=False)
    assert config.to_dict()["optimiser"] == "mine"
    assert sq.TrainingConfig.of(config.to_dict()) == config
    history = sq.fit(model(), coins(), config=config, run=tmp_path)
    assert sq.fit(
        model(), coins(), optimiser="mine", epochs=2, progress=False, run=tmp_path, resume=True
    ) == (history)


def test_errors_list_it_and_no_longer_when_it_is_gone(mine):
    with pytest.raises(sq.ParameterError, match=r"optimiser='nome'. Fix: pass one of auto, .*mine"):
        sq.TrainingConfig(optimiser="nome")
    with pytest.raises(sq.ParameterError, match=r"optimiser='min'. Fix: did you mean 'mine'"):
        sq.optim.named("min")
    assert sq.optim.named("mine") is mine
    assert sq.optim.named(mine) is mine


def test_without_the_class_the_name_is_not_known():
    with pytest.raises(sq.ParameterError, match="optimiser='mine'"):
        sq.TrainingConfig(optimiser="mine")


def test_a_class_without_a_name_of_its_own_is_refused(mine):
    class Nameless(mine):
        pass

    for unknown in (Nameless, torch.optim.Adam, StiefelOptimizer):
        with pytest.raises(sq.ParameterError, match=f"{unknown.__name__} is not known. Fix: .*name = 'mine'"):
            sq.fit(model(), coins(), optimiser=unknown)


def test_a_name_belongs_to_one_class_and_a_class_may_be_defined_anew(mine):
    again = type("Mine", (mine,), {"name": "mine", "__qualname__": mine.__qualname__, "__module__": __name__})
    assert sq.optim.named("mine") is again
    with pytest.raises(sq.ParameterError, match=r"the name 'polar' is that of Polar. Fix: choose another"):
        type("Other", (StiefelOptimizer,), {"name": "polar"})
    with pytest.raises(sq.ParameterError, match="name='auto'"):
        type("Other", (StiefelOptimizer,), {"name": "auto"})


def test_every_optimiser_has_as_default_of_lr_the_rate_that_fit_takes():
    for name in sq.optim.names():
        method = sq.optim.named(name)
        weight = torch.nn.Parameter(torch.eye(2, 4))
        group = {"params": [weight], "constrained": method.takes_semi_unitary}
        assert method([group]).param_groups[0]["lr"] == method.rate


def test_adam_refuses_semi_unitary_weights_and_follows_schedulers():
    with pytest.raises(sq.ParameterError, match=r"Adam leaves the manifold .* Fix: sq.optim.Polar"):
        sq.optim.Adam(model().parameters())
    value = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    twin = torch.nn.Parameter(value.detach().clone())
    ours, theirs = sq.optim.Adam([value], lr=0.1), torch.optim.Adam([twin], lr=0.1)
    schedules = [torch.optim.lr_scheduler.StepLR(o, 2, 0.1) for o in (ours, theirs)]
    for _ in range(5):
        for parameter, optimiser, schedule in zip((value, twin), (ours, theirs), schedules, strict=True):
            parameter.grad = parameter.detach() + 1
            optimiser.step()
            schedule.step()
    assert torch.allclose(value, twin, rtol=1e-5)
