import math
import warnings

import numpy as np
import pytest
import torch

import squircuit as sq
from squircuit.optim.manifold import nearest, retracted
from squircuit.training.evaluation import Average, weights_of
from squircuit.training.intake import open_data
from squircuit.training.loop import Loop
from squircuit.training.steps import Steps

from .conftest import all_rows, coins, model_of_coins

QUICK = {"progress": False, "epochs": 8, "lr": 0.2}


def entropy_of_coins():
    """Nats a row of the true distribution, by enumeration."""
    rows = torch.cartesian_prod(*[torch.arange(2)] * 4)
    ones = rows.sum(dim=1)
    p = 0.5 * (0.1**ones * 0.9 ** (4 - ones) + 0.9**ones * 0.1 ** (4 - ones))
    return -(p * p.log()).sum().item()


@pytest.mark.parametrize("optimiser", ["polar", "pogo"])
def test_training_approaches_the_entropy_of_the_data_and_never_goes_below_it_by_more_than_chance(optimiser):
    model = model_of_coins()
    history = sq.fit(model, coins(3000), optimiser=optimiser, batch=128, **QUICK)
    test = coins(4000, seed=1)
    with torch.no_grad():
        log_p = model.log_prob(test)
    noise = 3 * log_p.std().item() / math.sqrt(len(test))
    assert entropy_of_coins() - noise < -log_p.mean().item() < entropy_of_coins() + noise + 0.05
    assert history.stopped == "finished"
    assert history.rows[0].train > history.rows[-1].train


def test_weights_without_constraint_are_trained_by_adam_with_the_exact_partition_function():
    model = model_of_coins(unitary=False)
    history = sq.fit(model, coins(3000), progress=False, epochs=8, lr=0.1, batch=128)
    assert history.best.valid == pytest.approx(entropy_of_coins(), abs=0.15)
    rows = torch.cartesian_prod(*[torch.arange(2)] * 4)
    with torch.no_grad():
        assert model.log_prob(rows).exp().sum().item() == pytest.approx(1, abs=1e-5)
        enumerated = model.log_density(rows).double().exp().sum().log().item()
    assert history.best.log_z == pytest.approx(enumerated, abs=1e-4)
    assert not history.best.normalised


def test_adam_on_a_unitary_model_is_refused(x, model):
    with pytest.raises(sq.ParameterError, match=r"adam.*manifold.*polar"):
        sq.fit(model, x, optimiser="adam", **QUICK)


def test_off_the_manifold_validation_is_normalised_and_the_history_says_so(x):
    model = model_of_coins()
    with pytest.warns(UserWarning, match="off the manifold.*polar"):
        history = sq.fit(model, x, x, optimiser="landing-sgd", progress=False, epochs=6, lr=0.5, patience=0)
    row = history.best
    assert not row.normalised
    assert abs(row.log_z) > 1e-4
    rows = torch.cartesian_prod(*[torch.arange(2)] * 4)
    density = model.log_density(rows).double().exp().detach()  # not divided by Z
    assert row.log_z == pytest.approx(density.sum().log().item(), abs=1e-5)
    expected = -(model.log_density(x).double().mean().item() - density.sum().log().item())
    assert row.valid == pytest.approx(expected, abs=1e-5)


def test_the_model_ends_with_the_weights_of_the_best_validation(x, model):
    valid = coins(500, seed=7)
    history = sq.fit(model, x[:40], valid, progress=False, epochs=40, lr=0.5, batch=8, patience=5)
    assert history.stopped.startswith("early stopping")
    scores = [row.valid for row in history.rows]
    assert history.best.valid == min(scores)
    assert len(scores) == history.best_epoch + 5
    with torch.no_grad():
        assert -model.log_prob(valid).mean().item() == pytest.approx(min(scores), rel=1e-5)


def test_without_validation_the_last_weights_are_kept_and_nothing_stops_early(x, model):
    history = sq.fit(model, x, valid_fraction=0.0, patience=1, **QUICK)
    assert history.best_epoch == len(history.rows) == 8
    assert all(row.valid is None and abs(row.log_z) < 1e-4 for row in history.rows)


def test_the_same_seed_gives_the_same_result_and_another_seed_another(x):
    models = [model_of_coins() for _ in range(3)]
    histories = [sq.fit(m, x, seed=s, **QUICK) for m, s in zip(models, (4, 4, 5), strict=True)]
    first, second, third = ([p.detach() for p in m.parameters()] for m in models)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first, third, strict=True))
    assert histories[0].rows[-1].train == histories[1].rows[-1].train


def test_the_train_loss_of_the_first_step_is_the_mean_negative_log_likelihood(x):
    model, twin = model_of_coins(), model_of_coins()
    history = sq.fit(model, x, x, progress=False, epochs=1, batch=len(x))
    assert history.rows[0].train == pytest.approx(-twin.log_prob(x).mean().item(), rel=1e-6)
    assert history.rows[0].step == 1


