"""The experiment of mixed tables: what it counts is what it says."""

import numpy as np
import pytest
import torch

import mixed
import squircuit as sq
from squircuit.learning.members import GaussianMixture


def weather(count=400, seed=0):
    rng = np.random.default_rng(seed)
    speeds = np.array([0.0, 6.0, 7.5, 9.0, 11.5])
    return {
        "wind": rng.choice(speeds, count, p=[0.3, 0.3, 0.2, 0.1, 0.1]),
        "sky": np.array(["clear", "grey"])[rng.integers(2, size=count)],
        "rain": np.where(rng.random(count) < 0.7, 0.0, rng.gamma(2.0, 3.0, count).round(1)),
    }


@pytest.fixture(scope="module")
def table():
    return sq.data.table(weather())


@pytest.fixture(scope="module")
def model(table):
    return GaussianMixture(3).fit(table, None, 0, torch.device("cpu")).model()


def test_cells_hold_their_values_and_what_is_decoded_as_them(table):
    for is_fine in (True, False):
        low, high = mixed.cells(table, is_fine)
        inside = low + (high - low) * np.random.default_rng(0).uniform(0.001, 0.999, low.shape)
        for v, column in enumerate(table.columns):
            if not column.is_discrete:
                assert np.allclose(column.rounded(inside[:, v]), table.rows[:, v])
    assert table.columns[0].levels


@pytest.mark.slow
def test_the_probability_of_a_cell_is_the_share_of_samples_that_are_decoded_as_it(table, model):
    drawn = model.sample(20_000, seed=0).numpy()
    decoded = [x if c.is_discrete else c.rounded(x) for c, x in zip(table.columns, drawn.T, strict=True)]
    rows = table.cells.take(np.flatnonzero(table.rows[:, 2] == 0)[:4])
    wind_and_sky = sq.data.Rows(rows.x, np.array([False, False, True]) | rows.missing)
    part = sq.data.Table(wind_and_sky, table.schema, table.source, table.shape)
    found = torch.stack([mixed.cell_log_probs(model, part, seed).exp() for seed in range(20)]).mean(dim=0)
    for row, probability in zip(rows.x, found.tolist(), strict=True):
        share = ((decoded[0] == row[0]) & (decoded[1] == row[1])).mean()
        assert probability == pytest.approx(share, rel=0.2, abs=0.005)


def test_a_forest_tells_other_rows_and_does_not_tell_the_same_kind():
    first, second = (np.random.default_rng(seed).normal(size=(300, 3)) for seed in (0, 1))
    assert mixed.told_apart(first, second, 0) == pytest.approx(0.5, abs=0.1)
    assert mixed.told_apart(first, second + 3, 0) > 0.95


@pytest.mark.slow
def test_rows_of_a_table_are_written_with_their_scores(tmp_path, capsys):
    frame = weather(300)
    lines = [",".join(frame), *(",".join(map(str, row)) for row in zip(*frame.values(), strict=True))]
    (tmp_path / "weather.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    arguments = ["--folder", str(tmp_path), "--data", "weather", "--minutes", "0.01", "--out", str(tmp_path)]
    (row,) = mixed.main(arguments)
    assert set(row.scores) == {"test_ll", "test_cells", "forest", "log_z"}
    assert row.scores["log_z"] == pytest.approx(0, abs=1e-9)
    assert "weather" in capsys.readouterr().out


def test_tables_without_a_folder_are_refused():
    with pytest.raises(sq.ParameterError, match="Fix: --folder FOLDER"):
        mixed.main(["--tasks", "tables"])
    with pytest.raises(sq.DataError, match="there is no table other"):
        mixed.load(mixed.Path("nowhere"), "other")
