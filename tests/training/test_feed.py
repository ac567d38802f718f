"""All that can be passed as data, and what becomes of it."""

import numpy as np
import pytest
import torch

import squircuit as sq
from squircuit.training.intake import open_data
from squircuit.training.jitter import Jitter

from .conftest import all_rows, coins, model_of_coins

CONFIG = sq.TrainingConfig(batch=32, valid_fraction=0.0)


def opened(source, model=None, config=CONFIG, valid=None):
    return open_data(model or model_of_coins(), source, valid, config)


def as_frame(library):
    return lambda x, folder: pytest.importorskip(library).DataFrame(
        {str(i): x[:, i].numpy() for i in range(4)}
    )


def saved_csv(x, folder):
    np.savetxt(folder / "x.csv", x.numpy(), fmt="%d", delimiter=",")
    return folder / "x.csv"


def saved_npy(x, folder):
    np.save(folder / "x.npy", x.numpy().astype(np.uint8))
    return folder / "x.npy"


def saved_parquet(x, folder):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(
        pa.table({str(i): x[:, i].numpy() for i in range(4)}), folder / "x.parquet", row_group_size=50
    )
    return str(folder / "x.parquet")


SOURCES = {
    "tensor": lambda x, folder: x,
    "array": lambda x, folder: x.numpy(),
    "booleans": lambda x, folder: x.numpy().astype(bool),
    "floats": lambda x, folder: x.float(),
    "list": lambda x, folder: x.tolist(),
    "pandas": as_frame("pandas"),
    "polars": as_frame("polars"),
    "table": lambda x, folder: sq.data.read(saved_csv(x, folder)),
    "encoded": lambda x, folder: sq.data.Encoded(x.numpy(), np.zeros(x.shape, dtype=bool)),
    "CSV": saved_csv,
    "npy": saved_npy,
    "Parquet": saved_parquet,
    "mapped": lambda x, folder: np.load(saved_npy(x, folder), mmap_mode="r"),
    "batches": lambda x, folder: sq.data.Batches(x.numpy(), batch=32),
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_kind_of_source_gives_the_same_rows_and_trains(name, tmp_path):
    x = coins(150)
    data = opened(SOURCES[name](x, tmp_path))
    assert data.valid is None
    rows = all_rows(data.train)
    assert rows.dtype == torch.int64
    assert torch.equal(rows[rows.argsort(dim=0, stable=True)[:, 0]].sum(dim=0), x.sum(dim=0))
    assert sorted(rows.tolist()) == sorted(x.tolist())
    model = model_of_coins()
    history = sq.fit(model, SOURCES[name](x, tmp_path), x, batch=32, epochs=4, progress=False, patience=0)
    assert history.rows[-1].step == 4 * (150 // 32)
    assert history.rows[-1].valid < history.rows[0].valid


def test_a_data_set_brings_its_validation_data():
    digits = pytest.importorskip("sklearn") and sq.data.load("digits")
    model = sq.SquaredCircuit(sq.build(sq.regions.quad_tree((8, 8)), digits.families(), 2))
    data = open_data(model, digits, None, CONFIG)
    assert np.array_equal(all_rows(data.train).numpy(), digits.train)
    assert np.array_equal(all_rows(data.valid).numpy(), digits.valid)


def test_rows_held_out_and_rows_trained_on_are_a_partition_that_the_seed_decides():
    x = torch.arange(200).unsqueeze(1)
    model = sq.SquaredCircuit(sq.build(sq.regions.linear(1), sq.Categorical(200), 1))
    splits = []
    for seed in (0, 0, 1):
        data = open_data(model, x, None, sq.TrainingConfig(valid_fraction=0.1, seed=seed))
        train, valid = all_rows(data.train)[:, 0], all_rows(data.valid)[:, 0]
        assert len(valid) == 20
        assert sorted([*train.tolist(), *valid.tolist()]) == list(range(200))
        splits.append(valid.tolist())
    assert splits[0] == splits[1] != splits[2]


@pytest.mark.parametrize("name", ["tensor", "npy", "Parquet"])
def test_an_epoch_shows_each_row_at_most_once_in_an_order_of_seed_and_epoch(name, tmp_path):
    x = torch.cartesian_prod(*[torch.arange(2)] * 4).repeat(5, 1)[:70]
    feed = opened(SOURCES[name](x, tmp_path)).train
    epochs = [torch.cat([b.x for b in feed.batches(32, 0, epoch)]) for epoch in (0, 0, 1)]
    assert [len(rows) for rows in epochs] == [64, 64, 64]
    assert torch.equal(epochs[0], epochs[1])
    assert not torch.equal(epochs[0], epochs[2])
    rest = torch.cat([b.x for b in feed.batches(32, 0, 1, start=1)])
    assert torch.equal(rest, epochs[2][32:])
    assert list(feed.batches(32, 0, 1, start=2)) == []
    count = lambda rows: np.unique(rows.numpy(), axis=0, return_counts=True)[1].sum()  # noqa: E731
    assert count(epochs[0]) == 64
    assert all((epochs[0] == row).all(dim=1).sum() <= (x == row).all(dim=1).sum() for row in x)


def test_fewer_rows_than_a_batch_are_one_batch():
    x = coins(10)
    assert sq.fit(model_of_coins(), x, x, batch=256, epochs=3, progress=False).rows[-1].step == 3
    stream = sq.data.Batches(x.numpy(), batch=256)
    assert sq.fit(model_of_coins(), stream, x, epochs=3, progress=False).rows[-1].step == 3


def test_a_stream_is_not_moved_by_training_on_it():
    stream = sq.data.Batches(coins(100).numpy(), batch=32)
    sq.fit(model_of_coins(), stream, epochs=2, progress=False)
    assert stream.state_dict() == {"epoch": 0, "position": 0}


def test_missing_entries_count_with_their_marginal_likelihood():
    x = coins(64).double()
    x[torch.rand(x.shape, generator=torch.Generator().manual_seed(1)) < 0.3] = torch.nan
    model, states = model_of_coins(), torch.cartesian_prod(*[torch.arange(2)] * 4)
    density = model.log_prob(states).exp().double().detach()
    expected = 0.0
    for row in x:  # by enumeration of all completions
        agrees = (row.isnan() | (row == states)).all(dim=1)
        expected -= density[agrees].sum().log().item() / len(x)
    history = sq.fit(model, x, x, batch=64, epochs=30, lr=0.1, progress=False)
    assert history.rows[0].train == pytest.approx(expected, rel=1e-5)
    assert history.best.valid < history.rows[0].train


def test_a_table_with_missing_cells_and_mixed_columns_trains_in_memory_and_streamed(tmp_path):
    rng = np.random.default_rng(0)
    lines = [
        f"{rng.choice(['red', 'blue', ''])},{rng.integers(4)},{rng.normal():.3f},{rng.uniform(0, 360):.2f}"
        for _ in range(120)
    ]
    (tmp_path / "t.csv").write_text("colour,count,height,wind\n" + "\n".join(lines) + "\n")
    table = sq.data.read(tmp_path / "t.csv", columns={"wind": "periodic:360"})
    circuit = sq.build(sq.regions.balanced_tree(4), table.families(size=5), 3)
    in_memory, streamed = sq.SquaredCircuit(circuit), sq.SquaredCircuit(circuit)
    options = {"epochs": 3, "progress": False, "lr": 0.1}
    first = sq.fit(in_memory, table, table, batch=40, **options)
    second = sq.fit(streamed, sq.data.Batches(table, batch=40), table, **options)
    assert first.rows[-1].valid < first.rows[0].valid
    assert first.best.valid == pytest.approx(second.best.valid, rel=1e-4)  # the same order: seed and epoch


def test_validation_files_are_read_with_the_types_of_the_training_file(tmp_path):
    (tmp_path / "a.csv").write_text("c,d\n" + "red,1\nblue,0\ngreen,1\n" * 5)
    (tmp_path / "b.csv").write_text("c,d\nred,1\n")
    circuit = sq.build(sq.regions.linear(2), [sq.Categorical(3), sq.Categorical(2)], 2)
    data = open_data(sq.SquaredCircuit(circuit), tmp_path / "a.csv", tmp_path / "b.csv", CONFIG)
    assert all_rows(data.valid).tolist() == [[2, 1]]


REFUSED = {
    "train: no data": lambda: None,
    r"rows of shape \(n, 4\).*got \(5, 3\)": lambda: np.zeros((5, 3)),
    r"got \(0, 4\)": lambda: np.zeros((0, 4)),
    r"got \(6, 2, 2\). Fix: flatten each sample: x.reshape\(6, 4\)": lambda: np.zeros((6, 2, 2)),
    "not of numbers. Fix: encode texts with model.schema.encode": lambda: np.array([["a", "b", "c", "d"]]),
    "train: row 3, column 2: 2 is not in the domain, integers 0 to 1": lambda: _with(coins(5), 2),
    "train: row 3, column 2: 0.5 is not in the domain": lambda: _with(coins(5).double(), 0.5),
    "no such file": lambda: "nothing.csv",
}


def _with(x, value):
    x[3, 2] = value
    return x


@pytest.mark.parametrize("message", REFUSED)
def test_data_that_does_not_fit_is_refused_by_row_column_and_value(message):
    with pytest.raises(sq.DataError, match=message):
        sq.fit(model_of_coins(), REFUSED[message](), progress=False)


def test_values_outside_a_continuous_domain_are_refused_in_memory_and_in_streams():
    model = sq.SquaredCircuit(sq.build(sq.regions.linear(2), sq.Legendre(4, low=-1.0, high=1.0), 2))
    x = np.zeros((50, 2))
    x[7, 1] = 1.5
    for source in (x, sq.data.Batches(x, batch=50, shuffle=False)):
        with pytest.raises(
            sq.DataError, match=r"row 7, column 1: 1\.5 is not in the domain, the interval \[-1, 1\]"
        ):
            sq.fit(model, source, valid_fraction=0.0, progress=False)


def test_a_stream_with_batches_of_another_size_than_asked_is_refused():
    with pytest.raises(sq.ParameterError, match="batch=16, but the stream has batches of 32"):
        sq.fit(model_of_coins(), sq.data.Batches(coins(100).numpy(), batch=32), batch=16)


def test_noise_stays_in_the_domain_moves_only_continuous_columns_and_is_a_function_of_the_step():
    families = [sq.Categorical(3), sq.Fourier(3, 2.0), sq.Legendre(3, low=0.0, high=1.0), sq.Hermite(3)]
    circuit = sq.build(sq.regions.balanced_tree(4), families, 2)
    x = torch.tensor([[2.0, 0.99, 0.01, 5.0]]).repeat(4000, 1)
    jitter = Jitter(circuit, 0.1, seed=3, device=torch.device("cpu"))
    moved = jitter(x, 11)
    assert circuit.column_domains.contain(moved).all()
    assert torch.equal(moved[:, 0], x[:, 0])
    assert (moved[:, 1] < -0.9).any()  # on the circle 1.05 is −0.95
    assert (moved[:, 3] - 5).std().item() == pytest.approx(0.1, rel=0.05)
    assert torch.equal(moved, Jitter(circuit, 0.1, 3, torch.device("cpu"))(x, 11))
    assert not torch.equal(moved, jitter(x, 12))
