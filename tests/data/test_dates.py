"""Dates and times: the parts that a model sees, the forms in which they are written, and the way back."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import squircuit as sq
from squircuit.data import Schema
from squircuit.data.calendar import Calendar
from squircuit.data.columns import Column
from squircuit.errors import DataError, FormatError, ParameterError

FORMS = ("%Y-%m-%d", "%d.%m.%Y", "%Y/%m/%d %H:%M", "%Y-%m-%dT%H:%M:%S", "%d %b %Y %H:%M:%S", "%H:%M")
TIMES = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1))


def texts(form, count=60, seed=0):
    rng = np.random.default_rng(seed)
    start = dt.datetime(2021, 1, 1)
    times = [start + dt.timedelta(minutes=int(m)) for m in rng.integers(0, 3 * 365 * 24 * 60, count)]
    return np.array([time.strftime(form) for time in times], dtype=object)


@given(st.integers(1900, 2100), st.integers(1, 12), st.integers(0, 6), st.integers(1, 4), st.integers(1, 5))
def test_whatever_a_model_draws_is_a_day_that_has_these_parts_and_no_other_day_has_them(
    year, month, weekday, of_4, of_5
):
    days = np.arange("2023-01-01", "2026-01-01", dtype="M8[D]")
    found = Calendar.of("day", days, "date")
    names = {
        "year": year,
        "month": month,
        "weekday": ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[weekday],
        "week_of_4": of_4,
        "week_of_5": of_5,
    }
    (day,) = found.join({f"day.{part}": [value] for part, value in names.items()})
    assert (day.year, day.month, day.weekday()) == (year, month, weekday)
    same = [d for d in range(1, 32) if _weekday(year, month, d) == weekday]
    assert same.index(day.day) + 1 == (of_4 if len(same) == 4 else of_5)


def _weekday(year, month, day):
    try:
        return dt.date(year, month, day).weekday()
    except ValueError:
        return None


@pytest.mark.parametrize("seed", [0, 1])
def test_the_probabilities_of_all_days_are_one_together(seed):
    rng = np.random.default_rng(seed)
    some = np.arange("2020-01-01", "2023-01-01", dtype="M8[D]")[rng.integers(0, 1096, 200)]
    table = sq.data.table({"day": some, "open": rng.random(200) < 0.5})
    (found,) = table.schema.calendars
    first, last = found.years
    assert (first, last) == (2010, 2032)
    every = np.arange(f"{first}-01-01", f"{last + 1}-01-01", dtype="M8[D]")
    model = sq.model_for(table, units=3, seed=seed)  # of random weights, so that no state is improbable
    total = model.double().log_prob({"day": every}).exp().sum().detach()
    assert float(total) == pytest.approx(1, abs=1e-9)
    given = model.log_conditional({"day": every, "open": True}, of=["day"], given=["open"]).detach()
    assert float(given.exp().sum()) == pytest.approx(1, abs=1e-9)


def test_days_have_no_entropy_as_variables_of_which_they_have_one_alone():
    days = np.arange("2021-01-01", "2021-12-01", dtype="M8[D]")
    model = sq.table_model({"day": days, "x": np.arange(len(days)) % 5}, units=2, seed=0)
    with pytest.raises(ParameterError, match=r"column 'day' is one of four or .* Fix: ask about others of"):
        model.entropy(["day"])
    assert model.entropy(["day.month", "day.weekday"]).value > 0


def test_calendars_of_earlier_files_are_read_and_answer_as_they_did():
    days = np.arange("2021-01-01", "2023-01-01", dtype="M8[D]")
    table = sq.data.table({"day": days})
    old = Column("day.week", "categorical", (1, 2, 3, 4, 5))
    document = Schema((*table.columns[:-2], old), calendars=table.schema.calendars).to_dict()
    (entry,) = document["calendars"]
    entry |= {"parts": ("year", "month", "weekday", "week"), "years": None}
    before = Schema.from_dict(document)
    rows = before.encode({"day": days}).x
    assert (rows[:, 3] == (days - days.astype("M8[M]")).astype(int) // 7).all()
    assert [row[0] for row in before.decode(rows)] == days.tolist()


@given(st.lists(TIMES, min_size=2, max_size=20))
def test_times_become_parts_and_the_same_times_again(times):
    cells = np.array(times, dtype="M8[us]")
    found = Calendar.of("t", cells, "datetime")
    if not found.parts:
        return
    parts = found.split(cells)
    decoded = {name: list(column) for name, column in parts.items()}
    again = np.array(found.join(decoded), dtype="M8[us]")
    assert (abs(again - cells) <= np.timedelta64(1, "us")).all()
    weekdays = parts.get("t.weekday", [])
    assert list(weekdays) == [time.strftime("%a") for time in times][: len(weekdays)]


@pytest.mark.parametrize("form", FORMS)
def test_texts_of_any_usual_form_are_read_and_written_as_they_were(form):
    cells = texts(form)
    table = sq.data.table({"when": cells, "x": np.arange(60.0)})
    (found,) = table.schema.calendars
    assert found.form == form
    assert [row[0] for row in table.decode(table.rows)] == cells.tolist()
    assert table.schema.table_names == ("when", "x")
    again = Schema.from_dict(table.schema.to_dict())
    assert again == table.schema
    np.testing.assert_array_equal(again.encode({"when": cells, "x": np.arange(60.0)}).x, table.rows)


@pytest.mark.parametrize("suffix", ["Z", "+02:00"])
def test_offsets_are_kept_and_several_become_that_of_greenwich(suffix):
    cells = [f"{text}{suffix}" for text in texts("%Y-%m-%dT%H:%M:%S")]
    table = sq.data.table({"when": cells})
    assert [row[0] for row in table.decode(table.rows)] == cells
    mixed = ["2024-01-01T00:30:00+02:00", "2024-01-02T12:00:00Z"]
    both = sq.data.table({"when": mixed})
    assert [row[0] for row in both.decode(both.rows)] == ["2023-12-31T22:30:00Z", "2024-01-02T12:00:00Z"]


def test_a_blank_before_the_clock_is_as_good_as_a_t():
    cells = texts("%Y-%m-%d %H:%M:%S").tolist()
    table = sq.data.table({"t": [*cells, cells[0].replace(" ", "T")]})
    assert table.schema.calendars[0].form == "%Y-%m-%d %H:%M:%S"
    np.testing.assert_array_equal(table.rows[-1], table.rows[0])


def test_only_what_varies_is_a_variable_and_the_rest_comes_back():
    def parts(cells):
        return sq.data.table({"t": np.array(cells, dtype="M8[D]")}).schema.calendars[0].parts

    days = np.arange("2023-01-01", "2024-01-01", dtype="M8[D]")
    assert parts(days) == ("month", "weekday", "week_of_4", "week_of_5")
    assert parts(days[::7]) == ("month", "week_of_4", "week_of_5")  # always the same weekday
    assert parts(["2022-03-01", "2022-04-01", "2023-04-01"]) == ("year", "month")
    ends = np.arange("2023-02", "2024-03", dtype="M8[M]").astype("M8[D]") - 1
    assert parts(ends) == ("year", "month")  # the last of each month
    table = sq.data.table({"t": ends})
    assert [row[0] for row in table.decode(table.rows)] == ends.tolist()


def test_a_column_of_one_date_is_a_constant_and_one_of_durations_is_refused():
    with pytest.warns(sq.errors.SquircuitWarning, match="constant"):
        table = sq.data.table({"t": np.array(["2024-02-29"] * 3, dtype="M8[D]"), "x": [1.0, 2.5, 3.0]})
    assert table.columns[0].categories == ("2024-02-29",)
    with pytest.warns(sq.errors.SquircuitWarning, match="constant"):
        assert (
            sq.data.table({"t": ["1.2.2024"] * 3, "x": [1.0, 2.5, 3.0]}, {"t": "date"}).columns[0].size == 1
        )
    with pytest.raises(DataError, match="column 't' holds durations"):
        sq.data.table({"t": np.array([1, 2], dtype="m8[s]")})


def test_models_learn_weekdays_and_seasons_and_answer_by_name():
    rng = np.random.default_rng(0)
    days = np.arange("2021-01-01", "2024-01-01", dtype="M8[D]")
    weekday = (days.astype(int) + 3) % 7
    month = days.astype("M8[M]").astype(int) % 12
    guests = rng.poisson(np.where(weekday >= 5, 12, 3)).clip(0, 30)
    warm = 10 - 12 * np.cos(2 * np.pi * month / 12) + rng.normal(size=len(days))
    frame = {"day": days, "guests": guests, "warm": warm}
    model = sq.model_for(frame, units=4, seed=0)
    sq.fit(model, frame, epochs=12, progress=False, seed=0)
    model.eval()
    given = {"day": np.array(["2023-07-15", "2023-07-18", "2023-01-14"], dtype="M8[D]")}
    mean = dict(zip(model.schema.names, model.mean(given).T.tolist(), strict=True))
    assert mean["guests"][0] > 8 > 5 > mean["guests"][1]
    assert mean["warm"][0] > 15 > 5 > mean["warm"][2]
    busy = model.marginals({"guests": 14}).values["day.weekday"][0]
    assert busy[5:].sum() > 0.7
    asked = {"day": "2023-07-15", "warm": 20.0}
    assert model.log_conditional(asked, of=["day"], given=["warm"]).shape == (1,)
    assert model.given({"day.month": 7}).marginals().mean[0, -1] > 15
    drawn = model.decode(model.sample(400, given={"guests": 14}, seed=0))
    assert drawn["day"].dtype == np.dtype("M8[D]")
    assert (((drawn["day"].astype(int) + 3) % 7) >= 5).mean() > 0.7
    filled = model.impute({"guests": 14, "day": None, "warm": 22.0})
    assert isinstance(filled["day"], dt.date)
    assert filled["day"].month in (6, 7, 8)
    with pytest.raises(ParameterError, match=r"column 'day' is several variables\. Fix: ask about day\.year"):
        model.quantiles("day", [0.5])


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_frames_of_times_come_back_with_their_types(library, zone, tmp_path):
    from zoneinfo import ZoneInfo

    start = dt.datetime(2023, 3, 1, tzinfo=None if zone is None else ZoneInfo(zone))
    times = [start + dt.timedelta(hours=17 * i) for i in range(60)]
    times[7] = None
    columns = {"t": times, "n": [i % 3 for i in range(60)]}
    if library == "pandas":
        frame = pytest.importorskip("pandas").DataFrame(columns)
    elif library == "polars":
        frame = pytest.importorskip("polars").DataFrame(columns)
    else:
        frame = pytest.importorskip("pyarrow").table(columns)
    model = sq.table_model(frame, units=2, seed=0)
    model.save(tmp_path / "m")
    for each in (model, sq.load(tmp_path / "m")):
        drawn = each.decode(each.sample(5, seed=0))
        assert type(drawn) is type(frame)
        assert str(_kind(drawn)) == str(_kind(frame))
        filled = each.impute(frame)
        assert str(_kind(filled)) == str(_kind(frame))
        assert _cells(filled)[:7] == _cells(frame)[:7]
        assert _cells(filled)[7] is not None
        assert each.log_prob(frame).isfinite().all()


def _kind(frame):
    return frame.schema.field("t").type if hasattr(frame, "column_names") else frame["t"].dtype


def _cells(frame):
    return frame["t"].to_pylist() if hasattr(frame, "column_names") else list(frame["t"])


@pytest.mark.parametrize(
    ("cells", "wish", "words"),
    [
        (["01/02/2024", "03/04/2024"], None, r"nobody can tell which .* Fix: say .*date:%d/%m/%Y"),
        (
            [f"2024-01-{d}" for d in range(10, 32)] + ["2024-02-30"],
            None,
            r"column 't': '2024-02-30' is no date as '2024-12-31'",
        ),
        (["red", "blue"], "date", "'red' is no date in a form that is known. Fix: name the form of strftime"),
        (["31.12.2024", "1.1.2025"], "date:%Y-%m-%d", "'31.12.2024' is no date as '2024-12-31'"),
    ],
)
def test_what_is_no_date_is_one_clear_line(cells, wish, words):
    with pytest.raises(DataError, match=words):
        sq.data.table({"t": cells}, None if wish is None else {"t": wish})


def test_new_times_that_no_parts_give_are_refused_and_the_next_years_are_not():
    days = np.arange("2021-01-01", "2023-01-01", dtype="M8[D]")
    model = sq.table_model({"t": days, "x": np.arange(len(days)) % 5}, units=2, seed=0)
    assert model.log_prob({"t": np.array(["2024-05-06"], dtype="M8[D]"), "x": 1}).isfinite().all()
    with pytest.raises(DataError, match=r"row 0, column 't': .* its hour is 12, and in all rows"):
        model.log_prob({"t": np.array(["2022-05-06T12:00"], dtype="M8[m]"), "x": 1})
    with pytest.raises(DataError, match=r"row 1, column 't': 2099-05-06 is not of the years 2011 to 2032"):
        model.log_prob({"t": np.array(["2022-05-06", "2099-05-06"], dtype="M8[D]"), "x": 1})
    with pytest.raises(DataError, match="'May' is no date"):
        model.log_prob({"t": ["May"], "x": 1})
    few = sq.data.table({"t": days[:300]}).schema
    with pytest.raises(DataError, match="its year is 2022, and in all rows of the training data 2021"):
        few.encode({"t": days[-2:]})


def test_dates_are_overridden_by_name_and_kept_apart_from_what_looks_like_them():
    cells = {"t": ["01/02/2024", "03/04/2024", "05/06/2024"], "x": [1.0, 2.5, 3.5]}
    table = sq.data.table(cells, {"t": "date:%m/%d/%Y"})
    assert table.rows[:, table.schema.names.index("t.month")].tolist() == [0, 2, 4]
    assert sq.data.table(cells, {"t": "categorical"}).columns[0].kind == "categorical"
    assert sq.data.table(cells, {"t": "drop"}).schema.table_names == ("x",)
    scores = sq.data.table({"score": ["1-0", "2-1", "0-0", "1-1"] * 5})
    assert scores.columns[0].kind == "categorical"
    document = table.schema.to_dict()
    with pytest.raises(FormatError, match="a part of a date is no column"):
        Schema.from_dict(document | {"columns": document["columns"][-1:]})
