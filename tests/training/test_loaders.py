"""A DataLoader or a Dataset of torch as data: the rows it gives, in an order that the seed decides."""

import signal

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Subset,
    TensorDataset,
)

import squircuit as sq
from squircuit.training.intake import open_data
from squircuit.training.loop import Loop

from .conftest import all_rows, coins, model_of_coins

QUICK = {"progress": False, "epochs": 4, "lr": 0.1}
CONFIG = sq.TrainingConfig(batch=32, valid_fraction=0.0)


def numbered(n=70):
    """Rows that tell which they are: (n, 1), and a model of them."""
    model = sq.SquaredCircuit(sq.build(sq.regions.linear(1), sq.Categorical(n), 1))
    return torch.arange(n).unsqueeze(1), model


class Rows(Dataset):
    def __init__(self, x):
        self.x = x

    def __len__(self):
        return len(self.x)

    def __getitem__(self, number):
        return self.x[number]


class Flow(IterableDataset):
    def __init__(self, x):
        self.x = x

    def __iter__(self):
        return iter(self.x)


SOURCES = {
    "a loader": lambda x: DataLoader(Rows(x), batch_size=32),
    "one that shuffles": lambda x: DataLoader(Rows(x), batch_size=32, shuffle=True),
    "one with a generator": lambda x: DataLoader(
        Rows(x), batch_size=32, shuffle=True, generator=torch.Generator().manual_seed(3)
    ),
    "one of tuples": lambda x: DataLoader(TensorDataset(x, torch.zeros(len(x))), batch_size=32),
    "one with a sampler of batches": lambda x: DataLoader(
        Rows(x), batch_sampler=BatchSampler(RandomSampler(x), 32, drop_last=False)
    ),
    "one of batches": lambda x: DataLoader([x[:32], x[32:64], x[64:]], batch_size=None),
    "one of arrays": lambda x: DataLoader(Rows(x.numpy()), batch_size=32, collate_fn=np.stack),
    "one of floats": lambda x: DataLoader(Rows(x.float()), batch_size=32),
    "one of an iterable": lambda x: DataLoader(Flow(x), batch_size=32),
    "one with a worker": lambda x: DataLoader(Rows(x), batch_size=32, shuffle=True, num_workers=1),
    "an iterable": Flow,
    "a data set": Rows,
    "a part of one": lambda x: Subset(Rows(torch.cat([x, x])), range(len(x))),
    "one of several tensors": lambda x: TensorDataset(x, torch.zeros(len(x))),
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_kind_of_source_gives_all_rows_once_and_an_epoch_full_batches(name):
    x, model = numbered()
    feed = open_data(model, SOURCES[name](x), None, CONFIG).train
    assert sorted(all_rows(feed)[:, 0].tolist()) == list(range(70))
    batches = list(feed.batches(32, 0, 0))
    assert [len(rows) for rows in batches] == [32, 32]
    assert feed.steps(32) == 2
    seen = torch.cat([rows.x for rows in batches])[:, 0].tolist()
    assert len(set(seen)) == 64


@pytest.mark.parametrize("name", SOURCES)
def test_the_order_is_a_function_of_seed_and_epoch_and_goes_on_from_any_batch(name):
    x, model = numbered()
    orders = []
    for seed, epoch in [(0, 0), (0, 1), (1, 0), (0, 0)]:
        torch.manual_seed(len(orders))  # what the user draws does not matter, and is not changed
        state = torch.get_rng_state()
        feed = open_data(model, SOURCES[name](x), None, CONFIG.replace(seed=seed)).train
        parts = [rows.x[:, 0].tolist() for rows in feed.batches(32, seed, epoch)]
        assert [rows.x[:, 0].tolist() for rows in feed.batches(32, seed, epoch, start=1)] == parts[1:]
        assert torch.equal(torch.get_rng_state(), state)
        orders.append(parts)
    assert orders[0] == orders[3]
    if any(
        word in name for word in ("shuffles", "generator", "sampler", "worker", "data set", "tensors", "part")
    ):
        assert orders[0] != orders[1] != orders[2] != orders[0]


def test_seeds_of_a_generator_of_the_user_count_and_it_is_put_back():
    x, model = numbered()
    orders = []
    for seed in (3, 4, 3):
        generator = torch.Generator().manual_seed(seed)
        loader = DataLoader(Rows(x), batch_size=32, shuffle=True, generator=generator)
        feed = open_data(model, loader, None, CONFIG).train
        orders.append([rows.x[:, 0].tolist() for rows in feed.batches(32, 0, 0)])
        assert torch.equal(generator.get_state(), torch.Generator().manual_seed(seed).get_state())
        assert orders[-1] == [rows.x[:, 0].tolist() for rows in feed.batches(32, 0, 0)]
    assert orders[0] == orders[2] != orders[1]


def test_a_data_set_in_memory_and_its_rows_train_alike_bit_for_bit():
    x, found = coins(), []
    for source in (x, Rows(x), TensorDataset(x)):
        model = model_of_coins()
        history = sq.fit(model, source, **QUICK)
        rows = [(row.train, row.step) for row in history.rows]
        found.append((rows, [weight.detach() for weight in model.parameters()]))
    for rows, weights in found[1:]:
        assert rows == found[0][0]
        assert all(torch.equal(a, b) for a, b in zip(weights, found[0][1], strict=True))


def test_a_loader_without_shuffling_and_batches_without_train_alike_bit_for_bit():
    x, found = coins(), []
    for source in (DataLoader(Rows(x), batch_size=32), sq.data.Batches(x.numpy(), batch=32, shuffle=False)):
        model = model_of_coins()
        history = sq.fit(model, source, DataLoader(Rows(x), batch_size=100), **QUICK)
        found.append([(row.train, row.valid) for row in history.rows])
    assert found[0] == found[1]


def test_some_rows_of_a_data_set_are_held_out_and_of_a_loader_none():
    x, model = numbered(200)
    data = open_data(model, Rows(x), None, sq.TrainingConfig(valid_fraction=0.1, seed=1))
    train, valid = all_rows(data.train)[:, 0].tolist(), all_rows(data.valid)[:, 0].tolist()
    assert len(valid) == 20
    assert sorted(train + valid) == list(range(200))
    assert open_data(model, DataLoader(Rows(x), batch_size=50), None, sq.TrainingConfig()).valid is None


@pytest.mark.parametrize("name", ["a loader", "a data set"])
def test_nan_is_missing(name):
    holes = coins(96).float()
    holes[::2, 1] = torch.nan
    model = model_of_coins()
    history = sq.fit(model, SOURCES[name](holes), holes, batch=32, **QUICK)
    scores = model.log_prob(holes.nan_to_num().long(), holes.isnan()).double()
    assert history.best.valid == pytest.approx(-scores.mean().item(), abs=1e-6)


class Augmented(Dataset):
    """Rows of which each cell is changed at random, by random numbers of torch."""

    def __len__(self):
        return 120

    def __getitem__(self, number):
        return (coins(120)[number] + (torch.rand(4) < 0.2).long()) % 2


RESUMED = {
    "a loader that shuffles": lambda: DataLoader(Rows(coins(120)), batch_size=20, shuffle=True),
    "a loader of random rows": lambda: DataLoader(Augmented(), batch_size=20, shuffle=True),
    "an iterable": lambda: DataLoader(Flow(coins(120)), batch_size=20),
    "a data set of random rows": Augmented,
}


@pytest.mark.parametrize("name", RESUMED)
@pytest.mark.parametrize("stop", [3, 6, 8])
def test_a_run_that_was_stopped_anywhere_resumes_bit_for_bit(name, stop, tmp_path, monkeypatch):
    options = QUICK | {"batch": 20, "run": tmp_path, "resume": True}
    whole = model_of_coins()
    expected = sq.fit(whole, RESUMED[name](), coins(50, seed=3), **QUICK, batch=20)
    ordinary, done = Loop._look, []

    def look(loop):
        ordinary(loop)
        done.append(None)
        if len(done) == stop:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "_look", look)
        assert (
            sq.fit(model_of_coins(), RESUMED[name](), coins(50, seed=3), **options).stopped == "interrupted"
        )
    resumed = model_of_coins(seed=4)
    history = sq.fit(resumed, RESUMED[name](), coins(50, seed=3), **options)
    assert [(row.train, row.valid) for row in history.rows] == [
        (row.train, row.valid) for row in expected.rows
    ]
    assert all(torch.equal(a, b) for a, b in zip(resumed.parameters(), whole.parameters(), strict=True))


