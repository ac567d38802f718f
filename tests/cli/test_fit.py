"""`squircuit fit` trains what the library would, says what it did, and can be resumed."""

import json
import signal

import numpy as np
import pytest
import torch

import squircuit as sq
from squircuit.learning.members import GaussianMixture
from squircuit.training.loop import Loop

from .conftest import COLUMNS, NAMES, call, document, write_people

QUICK = ("--epochs", 2, "--set", "progress=false")


def test_the_saved_model_is_the_one_that_the_library_trains(people, model_file):
    table = sq.data.read(people, {"wind": "periodic:360"})
    expected = sq.model_for(table, size=8)
    history = sq.fit(expected, table, epochs=2, progress=False)
    found = sq.load(model_file)
    rows, missing = torch.from_numpy(table.rows), torch.from_numpy(table.missing)
    assert torch.equal(found.log_prob(rows, missing), expected.log_prob(rows, missing))
    assert found.schema == table.schema
    assert found.notes["scores"]["valid"] == history.best.valid
    assert sq.History.from_dict(found.notes["history"]).best_epoch == history.best_epoch


def test_the_notes_tell_the_command_and_the_options(people, model_file):
    notes = sq.load(model_file).notes
    assert notes["command"].startswith(f"squircuit fit {people} --columns wind=periodic:360 --out")
    assert notes["config"]["model"] == {"size": 8}
    assert notes["config"]["training"]["epochs"] == 2


def test_a_model_without_a_name_gets_that_of_the_data_and_replaces_none(people, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    words = ("fit", people, "--units", 2, "--run", "run", *QUICK)
    call(*words)
    model = sq.load(f"{people.stem}.safetensors")
    done = call(*words, code=2)
    assert f"{people.stem}.safetensors is there already. Fix: --out {people.stem}.safetensors" in done.stderr
    call(*words, "--resume")
    assert sq.load(f"{people.stem}.safetensors").notes["scores"] == model.notes["scores"]


def test_columns_model_scores_and_file_are_said(people, tmp_path):
    done = call("fit", people, *COLUMNS, "--out", tmp_path / "m", "--units", 2, *QUICK)
    lines = done.stdout.splitlines()
    assert lines[0] == f"{people}: 160 rows"
    assert [line.split()[:2] for line in lines[2:6]] == [
        ["group", "categorical"], ["children", "count"], ["height", "continuous"], ["wind", "periodic"],
    ]  # fmt: skip
    assert lines[6].startswith("model  SquaredCircuit(unitary, 4 variables, ")
    assert lines[7].startswith("valid  ")
    assert lines[8] == f"saved  {tmp_path / 'm'}"


def test_the_document_holds_what_the_text_shows(people, tmp_path):
    words = ("fit", people, *COLUMNS, "--out", tmp_path / "m", "--units", 2, *QUICK)
    text, found = call(*words).stdout, document(*words)
    assert [column["name"] for column in found["columns"]] == list(NAMES)
    assert f"valid  {found['valid']:.4f} nats in epoch {found['best_epoch']} of 2 (finished)" in text
    assert found["model"] in text
    assert found["saved"] == str(tmp_path / "m")


def test_a_data_set_with_a_test_part_is_scored_on_it_with_the_exact_log_z(tmp_path):
    words = ("fit", "digits", "--out", tmp_path / "d", "--units", 2, "--set", "tie=inputs")
    found = document(*words, "--epochs", 1, "--set", "progress=false")
    model, test = sq.load(tmp_path / "d"), sq.data.load("digits").test
    model.eval()
    expected = model.log_prob(torch.from_numpy(test.astype(np.int64))).double().mean().item()
    assert found["test"]["mean_log_prob"] == pytest.approx(expected, rel=1e-6)
    assert found["test"]["bits_per_dimension"] == pytest.approx(-expected / 64 / np.log(2), rel=1e-6)
    assert abs(found["test"]["log_z"]) < 1e-4
    assert model.shape == (8, 8)
    assert len([name for name in model.structure.parameters if name.startswith("inputs")]) == 1  # tied


def test_validation_rows_come_from_a_file_with_the_types_of_the_training_data(people, tmp_path):
    valid = write_people(tmp_path / "valid.csv", n=30, gaps=0.0, seed=7)
    found = document("fit", people, *COLUMNS, "--valid", valid, "--out", tmp_path / "m", "--units", 2, *QUICK)
    model = sq.load(tmp_path / "m")
    model.eval()
    rows = torch.from_numpy(sq.data.read(valid, like=model.schema).rows)
    assert found["valid"] == pytest.approx(-model.log_prob(rows).double().mean().item(), rel=1e-6)


def test_flags_come_before_settings_before_files_before_presets(people, tmp_path):
    config = tmp_path / "options.toml"
    config.write_text("[model]\nunits = 3\nroots = 2\n[training]\nlr = 0.3\nepochs = 1\nprogress = false\n")
    words = ("fit", people, "--out", tmp_path / "m", "--preset", "small", "--config", config)
    call(*words, "--set", "lr=0.2", "--set", "batch=50", "--batch", 40)
    found = sq.load(tmp_path / "m").notes["config"]
    assert found["model"] == {"units": 3, "roots": 2}
    assert [found["training"][name] for name in ("lr", "epochs", "batch", "patience")] == [0.2, 1, 40, 5]


def test_an_interrupted_run_is_resumed_to_the_model_of_an_uninterrupted_one(people, tmp_path, monkeypatch):
    words = ("fit", people, "--units", 2, "--epochs", 3, "--set", "progress=false")
    call(*words, "--out", tmp_path / "whole")
    ordinary, done = Loop._look, []

    def look(loop):
        ordinary(loop)
        done.append(None)
        if len(done) == 7:  # in the second epoch
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "_look", look)
        stopped = call(*words, "--out", tmp_path / "part", "--run", tmp_path / "run", code=130)
    assert stopped.stderr == f"interrupted: go on with --run {tmp_path / 'run'} --resume\n"
    assert sq.load(tmp_path / "part").notes["history"]["stopped"] == "interrupted"
    call(*words, "--out", tmp_path / "part", "--run", tmp_path / "run", "--resume")
    whole, part = sq.load(tmp_path / "whole"), sq.load(tmp_path / "part")
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), part.parameters(), strict=True))


