"""The program under torchrun: several processes train one model, and one of them speaks."""

import json
import os
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from torch import distributed

import squircuit as sq
from squircuit.cli import together
from squircuit.cli.together import Launched, Terminated

from .conftest import document, error_line

pytestmark = [pytest.mark.process, pytest.mark.xdist_group("processes")]

SRC = Path(sq.__file__).resolve().parents[1]
KILLS = SRC.parent / "fuzz" / "kill_one.py"


def torchrun(*words, size=2):
    env = os.environ | {"PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    start = [
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        str(size),
        "-m",
        "--",
        "squircuit",
    ]
    command = [sys.executable, *start, *map(str, words)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=240)


def test_several_processes_train_the_model_that_one_does_and_process_0_alone_speaks_and_saves(
    people, tmp_path
):
    options = ("--epochs", 2, "--units", 2, "--set", "size=6", "--set", "shard=optimiser")
    words = ("fit", people, *options, "--out", tmp_path / "m", "--run", tmp_path / "run", "--json")
    done = torchrun(*words)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert done.stderr.count("epoch 2/2") == 1
    alone = document("fit", people, *options, "--out", tmp_path / "alone")
    for name in ("train", "valid"):
        assert found[name] == pytest.approx(alone[name], rel=1e-4)
    assert found["epochs"] == alone["epochs"] == 2
    models = [sq.load(tmp_path / name) for name in ("m", "alone")]
    rows = sq.data.read(people, like=models[0].schema)
    scores = [model.log_prob(rows.rows, missing=rows.missing) for model in models]
    assert (scores[0] - scores[1]).abs().max() < 1e-2


def test_the_search_for_a_density_is_refused(people, tmp_path, monkeypatch):
    launched = Launched(0, 2, 0, 2)
    for name, answer in (
        ("__enter__", launched),
        ("join", torch.device("cpu")),
        ("speaks", True),
        ("leave", None),
    ):
        monkeypatch.setattr(Launched, name, lambda *_, answer=answer: answer)
    monkeypatch.setattr(Launched, "here", lambda: launched)
    assert error_line("fit", people, "--out", tmp_path / "m") == (
        "error: the search for a table's density runs in one process, and torchrun has started 2. "
        "Fix: an option of a circuit, such as --units 8; or leave torchrun out."
    )


def test_other_commands_are_refused():
    Launched(1, 2, 1, 2).require("fit")
    with pytest.raises(
        sq.ParameterError, match="squircuit score works in one process, and torchrun has started 2"
    ):
        Launched(0, 2, 0, 2).require("score")


def test_one_process_of_torchrun_is_one_process(monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert Launched.here() is None
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("RANK", "3")
    found = Launched.here()
    assert (found.rank, found.size) == (3, 4)


def test_gpus_without_nccl_and_more_processes_than_gpus_are_refused(monkeypatch):
    monkeypatch.setattr(together, "chosen_device", torch.device)
    monkeypatch.setattr(distributed, "is_nccl_available", lambda: False)
    with pytest.raises(sq.ParameterError, match="need NCCL, which this PyTorch lacks"):
        Launched(0, 2, 0, 2).join("cuda")
    monkeypatch.setattr(distributed, "is_nccl_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(sq.ParameterError, match="2 processes on a machine with 1 GPU"):
        Launched(0, 2, 0, 2).join("cuda")


@pytest.fixture
def launched(monkeypatch):
    """Two processes that have met, in one."""
    monkeypatch.setattr(together, "FIRST", timedelta(milliseconds=20))
    monkeypatch.setattr(together, "CAUSE", timedelta(milliseconds=40))
    monkeypatch.setattr(together.signal, "signal", lambda *_: None)
    store, made = distributed.HashStore(), [Launched(rank, 2, rank, 2) for rank in range(2)]
    for one in made:
        one._store = store
    return made


def test_a_mistake_that_all_make_is_said_by_process_0(launched):
    first, second = launched
    assert first.speaks(sq.DataError("no"))
    assert not second.speaks(sq.DataError("no"))


def test_a_mistake_that_one_makes_is_said_by_it_and_not_by_those_that_lose_it(launched):
    first, second = launched
    assert second.speaks(sq.DataError("no"))
    assert not first.speaks(sq.errors.ProcessError("lost"))
    assert not first.speaks(Terminated())


def test_where_one_ends_without_a_word_each_other_one_says_that_it_has_lost_it(launched):
    first, second = launched
    assert first.speaks(sq.errors.ProcessError("lost"))
    assert second.speaks(Terminated())


@pytest.mark.slow
def test_a_process_that_waits_for_others_at_the_start_says_that_it_was_told_to_end(people, tmp_path):
    store = distributed.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "GLOO_SOCKET_IFNAME": "lo"}
    torchrun = {"TORCHELASTIC_RUN_ID": "x", "TORCHELASTIC_USE_AGENT_STORE": "True"}
    rank = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    env = os.environ | {"PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1"} | place | torchrun | rank
    command, known = [sys.executable, "-m", "squircuit", "fit", str(people), "--units", "2"], store.num_keys()
    with subprocess.Popen(command, env=env, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as waiting:
        while waiting.poll() is None and store.num_keys() == known:
            time.sleep(0.05)  # until it has said where it is, and waits for the other one
        waiting.terminate()
        _, said = waiting.communicate(timeout=60)
    assert said.startswith("error: process 0 of 2 was told to end")
    assert said.count("\n") == 1
    assert waiting.returncode == 143


@pytest.mark.slow
@pytest.mark.skipif(not KILLS.exists() or not hasattr(os, "fork"), reason="in a checkout, where one can fork")
def test_where_one_of_four_is_killed_the_others_say_so_and_the_run_goes_on_as_if_it_had_not_been():
    env = os.environ | {"PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(KILLS), "--fork", "--kills", "1", "--epochs", "2", "--seed", "1"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["kills"] == 1
