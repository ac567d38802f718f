"""Files of a run that anybody may have written: refused in one line before training goes on."""

import json
import math
import shutil

import pytest
import torch

import squircuit as sq
from squircuit import storage
from squircuit.training.checkpoint import RunFolder
from squircuit.training.history import Epoch
from squircuit.training.loop import Loop

from .conftest import coins, model_of_coins

OPTIONS = {"epochs": 3, "batch": 64, "progress": False, "lr": 0.1, "average": 0.5}
FILE = "checkpoint.safetensors"


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A run with an epoch to go, for each method."""
    folders = {}
    for method in ("polar", "adam"):
        folder, ordinary = tmp_path_factory.mktemp(method), Loop._close_epoch

        def stop(loop, started, ordinary=ordinary):
            ordinary(loop, started)
            if loop.state.epoch == 2:
                loop.state.stopped = "interrupted"

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Loop, "_close_epoch", stop)
            fitted(folder, method)
        folders[method] = folder
    return folders


@pytest.fixture
def run(begun, tmp_path):
    return shutil.copytree(begun["polar"], tmp_path / "run")


def fitted(folder, method="polar"):
    """The history and the model of a run that is begun or gone on with."""
    model = model_of_coins(**{"unitary": False} if method == "adam" else {})
    return sq.fit(model, coins(), run=folder, resume=True, optimiser=method, **OPTIONS), model


def refused(folder, file=FILE):
    """The run is not gone on with, and the model stays as it was."""
    model = model_of_coins()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(sq.FormatError) as caught:
        sq.fit(model, coins(), run=folder, resume=True, **OPTIONS)
    message = str(caught.value)
    assert file in message
    assert "Fix: " in message
    assert message.isprintable()
    assert len(message) < 1000
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    return message


def with_state(folder, **changes):
    stored = storage.read(folder / FILE, "checkpoint")
    document = {k: v for k, v in {**stored.document, **changes}.items() if v != "drop"}
    storage.write(folder / FILE, stored.tensors, document, "checkpoint")


def with_tensors(folder, change):
    stored = storage.read(folder / FILE, "checkpoint")
    storage.write(folder / FILE, change(dict(stored.tensors)), stored.document, "checkpoint")


@pytest.mark.parametrize("method", ["polar", "adam"])
def test_a_checkpoint_that_is_right_is_gone_on_with(method, begun, tmp_path):
    folder = shutil.copytree(begun[method], tmp_path / "run")
    history, _ = fitted(folder, method)
    assert (history.stopped, len(history.rows)) == ("finished", 3)


@pytest.mark.parametrize("name", ["epoch", "position", "step", "best_epoch", "waited"])
@pytest.mark.parametrize("value", [None, 1.5, -1, True, "drop", "x" * 5000])
def test_counts_of_a_state_are_counts(name, value, run):
    with_state(run, **{name: value})
    refused(run)


@pytest.mark.parametrize(
    "changes",
    [
        {"best": []},
        {"best": "nan"},
        {"seconds": []},
        {"seconds": -1.0},
        {"stopped": 3},
        {"stopped": "\x1b[31m"},
        {"stopped": "finished"},
        {"rows": 3},
        {"rows": [3]},
        {"rows": []},
        {"epoch": 3},
        {"epoch": 1},
        {"step": 0},
        {"more": 1},
        {"\0": 1},
    ],
)
def test_states_that_a_run_never_has_are_refused(changes, run):
    with_state(run, **changes)
    refused(run)


CHANGES = {
    "missing": lambda value: None,
    "other shape": lambda value: value[None],
    "other type": lambda value: value.real.to(
        torch.float64 if value.dtype != torch.float64 else torch.float32
    ),
    "truth values": lambda value: value != 0,
    "NaN": lambda value: torch.full_like(value, math.nan),
    "infinite": lambda value: torch.full_like(value, math.inf),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("method", ["polar", "adam"])
def test_tensors_of_another_shape_or_type_and_those_that_are_no_numbers_are_refused(
    change, method, begun, tmp_path
):
    names = storage.read(begun[method] / FILE, "checkpoint").tensors
    for number, name in enumerate(names):
        folder = shutil.copytree(begun[method], tmp_path / str(number))

        def changed(tensors, name=name):
            value = CHANGES[change](tensors.pop(name))
            return tensors if value is None else tensors | {name: value}

        with_tensors(folder, changed)
        with pytest.raises(sq.FormatError, match=FILE):
            fitted(folder, method)


def test_weights_without_a_distribution_are_refused(run):
    with_tensors(run, lambda tensors: {n: v * (not n.startswith("best.")) for n, v in tensors.items()})
    assert "log Z" in refused(run)


def test_tensors_of_no_weight_are_refused(run):
    with_tensors(run, lambda tensors: tensors | {"optimiser.step.\x1b[31m": torch.zeros(())})
    refused(run)


@pytest.mark.parametrize(
    "line",
    ["[]", "3", '"a"', "null", "{}", "[" * 3000, "{", "9" * 5000, '{"\\u0000": 1}', '{"epoch": "x"}'],
)
def test_lines_that_are_no_epochs_are_refused(line, run):
    (run / "history.jsonl").write_text(line + "\n")
    with pytest.raises(sq.FormatError, match=r"history\.jsonl") as caught:
        RunFolder(run).history()
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(("name", "value"), [("lr", []), ("valid", [1]), ("train", "a"), ("normalised", 1)])
def test_entries_of_epochs_have_their_types(name, value, run):
    row = json.loads((run / "history.jsonl").read_text().splitlines()[0]) | {name: value}
    (run / "history.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(sq.FormatError, match=name):
        RunFolder(run).history()


def test_epochs_that_are_not_finite_are_kept():
    row = Epoch(1, 10, math.inf, None, -math.inf, True, 0.1, 1.0)
    assert Epoch.from_dict(json.loads(json.dumps(row.to_dict()))) == row


def test_options_of_a_damaged_run_are_shown_on_one_short_line(run):
    document = json.loads((run / "config.json").read_text())
    document["config"]["lr"] = "x\n" * 5000
    (run / "config.json").write_text(json.dumps(document))
    with pytest.raises(sq.ParameterError) as caught:
        fitted(run)
    assert len(str(caught.value)) < 500
    assert str(caught.value).isprintable()