def test_a_run_that_diverges_ends_with_an_error_and_keeps_good_weights(people, tmp_path, monkeypatch):
    def bad(loop):
        raise sq.training.loop.DivergedError("the loss is nan")

    monkeypatch.setattr(Loop, "_look", bad)
    done = call("fit", people, "--out", tmp_path / "m", "--units", 2, *QUICK, code=1)
    assert "error: training failed: the loss is nan in epoch 1, step " in done.stderr
    assert not (tmp_path / "m").exists()


def test_the_history_of_a_run_can_be_read_while_it_lasts(people, tmp_path):
    call("fit", people, "--out", tmp_path / "m", "--run", tmp_path / "run", "--units", 2, *QUICK)
    found = sq.training.checkpoint.RunFolder(tmp_path / "run").history()
    expected = sq.load(tmp_path / "m").notes["history"]
    assert json.loads(json.dumps([row.to_dict() for row in found.rows])) == expected["rows"]
    assert (found.unit, found.best_epoch) == (expected["unit"], expected["best_epoch"])


@pytest.mark.parametrize("asked", [True, False])
def test_a_stream_trains_on_every_row_as_the_library_does(asked, tmp_path, monkeypatch):
    file = tmp_path / "points.npy"
    np.save(file, np.random.default_rng(0).normal(size=(600, 2)))
    monkeypatch.setattr("squircuit.cli.reading.SAMPLE", 100)
    monkeypatch.setattr("squircuit.cli.reading.LARGE", 2**31 if asked else 1000)
    words = ("fit", file, "--out", tmp_path / "m", "--batch", 64, "--units", 2, "--set", "roots=1", *QUICK)
    done = call(*words, *(["--stream"] if asked else []))
    assert done.stdout.splitlines()[0] == f"{file}: 100 rows looked at, all streamed"
    schema = sq.data.scan(file)
    sample = next(iter(sq.data.Batches(file, 100, like=schema)))
    expected = sq.model_for(sq.data.Table(sample, schema, "", (2,)), units=2, roots=1)
    sq.fit(expected, sq.data.Batches(file, 64, like=schema), epochs=2, progress=False)
    x = torch.from_numpy(sample.x)
    assert torch.equal(sq.load(tmp_path / "m").log_prob(x), expected.log_prob(x))


