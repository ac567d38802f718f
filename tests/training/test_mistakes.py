"""What is passed to fit in place of data: refused before training, with what to pass."""

import numpy as np
import pandas as pd
import pytest
import torch

import squircuit as sq

FRAME = pd.DataFrame({"group": ["a", "b", "c", "b"] * 10, "other": ["x", "y", "z", "x"] * 10})
TABLE = sq.data.table(FRAME)


def refused(train, valid=None, **options):
    with pytest.raises(sq.SquircuitError) as caught:
        sq.fit(sq.model_for(TABLE, units=2), train, valid, epochs=1, progress=False, **options)
    return str(caught.value)


def test_the_name_of_a_data_set_is_no_file():
    assert refused("digits") == (
        "train: 'digits' is the name of a data set, not a file. Fix: pass sq.data.load('digits')."
    )


def test_a_generator_is_no_array():
    rows = (torch.zeros(2) for _ in range(4))
    fix = "Fix: pass an array (n, d), a file, or sq.data.Batches or a DataLoader of torch, which stream."
    assert refused(rows).endswith(fix)


def test_no_rows_are_named_as_that():
    assert refused(np.zeros((0, 2))).endswith("got (0, 2). Fix: pass some rows.")


def test_columns_in_another_order_are_refused_though_their_numbers_fit():
    swapped = sq.data.table(FRAME[["other", "group"]])
    assert refused(swapped).startswith("train: the columns are other, group in place of group, other, so ")


def test_a_table_whose_states_have_other_numbers_is_refused():
    valid = sq.data.table(FRAME[FRAME.group != "a"])  # b is 0 there, and 1 in the model
    assert refused(TABLE, valid) == (
        "valid: column 'group' has the states b, c in place of the states a, b, c, so its numbers mean "
        "something else to the model. Fix: give it the model's types: sq.data.read(path, like=model.schema) "
        "or model.schema.encode(rows)."
    )


def test_a_table_that_lacks_the_last_states_is_taken():
    valid = sq.data.table(FRAME[FRAME.group != "c"])
    assert sq.fit(sq.model_for(TABLE, units=2), TABLE, valid, epochs=1, progress=False).best.valid is not None


def test_counts_whose_numbering_begins_elsewhere_are_refused():
    ours, theirs = ({"n": np.arange(300, 310) + low, "m": np.arange(10)} for low in (0, 1))
    model = sq.model_for(sq.data.table(ours), units=2)
    with pytest.raises(
        sq.DataError, match="column 'n' has the states 301 … 310 in place of the states 300 … 309"
    ):
        sq.fit(model, sq.data.table(theirs), epochs=1, progress=False)


@pytest.mark.parametrize(
    ("name", "meant"), [("learning_rate", "lr"), ("batch_size", "batch"), ("EPOCHS", "epochs")]
)
def test_names_of_other_libraries_are_understood_in_the_error(name, meant):
    assert refused(TABLE, **{name: 1}).startswith(
        f"there is no option {name!r}. Fix: did you mean {meant!r}?"
    )


def test_an_error_is_one_line_even_if_the_value_is_not():
    optimiser = torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))])
    assert refused(TABLE, optimiser=optimiser) == "optimiser=<Adam>. Fix: pass a text."
