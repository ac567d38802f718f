"""`score`, `sample` and `complete` answer as the model does, in the words of the data."""

import itertools
import re

import numpy as np
import pytest
import torch

import squircuit as sq

from .conftest import NAMES, call, document, error_line, table_of


@pytest.fixture
def gaps(tmp_path):
    file = tmp_path / "gaps.csv"
    file.write_text("group,children,height,wind\nb,,1.7,10\n,2,,\nc,1,1.8,350\n", encoding="utf-8")
    return file


def rows_of(model, file):
    table = sq.data.read(file, like=model.schema)
    return torch.from_numpy(table.rows), torch.from_numpy(table.missing)


def test_scores_are_those_of_the_model_with_empty_cells_marginalised(model_file, gaps, tmp_path):
    model = sq.load(model_file)
    model.eval()
    expected = model.log_prob(*rows_of(model, gaps)).double()
    found = document("score", model_file, gaps)
    assert found["log_prob"] == pytest.approx(expected.tolist(), rel=1e-5)
    assert found["mean_log_prob"] == pytest.approx(expected.mean().item(), rel=1e-5)
    assert (found["rows"], found["bits_per_dimension"], found["normalised"]) == (3, None, True)
    text = call("score", model_file, gaps, "--out", tmp_path / "s.csv").stdout
    assert f"mean log-likelihood {expected.mean():.4f} nats of 3 rows; log Z " in text
    names, lines = table_of((tmp_path / "s.csv").read_text())
    assert names == ["log_prob"]
    assert [float(line[0]) for line in lines] == pytest.approx(found["log_prob"])
    call("score", model_file, gaps, "--out", tmp_path / "s.npy")
    assert np.load(tmp_path / "s.npy") == pytest.approx(found["log_prob"])


def test_a_column_can_be_marginalised_by_name(model_file, gaps):
    model = sq.load(model_file)
    model.eval()
    rows, missing = rows_of(model, gaps)
    missing[:, 2] = True
    found = document("score", model_file, gaps, "--missing", "height")
    assert found["log_prob"] == pytest.approx(model.log_prob(rows, missing).tolist(), rel=1e-5)


def test_bits_are_per_dimension_that_is_not_missing(image_file, tmp_path):
    model = sq.load(image_file)
    np.save(tmp_path / "x.npy", np.arange(32).reshape(2, 4, 4) % 3)
    whole = document("score", image_file, tmp_path / "x.npy")
    half = document("score", image_file, tmp_path / "x.npy", "--missing", "left")
    rows = torch.arange(32).reshape(2, 16) % 3
    assert whole["bits_per_dimension"] == pytest.approx(-model.log_prob(rows).mean().item() / 16 / np.log(2))
    left = torch.tensor([column < 2 for _ in range(4) for column in range(4)])
    log_p = model.log_prob(rows, missing=left).mean().item()
    assert half["bits_per_dimension"] == pytest.approx(-log_p / 8 / np.log(2), rel=1e-5)


def test_samples_are_in_the_words_of_the_data_and_depend_on_the_seed(model_file):
    first, same, other = (call("sample", model_file, "-n", 20, "--seed", s).stdout for s in (1, 1, 2))
    assert first == same != other
    names, rows = table_of(first)
    assert names == list(NAMES)
    assert len(rows) == 20
    assert {row[0] for row in rows} <= {"a", "b", "c"}
    assert all(0 <= int(row[1]) <= 3 and 0 <= float(row[3]) < 360 for row in rows)


def test_samples_given_rows_keep_what_is_known_row_by_row(model_file, gaps):
    found = document("sample", model_file, "-n", 5, "--given", gaps)
    assert len(found["rows"]) == 15
    assert all((row[0], row[2], row[3]) == ("b", pytest.approx(1.7), 10.0) for row in found["rows"][:5])
    assert all(row[1] == 2 for row in found["rows"][5:10])
    assert all(row == ["c", 1, pytest.approx(1.8), 350.0] for row in found["rows"][10:])


def test_samples_are_given_a_file_of_some_columns(model_file, tmp_path):
    (tmp_path / "some.csv").write_text("id,height,group\n7,1.7,b\n8,,c\n")
    said = error_line("sample", model_file, "--given", tmp_path / "some.csv")
    assert "the model has no column 'id'" in said
    (tmp_path / "some.csv").write_text("height,group\n1.7,b\n,c\n")
    rows = document("sample", model_file, "-n", 4, "--given", tmp_path / "some.csv")["rows"]
    assert [row[0] for row in rows] == ["b"] * 4 + ["c"] * 4
    assert [row[2] for row in rows[:4]] == [pytest.approx(1.7)] * 4


def test_written_samples_are_scored_as_any_data(model_file, image_file, tmp_path):
    call("sample", model_file, "-n", 9, "--out", tmp_path / "s.csv")
    assert document("score", model_file, tmp_path / "s.csv")["rows"] == 9
    call("sample", image_file, "-n", 3, "--out", tmp_path / "s.npy")
    assert np.load(tmp_path / "s.npy").shape == (3, 4, 4)
    assert document("score", image_file, tmp_path / "s.npy")["rows"] == 3


