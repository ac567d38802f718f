"""A run that was stopped, anywhere and anyhow, ends as if it had not been."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

import squircuit as sq
from squircuit import storage
from squircuit.training.loop import Loop

from .conftest import coins, model_of_coins

pytestmark = pytest.mark.process

OPTIONS = {"epochs": 12, "batch": 32, "progress": False, "lr": 0.1, "checkpoint_minutes": 0.0}


def outcome(history, model):
    """All that must not depend on interruptions: weights, and rows without their times."""
    rows = [{k: v for k, v in row.to_dict().items() if k != "seconds"} for row in history.rows]
    return rows, history.best_epoch, history.stopped, {n: p.detach() for n, p in model.named_parameters()}


def assert_same(found, expected):
    assert found[:3] == expected[:3]
    assert all(torch.equal(found[3][name], weight) for name, weight in expected[3].items())


def interrupt_after(monkeypatch, steps, number=signal.SIGINT):
    """Send this process a signal when so many steps are done."""
    ordinary, done = Loop._look, []

    def look(loop):
        ordinary(loop)
        done.append(None)
        if len(done) == steps:
            signal.raise_signal(number)

    monkeypatch.setattr(Loop, "_look", look)


VARIANTS = {
    "polar": {},
    "averaged weights": {"average": 0.9},
    "landing": {"optimiser": "landing-sgd"},
    "rare validation, constant rate": {"valid_every": 3, "schedule": "constant"},
    "early stopping": {"patience": 2, "lr": 1.0},
}


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.filterwarnings("ignore:the weights are off the manifold")
def test_an_interrupted_and_resumed_run_is_bitwise_the_uninterrupted_one(name, tmp_path, monkeypatch):
    options = OPTIONS | VARIANTS[name]
    whole = model_of_coins()
    expected = outcome(sq.fit(whole, coins(), **options), whole)
    model = model_of_coins()
    for stop in (9, 7, 4):  # in the second, the third, and again the third epoch
        with monkeypatch.context() as patch:
            interrupt_after(patch, stop)
            history = sq.fit(model, coins(), run=tmp_path, resume=True, **options)
        assert history.stopped == "interrupted"
    other = model_of_coins(seed=5)  # what it holds before does not matter
    assert_same(outcome(sq.fit(other, coins(), run=tmp_path, resume=True, **options), other), expected)


def test_jitter_missing_values_and_mixed_columns_resume_bitwise(tmp_path, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    angles = 6 * torch.rand(120, 1, generator=generator, dtype=torch.float64) - 3
    x = torch.cat([coins(120, 2), angles, angles.abs()], dim=1)
    x[torch.rand(x.shape, generator=generator) < 0.2] = torch.nan
    families = [sq.Categorical(2), sq.Categorical(2), sq.Fourier(5, 6.0), sq.Hermite(5, 1.5, 1.0)]
    circuit = sq.build(sq.regions.balanced_tree(4), families, 3)
    options = OPTIONS | {"epochs": 3, "jitter": 0.2}
    whole, model = sq.SquaredCircuit(circuit), sq.SquaredCircuit(circuit)
    expected = outcome(sq.fit(whole, x, **options), whole)
    with monkeypatch.context() as patch:
        interrupt_after(patch, 5)
        assert sq.fit(model, x, run=tmp_path, **options).stopped == "interrupted"
    assert_same(outcome(sq.fit(model, x, run=tmp_path, resume=True, **options), model), expected)
    assert expected[0][-1]["train"] < expected[0][0]["train"]


SCRIPT = """
import sys
sys.path.insert(0, sys.argv[3])
import json, squircuit as sq
from training.conftest import coins, model_of_coins
sq.fit(model_of_coins(), coins(), run=sys.argv[1], **json.loads(sys.argv[2]))
"""


def run_elsewhere(folder, options):
    environment = os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    environment["PYTHONPATH"] = str(Path(sq.__file__).parents[1])
    tests = str(Path(__file__).parents[1])
    command = [sys.executable, "-c", SCRIPT, str(folder), json.dumps(options), tests]
    return subprocess.Popen(command, env=environment)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_process_loses_nothing_that_changes_the_result(number, tmp_path):
    options = OPTIONS | {"epochs": 30, "batch": 16}
    process = run_elsewhere(tmp_path, options)
    try:
        started = time.monotonic()
        while not (tmp_path / "history.jsonl").exists() or len(list((tmp_path / "history.jsonl").open())) < 3:
            assert process.poll() is None
            assert time.monotonic() - started < 60
            time.sleep(0.01)
        process.send_signal(number)
        assert process.wait(timeout=30) == -number
    finally:
        process.kill()
    state = storage.read(tmp_path / "checkpoint.safetensors", "checkpoint").document
    assert 0 < state["step"] < 30 * 13
    whole, model = model_of_coins(), model_of_coins(seed=3)
    expected = outcome(sq.fit(whole, coins(), **options), whole)
    resumed = sq.fit(model, coins(), run=tmp_path, resume=True, **options | {"checkpoint_minutes": 5.0})
    assert_same(outcome(resumed, model), expected)


def test_ctrl_c_gives_back_the_best_weights_and_the_history(monkeypatch):
    model = model_of_coins()
    with monkeypatch.context() as patch:
        interrupt_after(patch, 20)
        history = sq.fit(model, coins(), **OPTIONS)
    assert history.stopped == "interrupted"
    assert len(history.rows) == 2  # 7 looks an epoch: 6 steps and the end
    twin = model_of_coins()
    scores = sq.fit(twin, coins(), **OPTIONS).rows
    assert history.best.valid == scores[history.best_epoch - 1].valid
    held = sq.training.intake.open_data(model, coins(), None, sq.TrainingConfig()).valid
    found = -model.log_prob(next(held.blocks()).x).double().mean().item()
    assert found == pytest.approx(history.best.valid, rel=1e-6)


def test_a_second_ctrl_c_is_a_plain_keyboard_interrupt_and_handlers_are_put_back(monkeypatch):
    before = signal.getsignal(signal.SIGINT)
    ordinary = Loop._look

    def look(loop):
        ordinary(loop)
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Loop, "_look", look)
    model = model_of_coins()
    start = {n: p.detach().clone() for n, p in model.named_parameters()}
    with pytest.raises(KeyboardInterrupt):
        sq.fit(model, coins(), **OPTIONS)
    assert signal.getsignal(signal.SIGINT) is before
    assert all(torch.equal(p, start[n]) for n, p in model.named_parameters())  # there was no validation yet


def test_fit_works_in_a_thread_where_signals_cannot_be_caught():
    found = []
    thread = threading.Thread(target=lambda: found.append(sq.fit(model_of_coins(), coins(), **OPTIONS)))
    thread.start()
    thread.join()
    assert found[0].stopped == "finished"


def test_a_finished_run_is_given_back_as_it_is(tmp_path):
    model, other = model_of_coins(), model_of_coins(seed=9)
    history = sq.fit(model, coins(), run=tmp_path, **OPTIONS)
    again = sq.fit(other, coins(), run=tmp_path, resume=True, **OPTIONS)
    assert again == history
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


def test_the_folder_holds_config_history_checkpoint_and_best_weights(tmp_path):
    model = model_of_coins()
    history = sq.fit(model, coins(), run=tmp_path / "new" / "run", **OPTIONS)
    folder = tmp_path / "new" / "run"
    names = {path.name for path in folder.iterdir()}
    assert names == {"config.json", "history.jsonl", "checkpoint.safetensors", "best.safetensors"}
    rows = [json.loads(line) for line in (folder / "history.jsonl").open()]
    assert rows == [row.to_dict() for row in history.rows]
    best = storage.read(folder / "best.safetensors", "model").tensors
    assert all(torch.equal(best[name], value) for name, value in model.state_dict().items())


DIFFERENT = {
    "lr=0.1, this one lr=0.3": {"lr": 0.3},
    "epochs=12, this one epochs=13": {"epochs": 13},
    "seed=0, this one seed=1": {"seed": 1},
}


@pytest.mark.parametrize("message", DIFFERENT)
def test_resuming_with_another_configuration_names_the_option(message, tmp_path):
    sq.fit(model_of_coins(), coins(), run=tmp_path, **OPTIONS | {"epochs": 12})
    with pytest.raises(sq.ParameterError, match=message):
        sq.fit(model_of_coins(), coins(), run=tmp_path, resume=True, **OPTIONS | DIFFERENT[message])


def test_resuming_with_another_model_or_other_data_says_which(tmp_path):
    sq.fit(model_of_coins(), coins(), run=tmp_path, **OPTIONS)
    other = sq.SquaredCircuit(sq.build(sq.regions.linear(4), sq.Categorical(2), 2))
    with pytest.raises(sq.ParameterError, match="another model"):
        sq.fit(other, coins(), run=tmp_path, resume=True, **OPTIONS)
    with pytest.raises(sq.DataError, match="another training data"):
        sq.fit(model_of_coins(), coins(seed=1), run=tmp_path, resume=True, **OPTIONS)


def test_a_folder_with_a_run_is_never_overwritten(tmp_path):
    sq.fit(model_of_coins(), coins(), run=tmp_path, **OPTIONS)
    with pytest.raises(sq.ParameterError, match=r"holds a run\. Fix: resume=True"):
        sq.fit(model_of_coins(), coins(), run=tmp_path, **OPTIONS)


def test_damaged_and_foreign_files_give_a_clear_error_and_leave_the_model_alone(tmp_path):
    sq.fit(model_of_coins(), coins(), run=tmp_path, **OPTIONS)
    checkpoint, model = tmp_path / "checkpoint.safetensors", model_of_coins(seed=2)
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    whole = checkpoint.read_bytes()
    best = (tmp_path / "best.safetensors").read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"hello", best):
        checkpoint.write_bytes(content)
        with pytest.raises(sq.FormatError, match="checkpoint"):
            sq.fit(model, coins(), run=tmp_path, resume=True, **OPTIONS)
    checkpoint.unlink()
    with pytest.raises(sq.FormatError, match="checkpoint"):
        sq.fit(model, coins(), run=tmp_path, resume=True, **OPTIONS)
    (tmp_path / "config.json").write_text('{"config": ')
    with pytest.raises(sq.FormatError, match=r"config\.json: damaged"):
        sq.fit(model, coins(), run=tmp_path, resume=True, **OPTIONS)
    assert all(torch.equal(p, before[n]) for n, p in model.named_parameters())