def test_bits_per_dimension_are_nats_over_d_log_2(x):
    nats, bits = (
        sq.fit(model_of_coins(), x, unit=unit, progress=False, epochs=2) for unit in ("nats", "bits")
    )
    assert bits.best.valid == pytest.approx(nats.best.valid / (4 * math.log(2)))
    assert bits.unit == "bits"
    assert "bits per dimension" in str(bits)


@pytest.mark.parametrize(("shape", "unit"), [((2, 2), "bits"), ((4,), "nats"), (None, "nats")])
def test_images_are_reported_in_bits_per_dimension(x, shape, unit):
    model = model_of_coins()
    model.shape = shape
    assert sq.fit(model, x, progress=False, epochs=1).unit == unit


# ------------------------------------------------------------------ averages


def test_the_average_of_weights_is_the_recursion_and_its_retraction_is_semi_unitary(x, model):
    steps = Steps(model, sq.TrainingConfig(optimiser="polar", lr=0.3))
    average, expected = Average(model, 0.8), weights_of(model)
    for step in range(8):
        steps(next(open_data(model, x, x, sq.TrainingConfig()).train.parts(32, step, 0)), 1.0)
        average.update(step)
        decay = min(0.8, (1 + step) / (10 + step))
        expected = {n: decay * expected[n] + (1 - decay) * w for n, w in weights_of(model).items()}
    for name, weight in expected.items():
        assert torch.allclose(average.weights[name], weight, atol=1e-6)
        found = retracted(model, average.weights)[name]
        assert torch.allclose(found, sq.optim.project(weight), atol=1e-5)
        assert sq.optim.distance(found).max() < 1e-5


def test_the_retraction_is_the_nearest_semi_unitary_matrix():
    generator = torch.Generator().manual_seed(0)
    noisy = torch.randn(5, 3, 7, dtype=torch.complex64, generator=generator) / 4
    assert torch.allclose(nearest(noisy), sq.optim.project(noisy), atol=1e-5)


def test_the_retraction_is_semi_unitary_also_where_weights_cancel_each_other():
    generator = torch.Generator().manual_seed(0)
    tiny = torch.linalg.qr(torch.randn(4, 9, 3, dtype=torch.complex64, generator=generator)).Q.mH
    tiny = torch.tensor([1.0, 1e-3, 1e-8, 0.0])[:, None, None] * tiny
    tiny[:, 1:] += torch.eye(3, 9)[1:]  # the first rows have nearly gone, the others not
    assert sq.optim.distance(nearest(tiny)).max() < 1e-5
    assert torch.allclose(nearest(tiny)[:2], sq.optim.project(tiny[:2]), atol=1e-4)


def test_averaged_weights_are_those_that_are_kept(x):
    model = model_of_coins()
    history = sq.fit(model, x, coins(seed=1), average=0.9, patience=0, **QUICK)
    assert all(row.normalised for row in history.rows)
    with torch.no_grad():
        assert -model.log_prob(coins(seed=1)).mean().item() == pytest.approx(history.best.valid, rel=1e-5)


# ------------------------------------------------------------------ what goes wrong


def test_nan_in_the_loss_stops_with_a_reason_and_keeps_the_last_good_weights(x, monkeypatch):
    ordinary, calls = sq.SquaredCircuit.log_prob, []

    def log_prob(self, x, missing=None):
        calls.append(torch.is_grad_enabled())
        return ordinary(self, x, missing) * (math.nan if calls.count(True) == 9 else 1)

    monkeypatch.setattr(sq.SquaredCircuit, "log_prob", log_prob)
    model = model_of_coins()
    with pytest.warns(RuntimeWarning, match="the loss is nan in epoch 3, step 9,.*weights of epoch 2"):
        history = sq.fit(model, x, batch=54, patience=0, **QUICK)
    assert history.stopped == "failed: the loss is nan in epoch 3, step 9, with lr=0.2"
    monkeypatch.undo()
    valid = open_data(model, x, None, sq.TrainingConfig()).valid
    with torch.no_grad():
        assert -model.log_prob(all_rows(valid)).mean().item() == pytest.approx(
            history.rows[1].valid, rel=1e-5
        )
    assert [row.epoch for row in history.rows] == [1, 2]


def test_a_gradient_that_is_not_finite_stops_the_same_way(x, model, monkeypatch):
    def step(self, closure=None):
        raise FloatingPointError("the gradient of parameter 0 holds NaN")

    monkeypatch.setattr(sq.optim.Polar, "step", step)
    start = weights_of(model)
    with pytest.warns(RuntimeWarning, match="the gradient of parameter 0"):
        assert sq.fit(model, x, **QUICK).stopped.startswith("failed: the gradient")
    assert all(torch.equal(p, start[n]) for n, p in model.named_parameters())