def test_completions_fill_empty_cells_and_keep_the_others(model_file, gaps):
    for method in ("sample", "mean", "mode"):
        names, rows = table_of(call("complete", model_file, gaps, "--method", method).stdout)
        assert names == list(NAMES)
        assert all(cell for row in rows for cell in row)
        assert rows[0][0] == "b"
        assert rows[1][1] == "2"
        assert (rows[2][0], rows[2][1], float(rows[2][2])) == ("c", "1", pytest.approx(1.8))


@pytest.fixture
def diamonds(tmp_path):
    """The file of a model of whole prices and carats of two decimals, and one of rows with gaps."""
    rng = np.random.default_rng(0)
    data = {"price": rng.integers(326, 9000, 200), "carat": rng.integers(20, 300, 200) / 100}
    sq.table_model(sq.data.table(data), units=2, seed=0).save(tmp_path / "m")
    (tmp_path / "gaps.csv").write_text("price,carat\n400.5,\n,0.123\n,1.1\n")
    return tmp_path / "m", tmp_path / "gaps.csv"


def test_samples_are_written_with_the_digits_of_the_data(diamonds, tmp_path):
    model, _ = diamonds
    printed = call("sample", model, "-n", 30).stdout
    call("sample", model, "-n", 30, "--out", tmp_path / "s.csv")
    assert (tmp_path / "s.csv").read_text() == printed
    _, rows = table_of(printed)
    assert all(re.fullmatch(r"-?\d+", price) for price, _ in rows)
    assert all(re.fullmatch(r"-?\d+\.\d\d?", carat) for _, carat in rows)
    call("sample", model, "-n", 30, "--out", tmp_path / "s.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "s.npy"), np.array(rows, dtype=float))


@pytest.mark.parametrize(
    ("command", "prices", "carats"),
    [
        (("sample", "-n", 2, "--given"), r"-?\d+", r"-?\d+\.\d\d?"),
        (("complete", "-n", 2), r"-?\d+", r"-?\d+\.\d\d?"),
        (("complete", "--method", "mode"), r"-?\d+", r"-?\d+\.\d\d?"),
        (("complete", "--method", "mean"), r"-?\d+", r"-?\d+\.\d{3,}"),
    ],
)
def test_what_is_filled_in_has_the_digits_of_the_data_and_what_was_known_its_own(
    diamonds, command, prices, carats
):
    model, gaps = diamonds
    name, *options = command
    _, rows = table_of(call(name, model, *options, gaps).stdout)
    each = len(rows) // 3
    assert all(row[0] == "400.5" and re.fullmatch(carats, row[1]) for row in rows[:each])
    assert all(row[1] == "0.123" and re.fullmatch(prices, row[0]) for row in rows[each : 2 * each])
    assert all(row[1] == "1.1" and re.fullmatch(prices, row[0]) for row in rows[2 * each :])


def test_mode_and_mean_of_single_cells_are_those_of_enumeration(tmp_path):
    table = sq.data.table(
        {"colour": ["red", "blue", "green"] * 4, "n": [0, 1, 2, 3, 4, 4] * 2}, {"n": "count:0:4"}
    )
    model = sq.table_model(table, units=3, seed=3)
    model.save(tmp_path / "m")
    states = torch.tensor(list(itertools.product(range(3), range(5))))
    p = model.log_prob(states).exp().detach().reshape(3, 5)
    (tmp_path / "gaps.csv").write_text("colour,n\n,2\nred,\n")
    mode = document("complete", tmp_path / "m", tmp_path / "gaps.csv", "--method", "mode")
    mean = document("complete", tmp_path / "m", tmp_path / "gaps.csv", "--method", "mean")
    colours = ["blue", "green", "red"]
    likely = colours[int(p[:, 2].argmax())]
    expected = float((p[2] / p[2].sum()) @ torch.arange(5.0))
    assert mode["rows"] == [[likely, 2], ["red", int(p[2].argmax())]]
    assert mean["rows"] == [[likely, 2], ["red", round(expected)]]
    assert mean["filled"] == 2


def test_masked_pixels_are_completed_and_the_others_kept(image_file, tmp_path):
    images = np.arange(10 * 16).reshape(10, 4, 4) % 3
    np.save(tmp_path / "x.npy", images)
    words = (
        "complete",
        image_file,
        tmp_path / "x.npy",
        "--mask",
        "top",
        "-n",
        2,
        "--out",
        tmp_path / "y.npy",
    )
    assert document(*words)["filled"] == 8 * 8  # eight images unless told otherwise
    found = np.load(tmp_path / "y.npy").reshape(8, 2, 4, 4)
    assert (found[:, :, 2:] == images[:8, None, 2:]).all()
    assert (found[:, :, :2] != images[:8, None, :2]).any()
    assert document(*words, "--rows", 3)["filled"] == 3 * 8


def test_a_model_without_schema_is_asked_by_the_numbers_of_its_columns(tmp_path):
    circuit = sq.build(sq.regions.linear(2), [sq.Categorical(3), sq.Hermite(4)], units=2)
    model = sq.SquaredCircuit(circuit, seed=0)
    model.save(tmp_path / "m")
    (tmp_path / "x.csv").write_text("2,0.5\n0,\n")
    expected = model.log_prob([[2, 0.5], [0, float("nan")]])
    found = document("score", tmp_path / "m", tmp_path / "x.csv")
    assert found["log_prob"] == pytest.approx(expected.tolist(), rel=1e-5)
