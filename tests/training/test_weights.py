"""Rows that count more or less than others: whole weights are repeated rows, weight 0 is no row."""

import numpy as np
import pytest
import torch

import squircuit as sq
from squircuit.training.intake import open_data
from squircuit.training.loop import Loop

from .conftest import coins, model_of_coins

QUICK = {"progress": False, "epochs": 4, "lr": 0.1, "seed": 3}
FULL = QUICK | {"batch": 10**6, "valid_fraction": 0.0}


def whole_weights(n, least=0, seed=1):
    return torch.randint(least, 4, (n,), generator=torch.Generator().manual_seed(seed))


def model(tree=sq.regions.balanced_tree, seed=0, **options):
    circuit = sq.build(tree(4), sq.Categorical(2), 2, **options)
    return sq.SquaredCircuit(circuit, seed=seed, dtype=torch.complex128)


def mixture():
    options = {"components": 2, "root_weights": "learnable"}
    return sq.mixture([model(**options), model(sq.regions.linear, **options)])


def with_gaps(x):
    holes = torch.rand(x.shape, generator=torch.Generator().manual_seed(2)) < 0.3
    return torch.where(holes, torch.nan, x.double())


CASES = {
    "semi-unitary": (model, {}),
    "free weights": (lambda: model(unitary=False), {"lr": 0.02}),
    "pogo": (model, {"optimiser": "pogo"}),
    "landing": (model, {"optimiser": "landing-sgd", "lr": 0.02}),
    "parts apart": (mixture, {}),
    "parts together": (mixture, {"apart": False}),
}


def trained(made, x, **options):
    history = sq.fit(made, x, **options)
    return history, {name: weight.detach() for name, weight in made.named_parameters()}


def assert_close(some, other, bound):
    assert [row.train for row in some[0].rows] == pytest.approx(
        [row.train for row in other[0].rows], abs=bound
    )
    for name, weight in other[1].items():
        assert (some[1][name] - weight).abs().max() <= bound


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:the weights are off the manifold")
def test_full_steps_with_whole_weights_are_those_of_repeated_rows(name, gaps):
    make, options = CASES[name]
    x, w = coins(60), whole_weights(60)
    x = with_gaps(x) if gaps else x
    weighted = trained(make(), x, weights=w, **FULL | options)
    repeated = trained(make(), x.repeat_interleave(w, dim=0), **FULL | options)
    assert_close(weighted, repeated, 1e-10)
    plain = trained(make(), x, **FULL | options)
    assert max((weighted[1][n] - v).abs().max() for n, v in plain[1].items()) > 1e-3  # they matter


def test_rows_of_weight_0_are_as_absent_bit_for_bit_also_where_they_are_impossible():
    x, w = coins(200), whole_weights(200).double() / 7
    x[w == 0] = 9  # no state of any column
    some = trained(model(), x, weights=w, batch=16, **QUICK)
    other = trained(model(), x[w > 0], weights=w[w > 0], batch=16, **QUICK)
    assert_close(some, other, 0.0)
    assert [row.valid for row in some[0].rows] == [row.valid for row in other[0].rows]


def test_only_the_ratios_of_weights_matter_and_equal_ones_are_none():
    x, w = coins(100), whole_weights(100, least=1).double()
    some, other = (trained(model(), x, weights=each, batch=16, **QUICK) for each in (w, 1024 * w))
    assert_close(some, other, 0.0)
    alike, none = (
        trained(model(), x, weights=each, batch=16, **QUICK) for each in (torch.full((100,), 0.3), None)
    )
    assert_close(alike, none, 1e-12)


def test_losses_are_weighted_means_of_minus_log_p():
    x, w, other, v = coins(96), whole_weights(96, least=1), coins(50, seed=4), whole_weights(50, seed=5)
    made = model()
    before = made.log_prob(x).detach()
    history = sq.fit(
        made,
        x,
        other,
        weights=w,
        valid_weights=v,
        batch=16,
        epochs=1,
        lr=1e-13,
        lr_free=1e-13,
        progress=False,
    )
    assert history.rows[0].train == pytest.approx(float(-(w * before).sum() / w.sum()), abs=1e-9)
    after = made.log_prob(other).detach()
    assert history.rows[0].valid == pytest.approx(float(-(v * after).sum() / v.sum()), abs=1e-12)


def test_an_epoch_that_leaves_rows_out_divides_by_the_weight_of_those_it_saw():
    x, w = coins(20), torch.ones(20)
    w[7] = 1000.0
    for seed in range(4):
        options = {
            "batch": 8,
            "valid_fraction": 0.0,
            "epochs": 1,
            "lr": 1e-13,
            "progress": False,
            "seed": seed,
        }
        made = model()
        order = np.random.default_rng([seed, 0]).permutation(20)[:16]
        log_p = made.log_prob(x[order]).detach()
        history = sq.fit(made, x, weights=w, **options)
        assert history.rows[0].train == pytest.approx(
            float(-(w[order] * log_p).sum() / w[order].sum()), abs=1e-9
        )


