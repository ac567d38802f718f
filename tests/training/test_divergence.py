"""A step that goes wrong is told apart from data that is wrong, and the last good weights stay."""

import numpy as np
import pytest
import torch

import squircuit as sq
from squircuit.data.share import Share
from squircuit.training.evaluation import weights_of
from squircuit.training.loop import DivergedWarning

from .conftest import coins, model_of_coins

QUICK = {"epochs": 3, "batch": 32, "progress": False}


def spoil(monkeypatch, when, value):
    """The optimiser's step number `when` leaves a weight that is no number."""
    ordinary, done = sq.optim.Polar.step, []

    def step(self, closure=None):
        ordinary(self, closure)
        done.append(None)
        if len(done) == when:
            with torch.no_grad():
                next(iter(self.param_groups[0]["params"])).view(-1)[0] = value

    monkeypatch.setattr(sq.optim.Polar, "step", step)


@pytest.mark.parametrize("lr", [1e3, 1e4, 1e6, 1e12, 1e300])
@pytest.mark.parametrize("dtype", [torch.complex64, torch.float32, torch.complex128])
def test_polar_keeps_weights_on_the_manifold_whatever_the_rate(lr, dtype):
    circuit = sq.build(
        sq.regions.balanced_tree(8), sq.Categorical(3), 3, tie="inputs", is_complex=dtype.is_complex
    )
    model = sq.SquaredCircuit(circuit, dtype=dtype)
    x = torch.randint(3, (96, 8), generator=torch.Generator().manual_seed(0))
    history = sq.fit(model, x, lr=lr, **QUICK | {"epochs": 12})
    assert history.stopped == "finished"
    assert abs(history.rows[-1].log_z) < 1e-3


@pytest.mark.parametrize(("value", "words"), [(torch.nan, "NaN"), (torch.inf, "infinite")])
@pytest.mark.parametrize("when", [1, 5, 6])  # 6: the last step of an epoch, whose weights no row has met
def test_weights_that_are_no_numbers_are_named_with_step_and_rate_and_rows_are_not_blamed(
    value, words, when, monkeypatch
):
    model = model_of_coins()
    before = weights_of(model)
    spoil(monkeypatch, when, value)
    with pytest.warns(
        DivergedWarning, match=rf"weights became {words}.* step {when}, with lr=0.2.* Fix: a smaller lr"
    ):
        history = sq.fit(model, coins(), **QUICK)
    assert history.stopped.startswith(f"failed: weights became {words}")
    assert history.best_epoch == 0
    assert all(torch.equal(p, before[n]) for n, p in model.named_parameters())


def test_weights_lost_in_a_later_epoch_leave_those_of_the_best(monkeypatch):
    model = model_of_coins()
    spoil(monkeypatch, 9, torch.nan)
    with pytest.warns(DivergedWarning, match="in epoch 2, step 9"):
        history = sq.fit(model, coins(), **QUICK)
    assert history.best_epoch == 1
    assert all(p.isfinite().all() for p in map(torch.view_as_real, model.parameters()))


def test_rows_that_training_made_impossible_are_the_fault_of_training(monkeypatch):
    """Finite weights under which possible rows are impossible: the root gives all mass to one state."""
    circuit = sq.build(sq.regions.linear(2), sq.Categorical(2), 2, mixing=False)
    model = sq.SquaredCircuit(circuit, seed=0)
    before = weights_of(model)

    def step(self, closure=None):
        with torch.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter.zero_()[..., 0] = 1.0

    monkeypatch.setattr(sq.optim.Polar, "step", step)
    x = torch.tensor([[0, 0], [1, 0], [1, 1], [0, 1]] * 8)
    with pytest.warns(DivergedWarning, match="which were possible before"):
        history = sq.fit(model, x, valid_fraction=0.0, **QUICK | {"batch": 8})
    assert history.stopped.startswith("failed: ")
    assert all(torch.equal(p, before[n]) for n, p in model.named_parameters())


# ------------------------------------------------------------------ batches without a known cell

LINE = sq.regions.linear(4)
MODELS = {
    "unitary": lambda: sq.SquaredCircuit(sq.build(LINE, sq.Categorical(2), 2)),
    "free": lambda: sq.SquaredCircuit(sq.build(LINE, sq.Categorical(2), 2, unitary=False)),
    "roots": lambda: sq.SquaredCircuit(
        sq.build(LINE, sq.Categorical(2), 2, roots=2, root_weights="learnable")
    ),
    "continuous": lambda: sq.SquaredCircuit(sq.build(LINE, sq.Hermite(4), 2)),
    "mixture": lambda: sq.mixture(
        [sq.SquaredCircuit(sq.build(g, sq.Categorical(2), 2)) for g in (LINE, sq.regions.balanced_tree(4))]
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_batches_in_which_every_cell_is_missing_teach_nothing_and_break_nothing(name):
    rows, missing = coins(64).double().numpy(), np.ones((64, 4), dtype=bool)
    missing[3] = False
    model = MODELS[name]()
    data = sq.data.Rows(rows if name == "continuous" else rows.astype(np.int64), missing)
    history = sq.fit(model, data, valid_fraction=0.0, **QUICK | {"batch": 8})
    assert history.stopped == "finished"
    assert all(np.isfinite(row.train) for row in history.rows)
    assert all(torch.isfinite(p.abs()).all() for p in model.parameters())


def test_a_batch_without_a_known_cell_has_loss_0(monkeypatch):
    model = MODELS["unitary"]()
    before, missing = weights_of(model), np.ones((8, 4), dtype=bool)
    steps = sq.training.steps.Steps(model, sq.TrainingConfig(lr=0.1, optimiser="polar"))
    batch = sq.data.Rows(torch.zeros(8, 4, dtype=torch.int64), torch.from_numpy(missing))
    assert steps(Share().part(batch), 1.0).tolist() == [0.0, 0.0, 1.0]
    assert all(torch.equal(p, before[n]) for n, p in model.named_parameters())


@pytest.mark.parametrize("source", ["array", "table", "stream"])
def test_data_without_a_known_cell_is_one_clear_error(source, tmp_path):
    nothing = np.full((20, 4), np.nan)
    model = MODELS["continuous"]()
    data = {
        "array": nothing,
        "table": sq.data.Rows(np.zeros((20, 4)), np.ones((20, 4), dtype=bool)),
        "stream": sq.data.Batches(nothing, 8) if source == "stream" else None,
    }[source]
    with pytest.raises(sq.DataError, match=r"train: every cell is missing\. Fix: pass rows with some known"):
        sq.fit(model, data, run=tmp_path / "run", **QUICK | ({"batch": 8} if source == "stream" else {}))
    assert not (tmp_path / "run").exists()
