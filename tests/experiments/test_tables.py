"""The experiment of continuous tables: everything that it writes is true of the model and the peers."""

import numpy as np
import pytest

import other_tables
import squircuit as sq
import table_peers
import tables
from table_peers import PEERS, Parts


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rows = np.random.default_rng(0).normal(size=(160, 2)) @ [[1.0, 0.8], [0.0, 0.6]]
    made = tmp_path_factory.mktemp("tables")
    np.savez(made / "tilted.npz", train=rows[:100], valid=rows[100:130], test=rows[130:])
    return made


@pytest.mark.slow
def test_rows_have_scores_near_the_entropy_of_the_data(folder, tmp_path, capsys):
    arguments = ["--folder", str(folder), "--peers", "gmm", "--minutes", "0.01", "--out", str(tmp_path)]
    rows = tables.main(arguments)
    entropy = np.log(2 * np.pi * np.e) + np.log(0.6)
    assert [row.model for row in rows] == ["sq.learn", "best Gaussian mixture"]
    assert all(row.scores["test_ll"] == pytest.approx(-entropy, abs=0.5) for row in rows)
    assert rows[0].scores["log_z"] == pytest.approx(0, abs=1e-9)
    assert "tilted" in capsys.readouterr().out


def test_a_folder_without_the_table_is_refused(folder):
    with pytest.raises(sq.DataError, match=r"there is no file .*other\.npz"):
        tables.load(folder, "other")


def test_the_peer_by_gradients_learns_a_gaussian():
    pytest.importorskip("zuko")
    rows = np.random.default_rng(1).normal(size=(300, 2))
    scores, count, _ = PEERS["nsf"][2](Parts(rows[:200], rows[200:250], rows[250:]), 0)
    assert count > 0
    assert scores["test_ll"] == pytest.approx(-np.log(2 * np.pi * np.e), abs=0.6)


@pytest.mark.parametrize("name", other_tables.NAMES)
def test_other_tables_are_standardised_and_the_same_each_time(name):
    parts = tables.load(None, name)
    assert min(len(rows) for rows in parts) >= 1
    assert np.nanmax(np.abs(np.nanmean(parts.train, axis=0))) < 1e-9
    spread = np.nanstd(parts.train, axis=0)
    assert np.all((np.abs(spread - 1) < 1e-9) | (spread == 0))
    for rows, again in zip(parts, tables.load(None, name), strict=True):
        np.testing.assert_array_equal(rows, again)


def test_the_scores_of_a_mixture_for_rows_with_gaps_are_those_of_its_marginals():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 3)) @ rng.normal(size=(3, 3))
    model = table_peers._mixture(rows, 2, 1e-3, 0)
    asked = rows[:4].copy()
    asked[0, 1] = asked[1, 0] = asked[2, :2] = np.nan
    grid, step = np.linspace(-25, 25, 4001, retstep=True)
    for row, found in zip(asked[:2], table_peers._scores(model, asked)[:2], strict=True):
        every = np.where(np.isnan(row), grid[:, None], row)
        assert found == pytest.approx(np.log(np.exp(model.score_samples(every)).sum() * step), abs=1e-9)


def test_a_table_that_cannot_be_learnt_is_one_line_and_the_others_go_on(monkeypatch, tmp_path, capsys):
    def refuses(*_, **__):
        raise sq.DataError("no candidate could learn from 3 rows. Fix: pass more rows.")

    monkeypatch.setattr(tables, "learnt", refuses)
    rows = tables.main(["--data", "3-rows", "--peers", "gmm", "--out", str(tmp_path)])
    assert [row.model for row in rows] == ["best Gaussian mixture"]
    assert "3-rows       sq.learn: no candidate" in capsys.readouterr().out