def test_rows_of_probability_zero_are_an_error_that_counts_them_and_changes_no_weight(monkeypatch):
    circuit = sq.build(sq.regions.linear(2), sq.Categorical(2), 2, mixing=False).initialise(seed=0)
    root = next(name for name, p in circuit.parameters.items() if p.shape == (1, 4))
    impossible = torch.tensor([[1.0, 0, 0, 0]], dtype=torch.complex128)  # only (0, 0) has mass
    model = sq.SquaredCircuit(circuit.with_weights({root: impossible}))
    start = weights_of(model)
    x = torch.tensor([[0, 0]] * 5 + [[1, 0]] * 3)
    with pytest.raises(sq.DataError, match="3 of 8 training rows have probability 0"):
        sq.fit(model, x, valid_fraction=0.0, **QUICK)
    assert all(torch.equal(p, start[n]) for n, p in model.named_parameters())


def test_the_mode_of_the_model_is_put_back(x, model):
    model.eval()
    sq.fit(model, x, progress=False, epochs=1)
    assert not model.training


def test_bad_calls_are_refused_before_anything_is_written(x, model, tmp_path):
    with pytest.raises(sq.ParameterError, match="trains a SquaredCircuit"):
        sq.fit(model.structure, x)
    with pytest.raises(sq.ParameterError, match="resume=True needs the folder"):
        sq.fit(model, x, resume=True)
    with pytest.raises(sq.ParameterError, match="tensorboard=True needs the folder"):
        sq.fit(model, x, tensorboard=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(sq.ParameterError, match="is a file"):
        sq.fit(model, x, run=tmp_path / "file")
    with pytest.raises(sq.DataError):
        sq.fit(model, x + 5, run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


# ------------------------------------------------------------------ what is seen


def test_where_there_is_no_terminal_progress_is_plain_lines_on_standard_error(x, model, capsys):
    sq.fit(model, x, epochs=3)
    output, lines = capsys.readouterr()
    assert output == ""
    assert "epoch 3/3  loss " in lines
    assert "finished after 3 epochs; best in epoch" in lines.splitlines()[-1]


@pytest.mark.parametrize("width", ["80", "160"])
def test_a_terminal_shows_one_line_with_loss_validation_log_z_and_time_left(
    width, x, model, capsys, monkeypatch
):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", width)
    sq.fit(model, x, epochs=3)
    shown = capsys.readouterr().err
    assert all(word in shown for word in ("epoch 3/3", "loss", "valid", "best", "log Z", "/s", "00:0"))


def test_silence(x, model, capsys):
    sq.fit(model, x, progress=False, epochs=1)
    assert capsys.readouterr() == ("", "")


def test_tensorboard_gets_the_history(x, model, tmp_path):
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        history = sq.fit(model, x, run=tmp_path, tensorboard=True, progress=False, epochs=3)
    events = reader.EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    found = [(event.step, event.value) for event in events.Scalars("loss/valid")]
    expected = [(row.step, pytest.approx(row.valid, rel=1e-6)) for row in history.rows]
    assert found == expected


def test_a_history_survives_its_dictionary_also_with_infinite_losses(x, model):
    history = sq.fit(model, x, progress=False, epochs=2)
    row = sq.training.Epoch(3, 1, math.inf, math.inf, 0.0, True, 0.1, 1.0)
    longer = sq.History((*history.rows, row), "nats", 1, "interrupted")
    again = sq.History.from_dict(longer.to_dict())
    assert again.to_dict() == longer.to_dict()
    assert again.rows[-1].valid == math.inf
    with pytest.raises(sq.FormatError, match="not the description of a history"):
        sq.History.from_dict({"rows": [{}]})


@pytest.mark.gpu
@pytest.mark.parametrize("unitary", [True, False])
@pytest.mark.parametrize("orders", [["hv"], ["vvhh", "hhvv"]])
def test_a_run_in_a_cuda_graph_is_the_run_without(unitary, orders):
    x, found = torch.randint(8, (512, 64), generator=torch.Generator().manual_seed(0)), []
    for graph in (True, False):
        trees = [sq.regions.quad_tree((8, 8), 2, order) for order in orders]
        circuits = [sq.build(tree, sq.Categorical(8), 3, unitary=unitary) for tree in trees]
        model = sq.mixture([sq.SquaredCircuit(circuit) for circuit in circuits]).cuda()
        loop = sq.fit(model, x, graph=graph, progress=False, epochs=4, batch=64, average=0.5)
        found.append(loop.best.valid)
    assert found[0] == pytest.approx(found[1], rel=1e-3)


def test_defaults_follow_the_number_of_rows():
    model = model_of_coins()
    batches = {}
    for n in (20, 400, 2_000, 5_000, 20_000):
        data = open_data(model, np.zeros((n, 4), dtype=np.uint8), None, sq.TrainingConfig(valid_fraction=0.0))
        config = sq.training.defaults.resolve(sq.TrainingConfig(), model, data.train)
        batches[n] = config.batch
        assert Loop(model, data, config, None, []).config.epochs >= 1
    assert batches == {20: 20, 400: 32, 2_000: 64, 5_000: 128, 20_000: 256}


@pytest.mark.parametrize("optimiser", ["polar", "landing-sgd"])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("learnable", [False, True])
@pytest.mark.filterwarnings("ignore:the weights are off the manifold")
def test_circuits_that_are_trained_apart_get_the_weights_that_each_gets_alone(optimiser, missing, learnable):
    x, trees = coins(400).double(), (sq.regions.balanced_tree(4), sq.regions.linear(4))
    x[:40, 1] = float("nan") if missing else 0.0
    options = {"components": 2, "root_weights": "learnable"} if learnable else {"roots": 2}
    circuits = [sq.build(tree, sq.Categorical(2), 2, tie="inputs", **options) for tree in trees]
    alone = [sq.SquaredCircuit(c, seed=n, dtype=torch.complex128) for n, c in enumerate(circuits)]
    mixed = sq.mixture(alone, [0.2, 0.8])
    options = {"epochs": 3, "batch": 50, "lr": {"polar": 0.2, "landing-sgd": 0.01}[optimiser]}
    options |= {"optimiser": optimiser, "lr_free": 0.1 * learnable, "valid_fraction": 0.0, "progress": False}
    sq.fit(mixed, x, **options)
    found, (first, second) = mixed.weights(), mixed.root_shares().detach().split(2)
    for number, (model, pi) in enumerate(zip(alone, (first / 0.2, second / 0.8), strict=True)):
        before = {name: weight.detach().clone() for name, weight in model.weights().items()}
        sq.fit(model, x, **options)
        torch.testing.assert_close(pi, model.root_shares().detach(), rtol=0, atol=1e-7)
        for name, weight in model.weights().items():
            assert not torch.equal(weight, before[name])
            if name != "roots":
                torch.testing.assert_close(found[f"{number}.{name}"], weight, rtol=0, atol=1e-7)


def mixture_of_coins(weights=None, unitary=True):
    return sq.mixture([model_of_coins(seed=seed, unitary=unitary) for seed in range(3)], weights)


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("unitary", [True, False])
def test_losses_are_those_of_the_mixture_also_where_its_circuits_are_trained_apart(x, apart, unitary):
    model, twin = (mixture_of_coins(unitary=unitary) for _ in range(2))
    history = sq.fit(model, x, x, apart=apart, progress=False, epochs=1, batch=len(x))
    assert history.rows[0].train == pytest.approx(-twin.log_prob(x).mean().item(), rel=1e-6)
    assert history.rows[0].valid == pytest.approx(-model.log_prob(x).mean().item(), rel=1e-6)


def test_the_shares_of_a_mixture_are_learnt_where_it_is_trained_together_else_they_stay(x):
    shares = [0.2, 0.3, 0.5]
    for apart in (True, False):
        model = mixture_of_coins(shares)
        sq.fit(model, x, apart=apart, lr_free=0.1, **QUICK)
        moved = (model.component_log_weights().exp() - torch.tensor(shares)).abs().max().item()
        assert moved < 1e-6 if apart else moved > 1e-2


def test_circuits_without_constraint_are_trained_together(x):
    apart, together = (mixture_of_coins(unitary=False) for _ in range(2))
    for model, option in ((apart, True), (together, False)):
        sq.fit(model, x, apart=option, progress=False, epochs=3)
    assert torch.equal(apart.log_prob(x), together.log_prob(x))


def test_a_circuit_without_some_rows_does_not_stop_the_training_of_those_that_have_them(x):
    models = [model_of_coins(seed=seed, roots=1) for seed in (0, 1)]
    with torch.no_grad():
        for stack in models[0].stacks():  # units 0 hold state 0 alone, and only they are used above
            stack.copy_(torch.eye(*stack.shape[-2:], dtype=stack.dtype).expand_as(stack))
    mixed = sq.mixture(models)
    assert mixed.component_log_prob(x[x.sum(dim=1) > 0])[:, 0].eq(-torch.inf).any()
    history = sq.fit(mixed, x, x, **QUICK)
    assert history.stopped == "finished"
    assert history.rows[-1].train < history.rows[0].train


def test_circuits_above_the_same_inputs_are_trained_together(x):
    apart, together = (model_of_coins(components=2) for _ in range(2))
    for model, option in ((apart, True), (together, False)):
        sq.fit(model, x, apart=option, **QUICK)
    assert torch.equal(apart.log_prob(x), together.log_prob(x))
