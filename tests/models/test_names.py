"""Questions in the words of a table have the answers that they have in its numbers."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

import squircuit as sq

RNG = np.random.default_rng(0)
N = 60
FRAME = pd.DataFrame(
    {
        "season": RNG.choice(["winter", "summer", "spring"], N),
        "warm": RNG.random(N) < 0.5,
        "guests": RNG.integers(3, 9, N),
        "wind": np.round(RNG.normal(10, 4, N), 1),
    },
    index=np.arange(N) + 1000,
)
FRAME.loc[1002, "wind"] = np.nan
FRAME.loc[1003, "season"] = None
TYPES = {"guests": "count:3:8"}
TABLE = sq.data.table(FRAME, TYPES)
MODEL = sq.table_model(TABLE, units=2, size=4, seed=0).eval()
X, GAPS = torch.from_numpy(TABLE.rows), torch.from_numpy(TABLE.missing)
SHUFFLED = FRAME[["wind", "guests", "season", "warm"]]


@pytest.mark.parametrize(
    "given",
    [
        FRAME,
        SHUFFLED,
        FRAME.assign(id=range(N)),
        pl.from_pandas(FRAME),
        pa.Table.from_pandas(FRAME, preserve_index=False),
        {name: FRAME[name].tolist() for name in reversed(FRAME.columns)},
        FRAME.to_dict("records"),
        TABLE,
        sq.data.table(SHUFFLED.assign(guests=FRAME["guests"] + 0.0), {"guests": "count:0:20"}),
        TABLE.cells,
    ],
    ids=["pandas", "other order", "more columns", "polars", "arrow", "mapping", "records", "table",
         "table with other codes", "rows"],
)  # fmt: skip
def test_rows_with_names_have_the_density_of_their_numbers(given):
    assert torch.equal(MODEL.log_prob(given), MODEL.log_prob(X, GAPS))
    assert torch.equal(MODEL.component_log_prob(given), MODEL.component_log_prob(X, GAPS))


def test_columns_that_are_not_there_are_marginalised():
    hidden = torch.tensor([True, False, False, True])
    expected = MODEL.log_prob(X, GAPS | hidden)
    assert torch.equal(MODEL.log_prob(FRAME[["guests", "warm"]]), expected)
    assert torch.equal(MODEL.log_prob(FRAME, missing=["season", "wind"]), expected)
    assert torch.equal(MODEL.log_prob(X, GAPS | torch.as_tensor(hidden)), expected)
    flags = pd.DataFrame({"season": [True] * N, "warm": False, "wind": True})
    assert torch.equal(MODEL.log_prob(FRAME, missing=flags), expected)
    assert torch.equal(MODEL.log_prob({}), torch.zeros(1)) or abs(MODEL.log_prob({}).item()) < 1e-5


def test_conditionals_by_names_are_those_by_numbers():
    by_name = MODEL.log_conditional(FRAME, of=["wind", "guests"], given="season")
    assert torch.equal(by_name, MODEL.log_conditional(_with_nan(), of=[3, 2], given=_shown([0])))
    assert torch.equal(MODEL.log_conditional(FRAME, of=["warm"]), MODEL.log_conditional(_with_nan(), of=[1]))


def _with_nan():
    """The rows, in which the one missing category is any: it is never asked for."""
    return torch.where(GAPS & torch.tensor([False, False, False, True]), torch.nan, X)


def _shown(variables):
    mask = torch.zeros(N, 4, dtype=torch.bool)
    mask[:, variables] = True
    return mask & ~GAPS


WINTERS = ({"season": "winter"}, [{"season": "winter"}], pl.DataFrame({"season": ["winter"]}))


@pytest.mark.parametrize("winter", WINTERS)
def test_all_questions_take_evidence_by_name(winter):
    x = torch.tensor([[2.0, 0, 0, 0]], dtype=torch.float64)
    hidden = torch.tensor([False, True, True, True])
    evidence = (x, hidden)
    assert TABLE.schema.columns[0].categories[2] == "winter"
    assert torch.equal(
        MODEL.sample(5, given=winter, seed=1), MODEL.sample(5, given=x, missing=hidden, seed=1)
    )
    named, numbered = MODEL.marginals(winter), MODEL.marginals(*evidence)
    assert torch.equal(named.values["warm"], numbered.values[1])
    assert torch.equal(named.values[3], numbered.values[3])
    assert torch.equal(named.mode("guests"), numbered.mode(2))
    assert torch.equal(named.quantiles("wind", [0.1, 0.5]), numbered.quantiles(3, [0.1, 0.5]))
    assert torch.equal(MODEL.mean(winter), MODEL.mean(*evidence))
    assert torch.equal(MODEL.variance(winter), MODEL.variance(*evidence))
    assert torch.equal(MODEL.moments(2, winter), MODEL.moments(2, *evidence))
    functions = {"wind": torch.square, "warm": torch.exp}
    expected = MODEL.expectation({3: torch.square, 1: torch.exp}, *evidence)
    assert torch.equal(MODEL.expectation(functions, winter), expected)
    grid = torch.linspace(0, 20, 5)
    assert torch.equal(
        MODEL.marginals(winter, grid={"wind": grid}).values["wind"],
        MODEL.marginals(*evidence, grid={3: grid}).values[3],
    )


def test_a_conditional_distribution_takes_values_by_name():
    rest, plain = (
        MODEL.given({"season": "winter"}),
        MODEL.given([[2.0, 0, 0, 0]], torch.tensor([0, 1, 1, 1]).bool()),
    )
    nan = torch.nan
    found = rest.log_prob({"warm": [True, False], "wind": [10.0, None]})
    joint = MODEL.log_prob({"season": "winter", "warm": [True, False], "wind": [10.0, None]})
    torch.testing.assert_close(found, joint - MODEL.log_prob({"season": "winter"}))
    assert torch.equal(rest.marginals().values["warm"], plain.marginals().values[1])
    one = rest.log_prob({"warm": True, "guests": 4, "wind": None})
    assert torch.equal(one, plain.log_prob(torch.tensor([[2.0, 1.0, 1.0, nan]], dtype=torch.float64)))
    assert rest.expand(torch.Size([2])).log_prob({"warm": [True, True]}).shape == (2,)


def test_distribution_of_a_model_takes_frames():
    torch.testing.assert_close(MODEL.distribution().log_prob(FRAME), MODEL.log_prob(FRAME))


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: MODEL.log_prob({"saeson": "winter"}),
         "the model has no column 'saeson'. Fix: did you mean 'season'?"),
        (lambda: MODEL.log_prob(FRAME.rename(columns={"wind": "wnid"})),
         "the model has no column 'wnid'. Fix: did you mean 'wind'?"),
        (lambda: MODEL.log_prob(pd.DataFrame(X.numpy())),
         "the model has none of the columns 0, 1, 2, 3. Fix: name them as the model does, season, warm, "
         "guests, wind, or pass an array of numbers."),
        (lambda: MODEL.given({"season": "wintr"}),
         "row 0, column 'season': unknown category 'wintr'; known are 'spring', 'summer', 'winter'. Fix:"),
        (lambda: MODEL.mean({"guests": [4, 99]}),
         "row 1, column 'guests': 99 is not one of the integers 3 to 8. Fix:"),
        (lambda: MODEL.mean({"wind": "strong"}), "row 0, column 'wind': 'strong' is not a number. Fix:"),
        (lambda: MODEL.log_conditional(FRAME, of=["wram"]),
         "of: the model has no column 'wram'. Fix: did you mean 'warm'?"),
        (lambda: MODEL.log_conditional({"season": "winter"}, of=["warm"]),
         "the data has no column 'warm', which of= asks for. Fix: add it, or ask for others."),
        (lambda: MODEL.log_prob(FRAME, missing="wnd"),
         "missing: the model has no column 'wnd'. Fix: did you mean 'wind'?"),
        (lambda: MODEL.expectation({"wid": torch.exp}),
         "functions: the model has no column 'wid'. Fix: did you"),
        (lambda: MODEL.marginals(grid={"wid": [0.0]}), "grid: the model has no column 'wid'. Fix: did you"),
        (lambda: MODEL.marginals({"warm": True}).values["warm"],
         "column 'warm' is observed in all rows. Fix: mark it in missing="),
        (lambda: MODEL.marginals().values["cold"], "the model has no column 'cold'. Fix: pass one of season"),
        (lambda: MODEL.decode(X, like="excel"),
         "like='excel' is no kind of table. Fix: pass a data frame, or one of"),
    ],
)  # fmt: skip
def test_errors_name_the_column_the_value_and_the_fix(ask, said):
    with pytest.raises(sq.SquircuitError) as caught:
        ask()
    assert str(caught.value).startswith(said)
    assert caught.value.fix


def test_a_model_without_names_says_so_and_takes_numbers_as_before():
    plain = sq.SquaredCircuit(MODEL.circuit())
    assert torch.equal(plain.log_prob(X, GAPS), MODEL.log_prob(X, GAPS))
    assert torch.equal(plain.log_prob(TABLE), MODEL.log_prob(X, GAPS))
    asks = (
        lambda: plain.log_prob({"warm": True}),
        lambda: plain.log_conditional(X, of="warm"),
        lambda: plain.decode(X),
    )
    for ask in asks:
        with pytest.raises(sq.SquircuitError, match=r"model has no names of columns.*Fix: .*schema"):
            ask()
    with pytest.raises(sq.ParameterError, match=r"missing=\['warm'\] is no mask. Fix:"):
        plain.log_prob(X, missing=["warm"])


def test_numbers_pass_as_they_are():
    frame = pd.DataFrame({"a": [0.0, 1.0]})
    plain = sq.SquaredCircuit(sq.build(sq.regions.linear(1), sq.Categorical(2), units=1))
    assert torch.equal(plain.log_prob(frame), plain.log_prob([[0], [1]]))
    codes = MODEL.sample(4, seed=0)
    assert torch.equal(MODEL.log_prob(codes.numpy()), MODEL.log_prob(codes))
    assert torch.equal(MODEL.log_prob(codes.tolist()), MODEL.log_prob(codes))


def test_leaves_of_drawings_have_the_names_of_columns():
    for drawn in (MODEL.draw(), sq.regions.linear(4).draw(MODEL.schema.names)):
        assert all(f">{name}<" in drawn for name in FRAME.columns)
        assert "x0" not in drawn
    assert ">x0<" in MODEL.structure.draw()


def test_names_are_kept_in_files(tmp_path):
    MODEL.save(tmp_path / "m.safetensors")
    again = sq.load(tmp_path / "m.safetensors")
    assert torch.equal(again.log_prob(FRAME), MODEL.log_prob(FRAME))
    pd.testing.assert_frame_equal(again.decode(X, GAPS), MODEL.decode(X, GAPS))