def test_a_table_of_texts_does_not_stream(people, tmp_path):
    done = call("fit", people, "--out", tmp_path / "m", "--stream", code=2)
    assert done.stderr.startswith(
        f"error: --stream: {people} is no file ending in .npy, .parquet, .pq, .tar. Fix:"
    )


def write_weighted(path):
    """The people with a column of weights in the middle, 0 for some."""
    names, *rows = write_people(path).read_text().splitlines()
    cells = [line.split(",") for line in (names, *rows)]
    weights = ["w", *(str(number % 3) for number in range(len(rows)))]
    path.write_text(
        "".join(",".join([*row[:2], w, *row[2:]]) + "\n" for row, w in zip(cells, weights, strict=True))
    )
    return path, np.arange(len(rows)) % 3


def test_a_column_of_weights_is_not_modelled_and_counts_as_in_the_library(tmp_path):
    file, weights = write_weighted(tmp_path / "p.csv")
    call(
        "fit",
        file,
        *COLUMNS,
        "--weights",
        "w",
        "--valid",
        file,
        "--out",
        tmp_path / "m",
        "--units",
        2,
        *QUICK,
    )
    table = sq.data.read(file, {"wind": "periodic:360", "w": "drop"})
    expected = sq.model_for(table, units=2)
    options = {"weights": weights, "valid_weights": weights, "epochs": 2, "progress": False}
    history = sq.fit(expected, table, table, **options)
    found = sq.load(tmp_path / "m")
    assert found.schema.names == tuple(NAMES)
    assert torch.equal(
        found.log_prob(*table.cells.to(torch.device("cpu"))),
        expected.log_prob(*table.cells.to(torch.device("cpu"))),
    )
    assert found.notes["scores"]["valid"] == history.best.valid


def test_a_stream_with_a_column_of_weights_trains_as_the_library_does(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(0)
    columns = {name: rng.integers(2, size=90) for name in "abc"} | {"w": np.arange(90) % 4}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet", row_group_size=20)
    words = ("fit", tmp_path / "t.parquet", "--stream", "--weights", "w", "--batch", 15, "--units", 2)
    call(*words, "--out", tmp_path / "m", *QUICK)
    rows = sq.data.read(tmp_path / "t.parquet", {"w": "drop"})
    expected = sq.model_for(sq.data.read(tmp_path / "t.parquet", {"w": "drop"}), units=2)
    stream = sq.data.Batches(tmp_path / "t.parquet", 15, like=rows.schema, weights=columns["w"])
    history = sq.fit(expected, stream, epochs=2, progress=False)
    assert sq.load(tmp_path / "m").notes["scores"]["train"] == pytest.approx(history.best.train, abs=1e-6)


def test_columns_that_are_no_weights_are_refused_in_one_line(people, tmp_path):
    out = ("--out", tmp_path / "m")
    done = call("fit", people, "--weights", "groups", *out, code=2)
    assert "no column 'groups' of weights. Fix: did you mean 'group'?" in done.stderr
    done = call("fit", people, "--weights", "group", *out, code=2)
    assert "line 2, column 'group': " in done.stderr
    done = call("fit", "digits", "--weights", "w", *out, code=2)
    assert "error: --weights: the data set 'digits' has none. Fix: leave the option out." in done.stderr


def test_an_interrupted_search_saves_what_was_tried_and_says_so(tmp_path, monkeypatch):
    rows = np.random.default_rng(0).normal(size=(60, 2))
    np.savetxt(tmp_path / "points.csv", rows, delimiter=",", header="a,b", comments="")
    ordinary, fits = GaussianMixture.fit, []

    def fit(candidate, *rest):
        fits.append(candidate)
        if len(fits) == 7:  # of the second candidate, in its second fold
            raise KeyboardInterrupt
        return ordinary(candidate, *rest)

    monkeypatch.setattr(GaussianMixture, "fit", fit)
    done = call("fit", tmp_path / "points.csv", "--out", tmp_path / "m.safetensors", code=130)
    assert "interrupted: the model is of what was tried until then" in done.stderr
    notes = sq.load(tmp_path / "m.safetensors").notes["learn"]
    assert notes["stopped"] == "interrupted"
    assert {row["candidate"].split(", ")[0] for row in notes["members"]} == {"3 Gaussians"}
