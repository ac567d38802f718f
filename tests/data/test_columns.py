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
from squircuit.data.column_facts import Facts
from squircuit.data.columns import FAR
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


# ------------------------------------------------------------------ what real tables hold


def test_few_rows_of_many_counts_are_numbers_and_many_rows_are_states():
    rng = np.random.default_rng(0)
    few = sq.data.table({"magnesium": rng.integers(70, 163, 178)}).columns[0]
    assert few.kind == "continuous"
    assert few.step == 1.0
    assert few.least is None
    assert sq.data.table({"magnesium": rng.integers(70, 163, 2000)}).columns[0].size == 163
    assert sq.data.table({"children": rng.poisson(2, 30)}).columns[0].kind == "count"


@given(st.floats(0.5, 3), st.integers(0, 2**20))
def test_samples_keep_to_the_bounds_that_a_density_would_cross(width, seed):
    rng = np.random.default_rng(seed)
    share = rng.beta(0.7, 0.7, 200)
    cells = {"amount": np.exp(width * rng.normal(size=200)), "percent": 100 * share, "share": share}
    amount, percent, share = sq.data.table(cells).columns
    assert (amount.least, amount.most) == (0.0, None)
    assert (percent.least, percent.most, share.least, share.most) == (0.0, 100.0, 0.0, 1.0)
    beyond = rng.normal(50, 500, 100)
    assert percent.rounded(beyond).min() >= 0
    assert percent.rounded(beyond).max() <= 100
    tall = sq.data.table({"height": rng.normal(170, 10, 200)}).columns[0]
    assert tall.least is None
    assert tall.most is None


def test_a_value_that_many_rows_share_is_drawn_exactly_and_as_often():
    rng = np.random.default_rng(0)
    rain = np.where(rng.random(1500) < 0.92, 0.0, rng.exponential(3.0, 1500))
    frame = {"rain": rain, "warm": rng.normal(size=1500) + (rain > 0)}
    model = sq.learn(frame, minutes=0.05, progress=False)
    drawn = model.decode(model.sample(4000, seed=0))["rain"]
    assert (drawn >= 0).all()
    assert (drawn == 0).mean() == pytest.approx((rain == 0).mean(), abs=0.03)


def test_rare_texts_share_a_state_with_those_that_were_never_seen():
    rng = np.random.default_rng(0)
    texts = np.concatenate([[f"once {i}" for i in range(30)], rng.choice(["a", "b", "c"], 270)])
    table = sq.data.table({"text": texts, "size": rng.normal(size=300)})
    column = table.columns[0]
    assert column.categories == ("a", "b", "c")
    assert column.pooled == 30
    assert column.size == 4
    assert "and 30 rare ones together" in str(table.schema)
    assert (table.rows[:30, 0] == 3).all()
    seen = table.encode({"text": ["once 7", "never", None, "b"], "size": [0.0] * 4})
    assert seen.x[:, 0].tolist() == [3, 3, 0, 1]
    assert seen.missing[:, 0].tolist() == [
        False,
        False,
        True,
        False,
    ]
    assert column.decode(3) == "(other)"
    model = sq.learn(table, minutes=0.02, progress=False)
    shares = model.marginals().values["text"][0]
    assert shares[3].item() == pytest.approx(0.1, abs=0.05)
    assert shares.sum().item() == pytest.approx(1)
    assert Schema.from_dict(table.schema.to_dict()) == table.schema


def test_high_cardinality_texts_keep_their_frequent_values():
    rng = np.random.default_rng(0)
    texts = np.array([f"t{i}" for i in np.minimum(rng.zipf(1.3, 5000), 3000)])
    column = sq.data.table({"text": texts}).columns[0]
    assert column.size <= 256
    assert column.pooled == len(set(texts)) - len(column.categories)
    assert sq.data.table({"text": texts}, {"text": "categorical:20"}).columns[0].size == 20
    with pytest.raises(DataError, match="seems to hold names or dates"):
        sq.data.table({"text": [f"n{i}" for i in range(300)]})


def test_ordered_categories_come_from_the_frame_or_from_the_user():
    polars = pytest.importorskip("polars")
    order = ["low", "mid", "high", "never"]
    frame = polars.DataFrame({"n": ["high", "low", "mid"] * 5}, schema={"n": polars.Enum(order)})
    column = sq.data.table(frame).columns[0]
    assert column.categories == tuple(order)
    assert column.ordered
    assert column.family().ordered
    wished = sq.data.table({"n": ["high", "low", "mid"]}, {"n": "ordered:low,mid,high"}).columns[0]
    assert wished.categories == ("low", "mid", "high")
    assert "low < mid < high" in str(Schema((wished,)))
    with pytest.raises(DataError, match="the value 'mid' is not among those of 'ordered:low,high'"):
        sq.data.table({"n": ["high", "low", "mid"]}, {"n": "ordered:low,high"})


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ("positive", "its numbers are -1 to 3, but it is read as positive"),
        ("bounded:0:2", "but it is read as bounded:0:2"),
        ("bounded:2", "Fix: write 'bounded:LOW:HIGH'"),
        ("ordered:a", "Fix: write 'ordered:LOW,MIDDLE,HIGH'"),
    ],
)
def test_a_type_that_does_not_fit_is_one_clear_error(wish, words):
    with pytest.raises((DataError, ParameterError), match=words):
        sq.data.table({"a": [-1.0, 0.5, 3.0]}, {"a": wish})
