"""Columns of every library of data frames: numbers, texts and truth values, with missing cells among them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import squircuit as sq
from squircuit.data import Batches, Column, Schema, read, table
from squircuit.data.cells import as_cells, escaped
from squircuit.errors import DataError

TRUTH = [True, None, False, True]


def frames():
    def polars():
        return pytest.importorskip("polars").DataFrame({"b": TRUTH, "x": [0.5, 1.5, 2.5, 3.5]})

    def pandas(dtype):
        pd = pytest.importorskip("pandas")
        if "pyarrow" in dtype:
            pytest.importorskip("pyarrow")
        return pd.DataFrame({"b": pd.array(TRUTH, dtype=dtype), "x": [0.5, 1.5, 2.5, 3.5]})

    def arrow(batch):
        pa = pytest.importorskip("pyarrow")
        whole = pa.table({"b": TRUTH, "x": [0.5, 1.5, 2.5, 3.5]})
        return whole.to_batches()[0] if batch else whole

    return {
        "polars": polars,
        "pandas boolean": lambda: pandas("boolean"),
        "pandas object": lambda: pandas("object"),
        "pandas arrow": lambda: pandas("bool[pyarrow]"),
        "arrow": lambda: arrow(False),
        "arrow batch": lambda: arrow(True),
        "mapping": lambda: {"b": TRUTH, "x": [0.5, 1.5, 2.5, 3.5]},
    }


@pytest.mark.parametrize("name", frames())
def test_truth_values_with_missing_ones_are_a_binary_column(name):
    frame = frames()[name]()
    made = table(frame)
    assert made.columns[0] == Column("b", "binary", (0, 1), missing=1)
    assert made.missing[:, 0].tolist() == [False, True, False, False]
    again = made.encode(frame)
    np.testing.assert_array_equal(again.x, made.rows)
    np.testing.assert_array_equal(again.missing, made.missing)
    cells = [row[0] for row in made.decode(*again)]
    assert cells == TRUTH
    np.testing.assert_array_equal(
        made.encode([[cell, 1.0] for cell in cells]).missing[:, 0], made.missing[:, 0]
    )


def test_truth_values_with_missing_ones_in_a_parquet_file_are_a_binary_column(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    frame = pa.table({"b": TRUTH, "x": [0.5, 1.5, 2.5, 3.5]})
    parquet.write_table(frame, tmp_path / "data.parquet")
    made = read(tmp_path / "data.parquet")
    assert made.columns == table(frame).columns
    np.testing.assert_array_equal(made.missing, table(frame).missing)


def test_whole_numbers_with_missing_ones_are_counts():
    pd = pytest.importorskip("pandas")
    made = table(pd.DataFrame({"n": pd.array([1, None, 7, 3], dtype="Int64"), "x": [0.5, 1.5, 2.5, 3.5]}))
    assert (made.columns[0].kind, made.columns[0].missing) == ("count", 1)


def test_arrow_columns_of_texts_and_dictionaries_are_categories():
    pa = pytest.importorskip("pyarrow")
    texts = pa.array(["r", "g", None, "r"])
    made = table(pa.table({"t": texts, "d": texts.dictionary_encode(), "x": [1.5, 2.5, 3.5, 0.5]}))
    assert [column.categories for column in made.columns] == [("g", "r"), ("g", "r"), ()]
    assert made.missing.sum() == 2


def test_numbers_for_a_column_of_texts_are_written_as_in_a_file():
    schema = Schema((Column("a", "categorical", ("1", "2.5", "x")),))
    for cells in ([1, None, 2.5], [1, "x", "2.5"], [1.0, None]):
        assert schema.encode([[cell] for cell in cells]).x.shape == (len(cells), 1)
    assert schema.encode([[1], [2.5], ["x"]]).x.ravel().tolist() == [0, 1, 2]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float8_e4m3fn])
def test_tensors_of_every_precision_are_data(dtype):
    rows = torch.tensor([[0.5, 1.5], [2.5, -0.5], [0.25, 3.5]]).to(dtype)
    made = table(rows)
    np.testing.assert_array_equal(made.rows, rows.double().numpy())
    np.testing.assert_array_equal(made.encode(rows).x, made.rows)
    np.testing.assert_array_equal(table({"a": rows[:, 0], "b": rows[:, 1]}).rows, made.rows)
    (batch,) = Batches(rows, batch=3, shuffle=False)
    assert batch.x.dtype == np.float32
    np.testing.assert_array_equal(batch.x, made.rows)


@pytest.mark.parametrize(
    "rows",
    [
        torch.eye(2).to_sparse(),
        torch.zeros(2, 2, device="meta"),
        torch.zeros(2, 2, dtype=torch.complex64),
        [[1, 2], [3]],
        {"a": torch.eye(2).to_sparse()[0], "b": [1, 2]},
        {"a": np.zeros((2, 2)), "b": [1, 2]},
        {"a": 3, "b": [1, 2]},
        {"a": [1, 2], "": [1, 2]},
        {1: [1, 2], "1": [1, 2]},
    ],
)
def test_what_is_no_column_is_one_error(rows):
    with pytest.raises(DataError, match="Fix: ") as caught:
        table(rows)
    assert "\n" not in str(caught.value)


def test_frames_with_two_columns_of_one_name_are_refused():
    pd = pytest.importorskip("pandas")
    with pytest.raises(DataError, match="the name 'a' of column 1 is there twice"):
        table(pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]))


@pytest.mark.parametrize("rows", [[["a", "b"]], [[1, 2], [3]], object(), [[None, "x"]]])
def test_what_cannot_be_decoded_is_one_error(rows):
    schema = Schema((Column("a", "continuous"), Column("b", "continuous")))
    with pytest.raises(DataError, match="Fix: "):
        schema.decode(rows)


def test_cells_of_objects_stay_what_they_are():
    assert as_cells(["a", 1]).dtype == object
    assert as_cells([1, None, 2.5]).dtype == np.float64
    assert as_cells([[1, 2], [3, 4]]).shape == (2,)
    assert np.isinf(as_cells([10**400, 1])[0])


@pytest.mark.parametrize("text", ["=1+1", "+x", "-x", "@SUM(A1)", "\t=1", " =1", "\r=1", "＝1"])
def test_texts_that_a_spreadsheet_would_compute_are_marked(text):
    assert escaped(text) == "'" + text


@pytest.mark.parametrize("cell", ["red", "", "-1.5", "+3", "a=b", -1.5, 3, None, True, "1e-5"])
def test_all_other_cells_are_written_as_they_are(cell):
    assert escaped(cell) is cell


def test_half_precision_trains_a_model():
    circuit = sq.build(sq.regions.linear(2), sq.Hermite(4), units=2)
    rows = torch.randn(40, 2, generator=torch.Generator().manual_seed(0))
    for dtype in (torch.bfloat16, torch.float16):
        history = sq.fit(sq.SquaredCircuit(circuit), rows.to(dtype), epochs=1, progress=False)
        assert len(history.rows) == 1
