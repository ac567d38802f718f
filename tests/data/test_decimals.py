"""The resolution of columns: found in one pass, piece by piece, and kept by what is decoded."""

from __future__ import annotations

import json
from decimal import Decimal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import squircuit as sq
from squircuit.data import Column, Schema, table
from squircuit.data.column_facts import Facts
from squircuit.data.decimals import COARSEST, FINEST, NONE, STEPS, decimals, rounded, step_of
from squircuit.errors import FormatError

WHOLE = st.integers(-(10**6), 10**6)
PLACES = st.integers(COARSEST, FINEST)


def written(whole: int, places: int) -> float:
    """The float of the decimal number whole · 10^−places, as a file has it."""
    return float(f"{whole}e{-places}")


def needed(numbers: list[tuple[int, int]]) -> int:
    """Decimals of exact decimal numbers, none fewer than the coarsest step has; from their digits alone."""
    exact = [Decimal(whole).scaleb(-places).normalize() for whole, places in numbers if whole]
    return max([COARSEST, *(-int(number.as_tuple().exponent) for number in exact)])


def found(values: np.ndarray) -> tuple[int, int]:
    whole = np.array([(values == np.floor(values)).all()])
    return decimals(values[None], np.isfinite(values)[None], whole)[0]


def step(values: np.ndarray) -> float:
    return table({"x": values}, {"x": "continuous"}).columns[0].step


# ------------------------------------------------------------------ what is found


@given(st.lists(st.tuples(WHOLE, PLACES), min_size=1, max_size=40))
def test_the_decimals_of_numbers_are_those_of_their_digits(numbers):
    values = np.array([written(*number) for number in numbers])
    assert found(values)[0] == needed(numbers)


@given(st.lists(st.tuples(st.integers(-999, 999), st.integers(0, 3)), min_size=1, max_size=40))
def test_numbers_of_single_precision_have_the_decimals_that_were_rounded(numbers):
    values = np.array([written(*number) for number in numbers])
    narrow = values.astype(np.float32).astype(np.float64)
    expected = needed(numbers)
    assert min(found(narrow)) == found(narrow)[1] == expected
    if (narrow != values).any():
        assert found(narrow)[0] > expected


@given(
    st.lists(st.tuples(st.integers(-999, 999), st.integers(-3, 4)), min_size=2, max_size=40),
    st.integers(1, 39),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from([np.float32, np.float64]),
)
def test_decimals_of_two_pieces_add_up_to_those_of_the_whole(numbers, cut, first, second):
    values = np.array([written(*number) for number in numbers])
    left, right = values[:cut].astype(first), values[cut:].astype(second)
    parts = [part.astype(np.float64) for part in (left, right)]
    facts = [Facts.of(part, str) for part in parts]
    whole = Facts.of(np.concatenate(parts), str)
    assert (facts[0] + facts[1]).decimals == whole.decimals
    assert (facts[0] + facts[1]).step == whole.step


def test_one_value_among_many_decides_wherever_it_stands():
    for odd, expected in ((0.125, 0.001), (1 / 3, 0.0)):
        for place in (0, 1, 777, 4999):
            values = np.arange(5000) / 100
            values[place] = odd
            assert step(values) == expected


def test_gaps_texts_and_infinite_numbers_have_no_decimals():
    columns = [np.array([np.nan, np.inf, 0.25]), np.array(["a", "b", "c"], dtype=object)]
    assert [facts.decimals[0] for facts in Facts.of_columns(columns, str)] == [2, COARSEST]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.arange(50) * 0.82, 0.01),  # 31 · 0.82 is 25.419999999999998
        (np.arange(1000) / 100, 0.01),
        (np.cumsum(np.full(200, 0.1)), 0.0),  # errors that add up are more than rounding
        (np.arange(1000) * 7, 1.0),
        (np.arange(100) * 1500, 100.0),
        (np.tile([100.0, 200.0, 500.0], 100), 1.0),  # too few to call the hundreds a resolution
        (np.tile([0.5, 1.0, 1.5], 100), 0.1),
        (np.random.default_rng(0).normal(size=100), 0.0),
        (np.random.default_rng(0).normal(size=100).astype(np.float32), 0.0),
        (1000 * np.random.default_rng(0).random(100).astype(np.float32), 0.0),
        (np.arange(2000).astype(np.float32) / np.float32(100), 0.01),
        (np.arange(19) / 10, 0.0),
        (np.arange(20) / 10, 0.1),
        (1e15 + np.arange(100), 0.0),  # doubles are too coarse up there to tell
    ],
)
def test_the_step_of_a_column(values, expected):
    assert step(values) == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1.0, 1e3, 1e6, 1e9])
