"""What goes in comes out: library, types, names, order and index of samples and of completions."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

import squircuit as sq
from squircuit.data.layout import Layout

N = 40
RNG = np.random.default_rng(1)
TEXTS, SMALL, TRUTHS = RNG.choice(["a", "b", "c"], N), RNG.integers(0, 5, N), RNG.random(N) < 0.5
LARGE, FLOATS = RNG.integers(1000, 90000, N), RNG.normal(size=N).round(2)


def pandas_frame():
    frame = pd.DataFrame(
        {
            "t": pd.Categorical(TEXTS, categories=["c", "b", "a", "never"], ordered=True),
            "s": pd.array(SMALL, dtype="Int16"),
            "b": pd.array(TRUTHS, dtype="boolean"),
            "o": pd.Series(TRUTHS.tolist(), dtype=object),
            "w": LARGE.astype("uint32"),
            "f": FLOATS.astype("float32"),
            "u": pd.array(TEXTS, dtype="string"),
        }
    )
    return frame.set_axis([f"row {i}" for i in range(N)])


def polars_frame():
    return pl.DataFrame(
        {"t": TEXTS, "s": SMALL, "b": TRUTHS, "w": LARGE, "f": FLOATS, "e": TEXTS},
        schema={"t": pl.String, "s": pl.UInt8, "b": pl.Boolean, "w": pl.Int32, "f": pl.Float32,
                "e": pl.Enum(["c", "b", "a"])},
    )  # fmt: skip


def arrow_table():
    return pa.table(
        {
            "t": pa.array(TEXTS.tolist()).dictionary_encode(),
            "s": pa.array(SMALL, pa.int8()),
            "b": pa.array(TRUTHS.tolist()),
            "w": pa.array(LARGE, pa.uint32()),
            "f": pa.array(FLOATS, pa.float32()),
        }
    )


def types(frame):
    if isinstance(frame, pa.Table):
        return dict(zip(frame.column_names, frame.schema.types, strict=True))
    return dict(zip(frame.columns, frame.dtypes, strict=True))


FRAMES = {"pandas": pandas_frame, "polars": polars_frame, "pyarrow": arrow_table}


@pytest.mark.parametrize("library", FRAMES)
@pytest.mark.parametrize("is_saved", [False, True])
def test_samples_have_the_library_and_the_types_of_the_frame(library, is_saved, tmp_path):
    frame = FRAMES[library]()
    model = sq.table_model(frame, units=2, size=4, seed=0)
    if is_saved:
        model.save(tmp_path / "m")
        model = sq.load(tmp_path / "m")
    drawn = model.decode(model.sample(30, seed=0))
    assert type(drawn) is type(frame)
    assert types(drawn) == types(frame)
    again = model.schema.encode(drawn)
    expected = model.sample(30, seed=0).double().numpy()
    large = list(types(frame)).index("w")
    expected[:, large] = np.rint(expected[:, large]).clip(0)  # there are no numbers below 0
    np.testing.assert_allclose(again.x, expected, atol=0.0051)
    if library == "pandas":
        assert all(type(cell) is bool for cell in drawn["o"])
        assert list(model.decode(model.sample(N, seed=0), like=frame).index) == list(frame.index)


@pytest.mark.parametrize("library", FRAMES)
@pytest.mark.parametrize("how", ["mean", "mode", "sample"])
def test_imputations_change_the_gaps_of_a_frame_and_nothing_else(library, how):
    whole = FRAMES[library]()
    model = sq.table_model(whole, units=2, size=4, seed=0)
    places = {"t": [0, 5], "s": [1, 5], "b": [2], "f": [3, 5]}
    if library == "pandas":
        gaps = whole.copy()
        for name, rows in places.items():
            gaps.iloc[rows, gaps.columns.get_loc(name)] = None
        gaps["extra"] = [object() for _ in range(N)]
    elif library == "polars":
        gaps = whole.with_columns(
            [
                pl.when(pl.int_range(N).is_in(rows)).then(None).otherwise(pl.col(n)).alias(n)
                for n, rows in places.items()
            ]
        )
    else:
        gaps = whole
        for name, rows in places.items():
            cells = gaps.column(name).to_pylist()
            kept = pa.array(
                [None if i in rows else cell for i, cell in enumerate(cells)],
                gaps.schema.field(name).type if name != "t" else pa.string(),
            )
            kept = kept.dictionary_encode() if name == "t" else kept
            gaps = gaps.set_column(gaps.column_names.index(name), name, kept)
    filled = model.impute(gaps, how=how, seed=None if how != "sample" else 0)
    assert types(filled) == types(gaps)
    numbers = model.impute(*model.schema.encode(gaps), how=how, seed=None if how != "sample" else 0).numpy()
    before, after = (dict(_columns(frame)) for frame in (gaps, filled))
    assert list(before) == list(after)
    for name, cells in before.items():
        rows = places.get(name, [])
        assert [cell for i, cell in enumerate(after[name]) if i not in rows] == [
            cell for i, cell in enumerate(cells) if i not in rows
        ]
        for row in rows:
            v = model.schema.names.index(name)
            column = model.schema.columns[v]
            expected = column.decode(numbers[row, v], exact=how == "mean")
            if name == "f":
                expected = pytest.approx(expected, rel=1e-5)  # in single precision
            assert after[name][row] == expected
    if library == "pandas":
        assert list(filled.index) == list(gaps.index)


def _columns(frame):
    for name in types(frame):
        column = frame.column(name) if isinstance(frame, pa.Table) else frame[name]
        yield name, column.to_pylist() if isinstance(frame, pa.Table) else list(column)


def test_arrays_and_mappings_come_out_as_such():
    array = np.stack([SMALL, FLOATS], axis=1).astype(np.float32)
    model = sq.table_model(array, units=2, size=4, seed=0)
    drawn = model.decode(model.sample(7, seed=0))
    assert (type(drawn), drawn.dtype, drawn.shape) == (np.ndarray, np.float32, (7, 2))
    mapping = {"s": SMALL.astype("int16"), "t": TEXTS.tolist(), "b": TRUTHS.tolist()}
    model = sq.table_model(mapping, units=2, seed=0)
    drawn = model.decode(model.sample(7, seed=0))
    assert {name: cells.dtype.kind + str(cells.dtype.itemsize) for name, cells in drawn.items()} == {
        "s": "i2", "t": "O8", "b": "b1",
    }  # fmt: skip
    assert model.impute({"t": "a", "s": None}, how="mode").keys() == {"t", "s", "b"}


def test_a_table_can_be_made_of_another_library():
    model = sq.table_model(pandas_frame(), units=2, size=4, seed=0)
    x = model.sample(3, seed=0)
    assert type(model.decode(x, like="polars")) is pl.DataFrame
    assert model.decode(x, like="polars")["b"].dtype == pl.Boolean
    assert model.decode(x, like="pyarrow").schema.field("o").type == pa.bool_()
    assert model.decode(x, like="numpy").shape == (3, 7)
    assert types(model.decode(x, like=polars_frame()))["s"] == pl.UInt8
    empty = model.decode(x, missing=["s", "f"], like="polars")
    assert empty["s"].null_count() == empty["f"].null_count() == 3


def test_whole_numbers_stay_in_the_range_of_their_type():
    layout = Layout.of(pd.DataFrame({"n": np.array([0, 250], dtype="uint8")}))
    assert layout.table(["n"], [[-3, 255.4, 999]])["n"].tolist() == [0, 255, 255]


def test_a_layout_that_a_file_describes_names_types_only():
    hostile = {"library": "polars", "types": {"n": "show_versions", "m": "UInt8"}}
    made = Layout.from_dict(hostile).table(["n", "m"], [[1], [2]])
    assert made.schema == {"n": pl.Int64, "m": pl.UInt8}
    for wrong in ({"library": "os", "types": {}}, {"library": "pandas", "types": [1]}, {"library": "pandas"}):
        with pytest.raises(sq.errors.FormatError, match="not the description of a schema"):
            sq.data.Schema.from_dict({"columns": [], "layout": wrong})


def test_a_mask_of_torch_and_gaps_of_a_frame_add_up():
    frame = polars_frame()
    model = sq.table_model(frame, units=2, size=4, seed=0)
    mask = torch.zeros(N, 6, dtype=torch.bool)
    mask[:, 3] = True
    assert torch.equal(model.log_prob(frame, missing=mask), model.log_prob(frame.drop("w")))
