"""Sample weights where they enter: what is refused, and that they stay with their rows."""

import numpy as np
import pytest
import torch

import squircuit as sq
from squircuit.data.weights import as_weights, weight_column, with_mean_1

ROWS = np.arange(60.0).reshape(20, 3)
WEIGHTS = np.arange(20.0) % 4  # a fifth and more of them 0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, 2.0], r"weights: shape \(2,\) for 3 rows. Fix: pass one number for each row, \(3,\)"),
        ([[1.0], [2.0], [3.0]], r"weights: shape \(3, 1\) for 3 rows"),
        ([1.0, -0.5, 1.0], "weights: row 1 has the weight -0.5. Fix: pass finite weights"),
        ([1.0, 1.0, np.nan], "weights: row 2 has the weight nan"),
        ([np.inf, 1.0, 1.0], "weights: row 0 has the weight inf"),
        ([0, 0, 0], "weights: all weights are zero, so no row counts"),
        (["a", "b", "c"], "weights: list of <U1. Fix: pass one number for each row"),
    ],
)
def test_what_are_no_weights_is_refused_by_row_and_value(values, message):
    with pytest.raises(sq.DataError, match=message):
        as_weights(values, 3)


@pytest.mark.parametrize("make", [list, np.array, torch.tensor, lambda w: np.array(w, dtype=np.float32)])
def test_weights_are_numbers_of_any_kind(make):
    assert as_weights(make([1, 0, 3]), 3).tolist() == [1.0, 0.0, 3.0]


def test_the_mean_of_some_weights_is_that_of_the_whole():
    whole = np.array([1.0, 3.0, 5.0])
    assert with_mean_1(whole[:1], whole)[0] == pytest.approx(1 / 3)
    assert with_mean_1(whole * 1e307).mean() == pytest.approx(1.0)


def test_rows_keep_their_weights_when_taken_joined_and_moved():
    rows = sq.data.Rows(ROWS, None, WEIGHTS)
    assert rows.take([3, 1]).weights.tolist() == [3.0, 1.0]
    assert rows.take(WEIGHTS > 2).weights.tolist() == [3.0] * 5
    assert sq.data.Rows.joined([rows, rows.take([2])]).weights.tolist() == [*WEIGHTS, 2.0]
    moved = rows.to(torch.device("cpu"), torch.float32)
    assert moved.weights.dtype == torch.float64
    assert moved.take(slice(2)).weights.tolist() == [0.0, 1.0]


def written(kind, folder):
    if kind == "array":
        return ROWS
    if kind == "npy":
        np.save(folder / "x.npy", ROWS)
        return folder / "x.npy"
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({str(i): ROWS[:, i] for i in range(3)}), folder / "x.parquet", row_group_size=3)
    return folder / "x.parquet"


@pytest.mark.parametrize("kind", ["array", "npy", "Parquet"])
@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
def test_each_row_of_a_stream_comes_once_with_its_weight_and_those_of_weight_0_do_not(
    kind, typed, shuffle, tmp_path
):
    source = written(kind, tmp_path)
    like = sq.data.table(ROWS, dict.fromkeys("012", "continuous")).schema if typed else None
    if kind == "array" and typed:
        source, like = sq.data.table(ROWS, dict.fromkeys("012", "continuous")), None
    batches = sq.data.Batches(source, batch=4, shuffle=shuffle, like=like, weights=WEIGHTS)
    found = list(batches)
    assert [len(part) for part in found] == [4, 4, 4, 3]
    assert len(batches) == 4
    rows = sq.data.Rows.joined(found)
    expected = {tuple(row): weight for row, weight in zip(ROWS.tolist(), WEIGHTS, strict=True) if weight}
    assert {tuple(row): weight for row, weight in zip(rows.x.tolist(), rows.weights, strict=True)} == expected
    assert len(rows) == len(expected) == len(batches.weights)


def test_a_stream_of_a_table_takes_the_weights_of_the_table():
    table = sq.data.table(ROWS)
    weighted = sq.data.Table(sq.data.Rows(table.rows, None, WEIGHTS), table.schema, "here", (3,))
    assert sq.data.Batches(weighted).weights.sum() == WEIGHTS.sum()


def test_a_column_of_a_file_holds_the_weights(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("a,w\n1,2\n3,0.5\n")
    assert weight_column(file, "w").tolist() == [2.0, 0.5]
    with pytest.raises(sq.ParameterError, match=r"no column 'W' of weights. Fix: did you mean 'w'"):
        weight_column(file, "W")
    for cell, message in [("", "the weight is missing"), ("x", "'x' is not a number"), ("-1", "weight -1")]:
        file.write_text(f"a,w\n1,2\n3,{cell}\n")
        with pytest.raises(sq.DataError, match=message):
            weight_column(file, "w")