def test_random_numbers_have_no_step_that_is_coarser_than_floats_of_their_size(dtype, size):
    values = (size * (1 + np.random.default_rng(0).random(200))).astype(dtype)
    assert step(values) <= np.spacing(values).min()


def test_the_step_is_the_same_from_every_format(tmp_path):
    values = np.arange(40) * 0.37
    (tmp_path / "t.csv").write_text("x\n" + "\n".join(f"{value:.2f}" for value in values))
    np.save(tmp_path / "t.npy", values.round(2)[:, None])
    np.save(tmp_path / "narrow.npy", values.astype(np.float32)[:, None])
    for name in ("t.csv", "t.npy", "narrow.npy"):
        assert sq.data.read(tmp_path / name).columns[0].step == sq.data.scan(tmp_path / name).columns[0].step
        assert sq.data.read(tmp_path / name).columns[0].step == 0.01


def test_steps_need_evidence():
    assert step_of((2, 2), 19, 19, 1.0) == 0.0
    assert step_of((2, 2), 20, 2, 1.0) == 0.01
    assert step_of((-2, -2), 20, 9, 900.0) == 1.0
    assert step_of((-2, -2), 20, 10, 900.0) == 100.0
    assert step_of((NONE, NONE), 1000, 1000, 1.0) == 0.0
    assert step_of((NONE, 2), 1000, 1000, 1.0) == 0.01
    assert step_of((NONE, 6), 1000, 1000, 900.0) == 0.0


# ------------------------------------------------------------------ what is decoded


@given(st.floats(-1e6, 1e6), st.sampled_from(STEPS))
def test_rounded_numbers_are_the_nearest_multiples_without_noise(value, step):
    exact = Decimal(repr(step))
    result = float(rounded(value, step))
    slack = abs(Decimal(value)) * Decimal(2) ** -52  # of the float that is nearest to the multiple
    assert abs(Decimal(result) - Decimal(value)) <= exact / 2 + slack
    assert Decimal(repr(result)) % exact == 0
    assert repr(result) != "-0.0"


def test_rounding_leaves_gaps_infinities_and_columns_without_a_step():
    values = np.array([np.nan, np.inf, -np.inf, 0.123456789])
    np.testing.assert_array_equal(rounded(values, 0.0), values)
    np.testing.assert_array_equal(rounded(values, 0.01), [np.nan, np.inf, -np.inf, 0.12])
    assert Column("x", "continuous", step=1.0).decode(float("inf")) == float("inf")


def test_samples_are_decoded_with_the_digits_of_the_data_and_whole_numbers_as_integers():
    rng = np.random.default_rng(0)
    data = {"price": rng.integers(326, 9000, 200), "carat": rng.integers(20, 300, 200) / 100}
    model = sq.table_model(table(data), units=2)
    for price, carat in model.schema.decode(model.sample(50, seed=0)):
        assert type(price) is int
        assert repr(carat) == f"{carat:.2f}".rstrip("0").rstrip(".") or carat == int(carat)
    rows = table(data).rows
    assert table(data).decode(rows) == rows.tolist()


def test_observed_cells_are_not_rounded():
    schema = Schema((Column("a", "continuous", step=0.01), Column("b", "continuous", step=1.0)))
    rows, exact = torch.tensor([[0.125, 2.75], [0.125, 3.0]]), torch.tensor([[True, False], [False, True]])
    assert schema.decode(rows, exact=exact) == [[0.125, 3], [0.12, 3]]
    assert type(schema.decode(rows, exact=exact)[1][1]) is int
    assert schema.decode(rows, missing=[False, True], exact=[True, True]) == [[0.125, None], [0.125, None]]


# ------------------------------------------------------------------ what is kept


def test_the_step_is_in_the_description_and_shown():
    schema = table({"x": np.arange(100) / 4}).schema
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    assert schema.columns[0].step == 0.01
    assert "step 0.01" in str(schema)
    assert "step" not in str(table({"x": np.random.default_rng(0).normal(size=100)}).schema)


def test_descriptions_from_before_steps_are_read():
    document = table({"x": np.arange(100) / 4}).schema.to_dict()
    del document["columns"][0]["step"]
    assert Schema.from_dict(document).columns[0].step == 0.0


@pytest.mark.parametrize("wrong", [-0.01, 0.02, float("nan"), "0.01", None, True, [1.0], 10**400])
def test_descriptions_with_a_step_that_is_none_are_refused(wrong):
    document = table({"x": np.arange(100) / 4}).schema.to_dict()
    document["columns"][0]["step"] = wrong
    with pytest.raises(FormatError, match="column 'x': its step is neither 0 nor a power of ten"):
        Schema.from_dict(document)
