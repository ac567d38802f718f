"""Tables from memory are those that the same rows in a file give."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import squircuit as sq

CELLS = {"colour": ["red", None, "blue"], "height": [1.5, 1.7, 1.9], "n": [0, 3, 7]}


def assert_equal(table, expected):
    assert table.schema == expected.schema
    assert table.shape == expected.shape
    np.testing.assert_array_equal(table.rows, expected.rows)
    np.testing.assert_array_equal(table.missing, expected.missing)


@pytest.mark.parametrize("frame", [dict, pd.DataFrame, pl.DataFrame])
def test_frames_are_as_the_csv_file_of_them(tmp_path, frame):
    file = tmp_path / "file.csv"
    pd.DataFrame(CELLS).to_csv(file, index=False)
    assert_equal(sq.data.table(frame(CELLS)), sq.data.read(file))


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.uint8, np.bool_])
@pytest.mark.parametrize("shape", [(6, 4), (6, 2, 2)])
def test_arrays_and_tensors_are_as_the_npy_file_of_them(tmp_path, dtype, shape):
    array = np.random.default_rng(0).integers(0, 9, size=shape).astype(dtype)
    if dtype is np.float64:
        array = array / 7
        array.flat[0] = np.nan
    np.save(tmp_path / "file.npy", array)
    for rows in (array, torch.from_numpy(array)):
        assert_equal(sq.data.table(rows), sq.data.read(tmp_path / "file.npy"))


def test_types_can_be_said():
    table = sq.data.table(np.array([[1.0, 2.0], [3.0, 5.0]]), columns={"0": "drop", "1": "periodic:4"})
    assert [column.kind for column in table.columns] == ["periodic"]
    assert table.rows.tolist() == [[2.0], [1.0]]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ({"a": [1, 2], "b": [1]}, "columns of different lengths, {'a': 2, 'b': 1}, are no table"),
        ({}, "are no table"),
        (np.zeros((0, 3)), r"shape \(0, 3\)"),
        (np.zeros((2, 2), dtype=complex), "of complex128"),
        ([[1, 2], [3]], "rows with equally many cells"),
        (np.array([[0.5, 2.0], [0.1, np.inf]]), r"row 1, column '1': inf is not finite"),
    ],
)
def test_what_is_no_table_is_refused(rows, words):
    with pytest.raises(sq.DataError, match=words):
        sq.data.table(rows)
