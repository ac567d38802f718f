"""The experiment of continuous tables: everything that it writes is true of the model and the peers."""

import numpy as np
import pytest

import squircuit as sq
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
