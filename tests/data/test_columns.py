"""Types of columns: inferred, shown, overridden, and the input functions that suit them."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import squircuit as sq
from squircuit.data import Column, Schema, read
from squircuit.data.columns import FAR
from squircuit.data.infer import Facts
from squircuit.data.schema import Chunk
from squircuit.errors import DataError, ParameterError


def test_types_are_inferred_shown_and_overridden(mixed):
    path = mixed
    table = read(path, columns={"angle": "periodic:360"})
    assert [c.kind for c in table.columns] == ["categorical", "count", "continuous", "periodic", "continuous"]
    np.testing.assert_array_equal(
        table.rows,
        [[2, 3, 1.5, 350, 70], [0, 0, np.nan, 10, 65.5], [0, 1, 2.25, 20, np.nan], [1, 7, -1, 330, 80]],
    )
    np.testing.assert_array_equal(np.argwhere(table.missing), [[1, 2], [2, 0], [2, 4]])
    text = str(table)
    assert "4 rows, 5 columns" in text
    assert re.search(r"colour +categorical +3 +blue, green, red +1", text)
    assert re.search(r"angle +periodic +– +0 … 360 \(periodic\)", text)
    other = read(path, columns={"n": "continuous", "colour": "drop", "height": "categorical"})
    assert [c.kind for c in other.columns] == ["continuous", "categorical", "continuous", "continuous"]
    assert [c.name for c in read(path, columns=["height", "n"]).columns] == ["height", "n"]


def test_functions_of_a_column_reach_its_outliers_so_that_no_row_seen_has_probability_zero():
    generator = np.random.default_rng(0)
    column = np.append(generator.normal(size=400), [25.0, -40.0])
    rows = np.stack([column, generator.permutation(column)], axis=1)
    observed = sq.data.table(rows, {"0": "continuous", "1": "continuous"})
    for family in observed.families(size=8):
        assert family.loc == pytest.approx(column.mean())
        assert family.scale == pytest.approx((column.mean() + 40) / 10)
    scores = sq.table_model(observed).log_prob(torch.from_numpy(observed.rows))
    assert torch.isfinite(scores).all()


def test_families_suit_the_columns_and_make_a_normalised_model(mixed):
    table = read(mixed, columns={"angle": "periodic:360"})
    families = table.families(size=6)
    assert [type(f).__name__ for f in families] == [
        "Categorical",
        "Categorical",
        "Hermite",
        "Fourier",
        "Hermite",
    ]
    assert [f.size for f in families] == [3, 8, 6, 7, 6]
    weights = [70, 65.5, 80]
    assert families[4].loc == pytest.approx(np.mean(weights))
    assert families[4].scale == pytest.approx(np.std(weights))
    assert families[3].domain == sq.families.Interval(0, 360)
    model = sq.SquaredCircuit(sq.build(sq.regions.balanced_tree(5), families, units=2), seed=0)
    scores = model.log_prob(torch.from_numpy(table.rows), missing=torch.from_numpy(table.missing))
    assert torch.isfinite(scores).all()
    samples = model.sample(5, seed=0)
    np.testing.assert_allclose(table.encode(table.decode(samples)).x, samples, rtol=1e-6)
    np.testing.assert_array_equal(
        table.decode(samples, missing=torch.tensor([True] * 5)), np.full((5, 5), None)
    )


@pytest.mark.parametrize("name", ["legendre", "fourier"])
def test_other_families_contain_the_data(mixed, name):
    table = read(mixed)
    family = table.families(size=4, continuous=name)[2]
    assert type(family).__name__.lower() == name
    assert family.domain.low < -1
    assert family.domain.high > 2.25
    own = table.families(continuous=lambda column: sq.Laguerre(3, start=column.low))
    assert own[2] == sq.Laguerre(3, start=-1.0)
    with pytest.raises(ParameterError, match="'splines' is unknown"):
        table.families(continuous="splines")


@pytest.mark.parametrize(
    ("cells", "kind", "size"),
    [
        ("0 1 1", "binary", 2),
        ("1 2 1", "binary", 2),
        ("a b a", "binary", 2),
        ("a b c", "categorical", 3),
        ("0 5 9", "count", 10),
        ("-3 5 9", "count", 13),
        ("1990 2000 2020", "count", 31),
        ("0 5 999", "continuous", 0),
        ("0.5 5 9", "continuous", 0),
        ("0.5 1.5 ?", "continuous", 0),
    ],
)
def test_the_rules_of_inference(write, cells, kind, size):
    (column,) = read(write("x\n" + cells.replace(" ", "\n") + "\n")).columns
    assert (column.kind, column.size) == (kind, size)


def test_a_column_that_is_constant_is_kept_with_a_warning_and_scores_one(write):
    path = write("a,b,c\n1,2,x\n5,2,x\n7,2,x\n")
    with pytest.warns(UserWarning, match="constant columns: b, c"):
        table = read(path)
    assert [f.size for f in table.families()] == [8, 1, 1]
    with pytest.raises(DataError, match=r"row 0, column 'b': unknown category 3\.0; known are 2"):
        table.encode([[1, 3, "x"]])
    with pytest.raises(DataError, match=r"column 'b': constant \(2\), so it has no density"):
        read(path, columns={"b": "continuous", "c": "drop"})


@given(st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=5), st.floats(0.1, 100), st.floats(-50, 50))
def test_periodic_columns_wrap_by_whole_periods(values, period, start):
    column = Column("angle", "periodic", low=start, high=start + period)
    wrapped, _ = column.encode(np.array(values), str)
    assert (wrapped >= column.low).all()
    assert (wrapped < column.high).all()
    turns = (np.array(values) - wrapped) / (column.high - column.low)
    np.testing.assert_allclose(turns, np.round(turns), atol=1e-7)


@given(
    rows=st.lists(
        st.lists(
            st.sampled_from([0.0, 1.0, 2.0, -3.5, 1e31, math.nan, math.inf, -math.inf]),
            min_size=4,
            max_size=4,
        ),
        min_size=1,
        max_size=70,
    )
)
def test_facts_of_columns_together_are_those_of_each_alone(rows):
    columns = list(np.array(rows).T)
    texts = [np.array([str(v) for v in column], dtype=object) for column in columns]
    everything = [*columns, *texts, np.array(["a", *texts[0][1:]], dtype=object)]
    together = Facts.of_columns(everything, str)
    assert together == [Facts.of(cells, str) for cells in everything]
    for cells, facts in zip(columns, together, strict=False):
        known = cells[np.isfinite(cells)]
        assert facts.missing == np.isnan(cells).sum()
        assert facts.numbers == facts.count == len(cells) - facts.missing
        assert facts.distinct == {v for v in cells.tolist() if not math.isnan(v)}
        assert (facts.farthest is not None) == bool((known > FAR).any())
        if len(known):
            assert (facts.low, facts.high) == (known.min(), known.max())
            assert facts.mean == pytest.approx(known.mean())
            assert facts.squares == pytest.approx(((known - known.mean()) ** 2).sum())
            assert facts.integral == bool((known == np.floor(known)).all())


@given(data=st.data())
def test_rows_encoded_at_once_are_those_encoded_column_by_column(data):
    kinds = [
        Column("a", "count", low=2, high=5),
        Column("b", "categorical", (7,)),
        Column("c", "binary", (3, 4)),
        Column("d", "continuous"),
        Column("e", "categorical", (1.5,)),
        Column("f", "categorical", (0, 2)),
        Column("g", "binary", (-math.inf, 1)),
    ]
    schema = Schema(tuple(data.draw(st.lists(st.sampled_from(kinds), min_size=1, unique=True))))
    value = st.sampled_from([2.0, 3.0, 4.0, 7.0, 1.5, 0.0, -0.0, math.nan, math.inf])
    cells = [np.array(data.draw(st.lists(value, min_size=3, max_size=3))) for _ in schema.columns]
    chunk = Chunk(schema.names, tuple(cells), str)
    quick = schema.encode_numbers(np.stack(cells, axis=1))
    if quick is not None:
        slow = [column.encode(each, str) for column, each in zip(schema.columns, cells, strict=True)]
        discrete = all(column.is_discrete for column in schema.columns)
        assert quick.x.dtype == (np.int64 if discrete else np.float64)
        np.testing.assert_array_equal(quick.x, np.stack([values for values, _ in slow], axis=1))
        np.testing.assert_array_equal(quick.missing, np.stack([missing for _, missing in slow], axis=1))
    elif not {"f", "g"} & set(schema.names):
        with pytest.raises(DataError):
            schema.encode_chunk(chunk)