class EpochSampler(torch.utils.data.Sampler):
    """As DistributedSampler: the order is one of the epoch that it is told."""

    epoch = 0

    def __len__(self):
        return 70

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        return iter(np.roll(np.arange(70), self.epoch).tolist())


def test_samplers_that_ask_for_the_epoch_are_told():
    x, model = numbered()
    feed = open_data(model, DataLoader(Rows(x), batch_size=32, sampler=EpochSampler()), None, CONFIG).train
    assert next(feed.batches(32, 0, 5)).x[:6, 0].tolist() == [65, 66, 67, 68, 69, 0]


class Once(IterableDataset):
    """Can be read once, as a generator that somebody has wrapped."""

    def __init__(self, x):
        self.rows = iter(x)

    def __iter__(self):
        return self.rows


class Texts(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, number):
        return "red"


WRONG = {
    "shape": (
        lambda: DataLoader(Rows(coins(64, 5)), batch_size=32),
        r"rows of shape \(n, 4\).*got \(32, 5\)",
    ),
    "images": (lambda: Rows(coins(64).reshape(-1, 2, 2)), r"Fix: flatten each sample: x.reshape\(\d+, 4\)"),
    "numbers": (lambda: DataLoader(Rows(torch.arange(64)), batch_size=32), r"got \(32,\)"),
    "texts": (Texts, "a batch of str, not of numbers. Fix: give tensors"),
    "texts in batches": (lambda: DataLoader(Texts(), batch_size=2), "a batch of str, not of numbers"),
    "mappings": (lambda: DataLoader([{"x": 1.0}] * 3), "a batch of dict, not of numbers"),
    "no rows": (lambda: Rows(coins(0)), "a Dataset without rows"),
    "an empty loader": (lambda: DataLoader(Flow(coins(0)), batch_size=4), "the DataLoader gives no batch"),
    "too few for a batch": (
        lambda: DataLoader(Rows(coins(5)), batch_size=9, drop_last=True),
        "the DataLoader gives no batch",
    ),
    "no state": (
        lambda: DataLoader(Rows(coins(64) + 7), batch_size=32),
        "row 0, column 0: [78] is not in the domain",
    ),
    "nothing known": (lambda: Rows(torch.full((9, 4), torch.nan)), "every cell is missing"),
    "a loader that can be read once": (
        lambda: Once(coins(64)),
        "gives no batch. Fix: .* can be read again",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_data_of_torch_is_refused_in_words(name):
    make, message = WRONG[name]
    with pytest.raises(sq.DataError, match=message):
        sq.fit(model_of_coins(), make(), **QUICK)


class Shrinking(IterableDataset):
    """Has fewer rows each time that it is read."""

    rows = 500

    def __iter__(self):
        Shrinking.rows -= 100
        return iter(coins(Shrinking.rows))


def test_a_loader_that_ends_early_is_refused_and_the_model_keeps_good_weights():
    model = model_of_coins()
    with pytest.raises(sq.DataError, match=r"gives \d batches in epoch 1, and gave 4 before. Fix: "):
        sq.fit(model, DataLoader(Shrinking(), batch_size=100), **QUICK)
    assert model.log_prob(coins(5)).isfinite().all()


def test_another_batch_than_that_of_the_loader_is_refused():
    loader = DataLoader(Rows(coins(64)), batch_size=32)
    with pytest.raises(sq.ParameterError, match=r"the stream has batches of 32. Fix: leave batch out"):
        sq.fit(model_of_coins(), loader, batch=16, **QUICK)
