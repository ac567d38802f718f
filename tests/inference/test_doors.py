"""What is passed as rows or as a mask, and is none: one line that says what to pass."""

import numpy as np
import pandas as pd
import pytest
import torch

import squircuit as sq

MODEL = sq.SquaredCircuit(sq.build(sq.regions.linear(2), [sq.Categorical(3), sq.Hermite(4)], units=2), seed=0)
TABLE = sq.data.table({"a": ["x", "y", "z"], "b": [0.5, 1.5, 2.5]})
ENCODE = "encode texts, with model.schema.encode(rows) where the model was made of a table."


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (pd.DataFrame({"a": [0, "red"], "b": [1.5, 2.5]}),
         f"row 1, column 0: 'red' is not a number. Fix: {ENCODE}"),
        ([["red", "2.5"]], f"row 0, column 0: 'red' is not a number. Fix: {ENCODE}"),
        (np.array([[1, None]], dtype=object),
         "row 0, column 1: None is not a number. "
         "Fix: mark in missing= what is not known, and put any number there."),
        (np.array([[1, 2.5]], dtype=object),
         "the numbers are object. Fix: make them floats, x.astype('float64')."),
        ([[1, 2.5], [1]], "the rows have several lengths. Fix: give each 2 cells."),
        ("people.csv", "'people.csv' is a name, not data. Fix: read it with sq.data.read or sq.data.load."),
        ([[0.25, 1.0]], "row 0, column 0: 0.25 is not in the domain, integers 0 to 2. "
         "Fix: correct it, or mark the entry in missing= if its value is not known."),
    ],
)  # fmt: skip
def test_what_is_no_data_is_refused_in_one_line(x, expected):
    with pytest.raises(sq.DataError) as caught:
        MODEL.log_prob(x)
    assert str(caught.value) == expected


def test_a_data_set_has_parts_and_is_no_data():
    with pytest.raises(sq.DataError, match=r"has three parts\. Fix: pass one, such as dataset\.test\."):
        MODEL.log_prob(sq.data.load("ring"))


def test_a_table_and_rows_are_their_numbers():
    expected = MODEL.log_prob(TABLE.rows, TABLE.missing)
    assert torch.equal(MODEL.log_prob(TABLE), expected)
    assert torch.equal(MODEL.log_prob(TABLE.cells), expected)
    with pytest.raises(
        sq.DataError, match=r"rows and their gaps in one Table. Fix: pass data.rows, and missing="
    ):
        sq.evaluate(MODEL.circuit(), TABLE)
    with pytest.raises(
        sq.DataError, match=r"rows and their gaps in one Rows. Fix: pass data.x, and missing="
    ):
        sq.evaluate(MODEL.circuit(), TABLE.cells)


def test_evaluation_of_circuits_has_the_same_door():
    with pytest.raises(sq.DataError, match="row 0, column 0: 'red' is not a number"):
        sq.evaluate(MODEL.circuit(), [["red", 1.0]])


def test_a_mask_may_be_a_data_frame():
    frame = pd.DataFrame({"a": [0.0, 2.0], "b": [0.3, np.nan]})
    found = MODEL.log_prob(frame.fillna(0.0), missing=frame.isna())
    expected = MODEL.log_prob(
        torch.tensor([[0.0, 0.3], [2.0, 0.0]]).double(), torch.tensor([[False, False], [False, True]])
    )
    assert torch.equal(found, expected)


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        ("left", "missing='left' is no mask. Fix: pass (2,) booleans, True where an entry is missing"),
        (["a"], "missing=['a'] is no mask. Fix: pass (2,) booleans, True where an entry is missing"),
        ([1], "missing must be booleans, True where an entry is missing; got torch.int64. "
         "Fix: pass e.g. x.isnan(), or of the numbers of variables [v in numbers for v in range(2)]"),
        ([True], "missing has shape (1,). Fix: pass (2,), the same for all rows, or (1, 2)"),
    ],
)  # fmt: skip
def test_what_is_no_mask_is_refused_in_one_line(missing, expected):
    with pytest.raises(sq.ParameterError) as caught:
        MODEL.log_prob([[0, 1.0]], missing=missing)
    assert str(caught.value) == expected
