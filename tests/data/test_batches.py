"""Streams of batches: every row once an epoch, the same for a seed, resumed anywhere, never all in memory."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from squircuit.data import Batches, read, scan
from squircuit.data.parquet import ParquetSource
from squircuit.errors import DataError, ParameterError


def rows_of(batches):
    return np.concatenate([part.x for part in batches])


def numbered(n):
    return np.stack([np.arange(n), -np.arange(n)], axis=1) + 0.5


@pytest.fixture(scope="module")
def parquet(tmp_path_factory):
    """A writer of Parquet files with row groups of some size."""
    arrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow: pip install 'squircuit[data]'")
    writer = pytest.importorskip("pyarrow.parquet")

    def write(columns, size):
        path = tmp_path_factory.mktemp("parquet") / "data.parquet"
        writer.write_table(arrow.table(columns), path, row_group_size=size)
        return path

    return write


def test_a_mapped_file_stays_mapped(tmp_path):
    np.save(tmp_path / "x.npy", numbered(20))
    batches = Batches(tmp_path / "x.npy", batch=8)
    assert isinstance(batches._rows.array.base, np.memmap) or isinstance(batches._rows.array, np.memmap)
    part = next(iter(batches))
    part.x[:] = 0  # a copy: writable, and the file does not change
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), numbered(20))


@given(st.integers(1, 30), st.integers(1, 12), st.booleans(), st.integers(0, 5))
def test_an_epoch_has_every_row_once(n, batch, shuffle, seed):
    batches = Batches(numbered(n), batch, shuffle, seed)
    parts = list(batches)
    assert [len(part.x) for part in parts[:-1]] == [batch] * (len(batches) - 1)
    np.testing.assert_array_equal(np.sort(rows_of(parts)[:, 0]), np.arange(n) + 0.5)
    if not shuffle:
        np.testing.assert_array_equal(rows_of(parts), numbered(n))


def check_resumption(make, epochs=3):
    """Stopped after any batch and resumed in a new object, the stream is that of an unbroken run."""
    whole = make()
    unbroken = [part.x for _ in range(epochs) for part in whole]
    for stop in range(len(unbroken)):
        first = make()
        for _ in range(stop):
            next(iter(first))  # a new loop each time: breaks lose nothing
        state = first.state_dict()
        second = make()
        second.load_state_dict(state)
        rest = [part.x for _ in range(epochs - state["epoch"]) for part in second]
        assert len(rest) == len(unbroken) - stop
        for left, right in zip(rest, unbroken[stop:], strict=True):
            np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("drop_last", [False, True])
def test_arrays_resume_anywhere(drop_last):
    check_resumption(lambda: Batches(numbered(11), 3, seed=7, drop_last=drop_last))


def test_parquet_resumes_anywhere(parquet):
    path = parquet({"a": list(range(23))}, 3)
    check_resumption(lambda: Batches(path, 4, seed=7), epochs=2)
    check_resumption(lambda: Batches(path, 4, shuffle=False), epochs=2)


@settings(max_examples=30)
@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 12), st.booleans())
def test_parquet_epochs_have_every_row_once(parquet, n, size, batch, shuffle):
    batches = Batches(parquet({"a": list(range(n)), "b": [0.5] * n}, size), batch, shuffle)
    parts = list(batches)
    assert [len(part.x) for part in parts[:-1]] == [batch] * (len(batches) - 1)
    found = rows_of(parts)[:, 0]
    np.testing.assert_array_equal(np.sort(found) if shuffle else found, np.arange(n))


def test_parquet_is_mixed_across_row_groups_and_read_a_window_at_a_time(parquet, monkeypatch):
    read_groups = []
    plain = ParquetSource.group
    monkeypatch.setattr(
        ParquetSource,
        "group",
        lambda self, group, names: read_groups.append(group) or plain(self, group, names),
    )
    batches = Batches(parquet({"a": list(range(1000))}, 50), batch=100)
    first = next(iter(batches)).x[:, 0]
    assert len(read_groups) == 4
    assert len({int(row) // 50 for row in first}) == 4
    later = Batches(batches._rows.source.path, batch=100)
    later.load_state_dict({"epoch": 0, "position": 8})
    read_groups.clear()
    assert len(list(later)) == 2
    assert len(read_groups) == 4  # what was given before is not read again


def test_orders_depend_on_seed_and_epoch():
    batches = Batches(numbered(50), 50, seed=1)
    first, second = rows_of(batches), rows_of(batches)
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(first, rows_of(Batches(numbered(50), 50, seed=1)))
    assert not np.array_equal(first, rows_of(Batches(numbered(50), 50, seed=2)))


def test_texts_and_missing_cells_stream_as_they_are_read(parquet):
    path = parquet({"c": ["x", None, "y", "x", "z"], "v": [0.5, 1.5, None, 2.5, 3.0]}, 2)
    table = read(path)
    for like in (scan(path), table):
        batches = list(Batches(path, 2, shuffle=False, like=like))
        np.testing.assert_array_equal(rows_of(batches), table.rows)
        np.testing.assert_array_equal(np.concatenate([part.missing for part in batches]), table.missing)
    np.testing.assert_array_equal(rows_of(Batches(table, 2, shuffle=False)), table.rows)
    with pytest.raises(DataError, match=r"column 'c': it holds texts. Fix: pass like=scan"):
        list(Batches(path))


def test_mapped_arrays_are_encoded_as_they_are_taken(tmp_path):
    np.save(tmp_path / "x.npy", np.array([[5, 0.5], [7, np.nan], [9, 2.0]]))
    schema = scan(tmp_path / "x.npy", columns={"0": "categorical"})
    for shuffle in (False, True):
        batches = list(Batches(tmp_path / "x.npy", 2, shuffle, like=schema))
        assert sorted(rows_of(batches)[:, 0]) == [0, 1, 2]
        assert sum(int(part.missing.sum()) for part in batches) == 1
    np.save(tmp_path / "x.npy", np.array([[5, 0.5], [6, 1.0]]))
    with pytest.raises(DataError, match=r"x\.npy, row 1, column '0': unknown category 6"):
        list(Batches(tmp_path / "x.npy", 1, like=schema))


def test_numbers_that_are_their_own_codes_are_encoded_as_by_the_schema(tmp_path):
    array = np.array([[0, 3, 0.5], [1, np.nan, 1.5], [0, 7, np.nan], [1, 0, -2.0]])
    np.save(tmp_path / "x.npy", array)
    table = read(tmp_path / "x.npy")
    assert table.schema.encode_numbers(array) is not None
    parts = list(Batches(tmp_path / "x.npy", 3, shuffle=False, like=table))
    np.testing.assert_array_equal(rows_of(parts), table.rows)
    np.testing.assert_array_equal(np.concatenate([part.missing for part in parts]), table.missing)
    for row in ([2, 0, 0], [0.5, 0, 0], [0, 8, 0], [0, -1, 0], [0, 0, np.inf]):
        np.save(tmp_path / "x.npy", np.array([[0, 0, 0], row], dtype=float))
        with pytest.raises(DataError, match=r"x\.npy, row 1, column"):
            list(Batches(tmp_path / "x.npy", like=table, shuffle=False))


def test_masks_follow_nan_and_integers_have_none():
    part = next(iter(Batches(np.array([[np.nan, 1.0]]))))
    np.testing.assert_array_equal(part.missing, [[True, False]])
    assert not next(iter(Batches(np.ones((3, 2), dtype=np.uint8)))).missing.any()


def test_nonsense_is_refused(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    for make, words in [
        (lambda: Batches(numbered(3), batch=0), "batch=0"),
        (lambda: Batches(numbered(3), batch=4, drop_last=True), "3 rows are less than one batch"),
        (lambda: Batches(np.zeros(3)), "shape (3,)"),
        (lambda: Batches(tmp_path / "x.csv"), "only .npy and Parquet files stream"),
        (lambda: Batches(numbered(3)).load_state_dict({"epoch": 0, "position": 5}), "no place in 1 batches"),
    ]:
        with pytest.raises((DataError, ParameterError), match=re.escape(words)):
            make()