def test_rows_held_out_keep_their_weights():
    x = torch.arange(200).unsqueeze(1)
    made = sq.SquaredCircuit(sq.build(sq.regions.linear(1), sq.Categorical(200), 1))
    data = open_data(made, x, None, sq.TrainingConfig(valid_fraction=0.2), weights=1.0 + x[:, 0])
    for feed, count in ((data.train, 160), (data.valid, 40)):
        assert feed.count == count
        for rows in (*feed.blocks(), *feed.batches(32, 0, 1)):
            assert torch.allclose(
                rows.weights / rows.weights[0], (1.0 + rows.x[:, 0].double()) / (1 + rows.x[0, 0])
            )
        assert torch.cat([rows.weights for rows in feed.blocks()]).mean() == pytest.approx(1.0)


SOURCES = {
    "array": lambda x, w, folder: (x.numpy(), w),
    "rows": lambda x, w, folder: (sq.data.Rows(x.numpy(), None, w.numpy()), None),
    "npy": lambda x, w, folder: (np.save(folder / "x.npy", x.numpy()) or folder / "x.npy", w),
    "mapped": lambda x, w, folder: (
        np.save(folder / "x.npy", x.numpy()) or np.load(folder / "x.npy", mmap_mode="r"),
        w,
    ),
    "batches": lambda x, w, folder: (sq.data.Batches(x.numpy(), batch=60, weights=w), None),
    "Dataset of torch": lambda x, w, folder: (torch.utils.data.TensorDataset(x), w),
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_that_numbers_its_rows_takes_weights(name, tmp_path):
    x, w = coins(60), whole_weights(60, least=1)
    source, weights = SOURCES[name](x, w, tmp_path)
    options = QUICK | {"batch": 60, "valid_fraction": 0.0}
    some = trained(model(), source, weights=weights, **options)
    assert_close(some, trained(model(), x.repeat_interleave(w, dim=0), **FULL), 1e-10)


@pytest.mark.parametrize("stop", [1, 5, 8])
def test_a_run_with_weights_resumes_bit_for_bit(stop, tmp_path, monkeypatch):
    x, w = coins(150), whole_weights(150)
    options = QUICK | {"batch": 32, "epochs": 5}
    expected = trained(model(), x, weights=w, **options)
    ordinary, done = Loop._look, []

    def look(loop):
        ordinary(loop)
        done.append(None)
        if len(done) == stop:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "_look", look)
        with pytest.raises(KeyboardInterrupt):
            sq.fit(model(), x, weights=w, run=tmp_path, checkpoint_minutes=0.0, **options)
    found = trained(model(seed=5), x, weights=w, run=tmp_path, resume=True, **options)
    assert_close(found, expected, 0.0)


def test_a_run_of_other_weights_is_not_gone_on_with(tmp_path):
    x, w = coins(60), whole_weights(60, least=1)
    sq.fit(model(), x, x, weights=w, run=tmp_path, **QUICK)
    for other in (w + (torch.arange(60) == 3), None):
        with pytest.raises(sq.DataError, match="the run there is of another training data"):
            sq.fit(model(), x, x, weights=other, run=tmp_path, resume=True, **QUICK)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": [1.0]}, r"weights: shape \(1,\) for 60 rows"),
        ({"weights": -torch.ones(60)}, "weights: row 0 has the weight -1"),
        ({"valid_weights": torch.ones(60)}, "valid_weights without valid. Fix: pass valid"),
        ({"valid": coins(5), "valid_weights": torch.zeros(5)}, "valid_weights: all weights are zero"),
    ],
)
def test_wrong_weights_are_refused_before_anything_changes(options, message):
    made = model_of_coins()
    before = {name: weight.detach().clone() for name, weight in made.named_parameters()}
    with pytest.raises(sq.SquircuitError, match=message):
        sq.fit(made, coins(60), **options, **QUICK)
    assert all(torch.equal(weight, before[name]) for name, weight in made.named_parameters())


def test_weights_that_no_row_can_be_given_are_refused():
    x, w = coins(60), torch.ones(60)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x), batch_size=20)
    for source, fix in [
        (loader, "Fix: pass an array, or a Dataset with a length"),
        (sq.data.Batches(x.numpy()), r"Fix: pass them to Batches\(…, weights=…\)"),
        (sq.data.Rows(x.numpy(), None, w.numpy()), "Fix: pass one of the two"),
    ]:
        with pytest.raises(sq.ParameterError, match=fix):
            sq.fit(model(), source, weights=w, **QUICK)


@pytest.mark.gpu
@pytest.mark.parametrize("graph", [False, True])
def test_steps_with_weights_on_a_gpu_are_those_on_a_cpu(graph):
    x, w = coins(120), whole_weights(120, least=1)
    options = QUICK | {"batch": 32}
    host = trained(model(), x, weights=w, **options)
    device = trained(model().cuda(), x, weights=w, graph=graph, **options)
    assert_close((device[0], {n: v.cpu() for n, v in device[1].items()}), host, 1e-8)
