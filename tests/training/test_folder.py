"""The folder of a run: one process at a time, nothing of killed ones left, a clear word before training."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

import squircuit as sq
from squircuit.storage.atomic import replace, sweep
from squircuit.storage.locks import FolderLock
from squircuit.training.loop import Loop

from .conftest import coins, model_of_coins

pytestmark = pytest.mark.process

SRC = str(Path(sq.__file__).resolve().parents[1])
QUICK = {"epochs": 2, "batch": 64, "progress": False}
FILES = ["best.safetensors", "checkpoint.safetensors", "config.json", "history.jsonl"]


def process(program, *words):
    env = os.environ | {"PYTHONPATH": SRC, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", program, *map(str, words)]
    return subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


HOLD = """
import sys, pathlib
from squircuit.storage.locks import FolderLock
with FolderLock(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_is_told_the_folder_and_the_first_one_s_number(tmp_path):
    first = process(HOLD, tmp_path)
    assert first.stdout.readline() == "held\n"
    with pytest.raises(sq.ParameterError) as caught:
        sq.fit(model_of_coins(), coins(), run=tmp_path, **QUICK)
    assert str(caught.value) == (
        f"{tmp_path}: process {first.pid} is training there. Fix: wait for its end, or pass another folder."
    )
    first.stdin.close()
    assert first.wait(timeout=30) == 0
    assert list(tmp_path.iterdir()) == []
    sq.fit(model_of_coins(), coins(), run=tmp_path, **QUICK)


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_lock_dies_with_its_process(tmp_path):
    first = process(HOLD, tmp_path)
    assert first.stdout.readline() == "held\n"
    first.send_signal(signal.SIGKILL)
    first.wait(timeout=30)
    assert (tmp_path / ".lock").exists()  # the file, which means nothing without its lock
    sq.fit(model_of_coins(), coins(), run=tmp_path, **QUICK)
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES


def test_a_run_holds_the_lock_while_it_trains_and_not_before_or_after(tmp_path, monkeypatch):
    ordinary, seen = Loop._look, []

    def look(loop):
        ordinary(loop)
        with pytest.raises(sq.ParameterError, match=f"process {os.getpid()} is training there"):
            sq.fit(model_of_coins(), coins(), run=tmp_path, resume=True, **QUICK)
        seen.append(None)

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "_look", look)
        sq.fit(model_of_coins(), coins(), run=tmp_path, **QUICK)
    assert seen
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES


def test_many_threads_have_the_lock_one_after_another(tmp_path):
    inside, most, refused = [0], [0], [0]

    def work():
        for _ in range(50):
            try:
                with FolderLock(tmp_path):
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                    inside[0] -= 1
            except sq.ParameterError:
                refused[0] += 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[0] == 1
    assert refused[0] < 200
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_fails_before_its_first_file_leaves_no_folder(tmp_path, monkeypatch):
    def fail(loop, held):
        raise sq.FormatError("no room")

    monkeypatch.setattr(Loop, "_write", fail)
    with pytest.raises(sq.FormatError, match="no room"):
        sq.fit(model_of_coins(), coins(), run=tmp_path / "run", **QUICK)
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------ what killed processes leave

KILLED = """
import os, sys
from squircuit.storage import atomic
atomic.os.replace = lambda *_: os._exit(9)
atomic.replace(sys.argv[1], b"half")
"""


@pytest.mark.skipif(os.name != "posix", reason="where files are renamed while open")
def test_temporary_files_of_killed_runs_are_removed_and_no_others(tmp_path):
    for name in FILES:
        assert process(KILLED, tmp_path / name).wait(timeout=60) == 9
    strangers = [".checkpoint.safetensors.tmp", ".checkpoint.safetensors.0123456.tmp", "x.tmp",
                 ".checkpoint.safetensors.notahex!.tmp", ".other.safetensors.01234567.tmp"]  # fmt: skip
    for name in strangers:
        (tmp_path / name).touch()
    assert len(list(tmp_path.iterdir())) == len(FILES) + len(strangers)
    sq.fit(model_of_coins(), coins(), run=tmp_path, **QUICK)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FILES + strangers)


WRITING = """
import os, sys
from squircuit.storage import atomic
ordinary = os.fsync
def wait(handle):
    print("writing", flush=True)
    sys.stdin.read()
    ordinary(handle)
atomic.os.fsync = wait
atomic.replace(sys.argv[1], b"whole")
"""


@pytest.mark.skipif(os.name != "posix", reason="locks of files that are renamed while open")
def test_a_file_that_is_being_written_is_not_swept_away(tmp_path):
    writer = process(WRITING, tmp_path / "model")
    assert writer.stdout.readline() == "writing\n"
    sweep(tmp_path / "model")
    writer.stdin.close()
    assert writer.wait(timeout=30) == 0
    assert (tmp_path / "model").read_bytes() == b"whole"


def test_names_of_any_length_that_a_file_may_have_can_be_written(tmp_path):
    for name in ("x" * 255, "é" * 127, ".", "[a-z]*?"):
        if name != ".":
            replace(tmp_path / name, b"1")
            assert (tmp_path / name).read_bytes() == b"1"
    with pytest.raises(sq.FormatError, match=r"cannot be written \(File name too long\)\. Fix: "):
        replace(tmp_path / ("x" * 256), b"1")


# ------------------------------------------------------------------ where no run can be


@pytest.mark.parametrize("place", ["file/run", "file/a/b/c", "x" * 300, "new/" + "x" * 300, "y/" * 3000])
def test_a_place_where_no_folder_can_be_is_one_error_before_anything_is_read(place, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises((sq.ParameterError, sq.FormatError), match=r"Fix: pass a") as caught:
        sq.fit(model_of_coins(), object(), run=tmp_path / place, **QUICK)  # no data: it is not looked at
    assert len(str(caught.value)) < 500
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="no file system that refuses even root")
def test_a_file_system_that_takes_no_files_is_one_error_before_the_first_step(monkeypatch):
    monkeypatch.setattr(Loop, "run", lambda loop: pytest.fail("trained"))
    model = model_of_coins()
    before = [p.detach().clone() for p in model.parameters()]
    with pytest.raises(sq.FormatError, match=r"files cannot be written there .* Fix: pass a folder"):
        sq.fit(model, coins(), run="/proc/self/run", **QUICK)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_to_is_named(tmp_path):
    tmp_path.chmod(0o555)
    with pytest.raises(sq.FormatError, match="may not be written to"):
        sq.fit(model_of_coins(), coins(), run=tmp_path / "run", **QUICK)


def test_a_run_that_may_only_be_read_can_be_looked_at(tmp_path, monkeypatch):
    sq.fit(model_of_coins(), coins(), run=tmp_path, **QUICK)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert len(sq.training.checkpoint.RunFolder(tmp_path).history().rows) == 2
