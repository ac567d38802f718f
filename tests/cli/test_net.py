"""The last net: whatever happens is one line and an exit code, and no file is half there."""

import errno
import json
import os
import signal
import subprocess
import sys

import pytest

from squircuit.cli import sample as sample_command

from .conftest import call, error_line
from .test_program import SRC, process

pytestmark = pytest.mark.process


def failing(error):
    def fail(*_, **__):
        raise error

    return fail


def deep(level=0):
    return deep(level + 1)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (KeyError("region8"), "error: KeyError ('region8'), which should not happen. Fix: "),
        (RuntimeError("one\n\n  two"), "error: RuntimeError (one two), which should not happen. Fix: "),
        (MemoryError(), "error: too little memory. Fix: fewer units, "),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: 1"), "error: too little memory ("),
        (OSError(errno.ENOSPC, "No space left on device", "x.csv"), "error: OSError: [Errno 28] No space"),
        (AssertionError(), "error: AssertionError, which should not happen. Fix: "),
        (RecursionError("maximum recursion depth exceeded"), "error: RecursionError (maximum recursion"),
    ],
)  # fmt: skip
def test_whatever_escapes_is_one_line_and_exit_code_70(error, expected, model_file, monkeypatch):
    monkeypatch.setattr(sample_command, "open_model", failing(error))
    line = error_line("sample", model_file, code=70)
    assert line.startswith(expected)
    assert "Fix: " in line


def test_a_real_recursion_is_one_line(model_file, monkeypatch):
    monkeypatch.setattr(sample_command, "open_model", lambda *_: deep())
    assert "RecursionError" in error_line("sample", model_file, code=70)


@pytest.mark.parametrize("words", [("--traceback", "sample", "FILE"), ("sample", "FILE", "--traceback")])
def test_with_traceback_the_line_comes_after_the_place(words, model_file, monkeypatch):
    monkeypatch.setattr(sample_command, "open_model", failing(KeyError("region8")))
    done = call(*(model_file if word == "FILE" else word for word in words), code=70)
    lines = done.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert any(__file__ in line for line in lines)
    assert lines[-1].startswith("error: KeyError ('region8')")


def test_a_mistake_with_traceback_shows_the_place_too(tmp_path):
    done = call("score", tmp_path / "no", "digits", "--traceback", code=2)
    assert done.stderr.startswith("Traceback (most recent call last):")
    assert done.stderr.splitlines()[-1] == (
        f"error: {tmp_path / 'no'}: there is no such file. Fix: check the path."
    )


def test_ctrl_c_in_a_command_is_130_and_one_line(model_file, monkeypatch):
    monkeypatch.setattr(sample_command, "open_model", failing(KeyboardInterrupt()))
    assert error_line("sample", model_file, code=130).startswith("interrupted")


def test_a_file_that_cannot_be_written_is_not_there_at_all(model_file, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    line = error_line("sample", model_file, "--out", tmp_path / "x.csv")
    assert "No space left on device" in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no full device")
def test_standard_output_on_a_full_disk_is_one_line_and_70(model_file):
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "squircuit", "sample", str(model_file), "-n", "3"]
        env = os.environ | {"PYTHONPATH": SRC}
        done = subprocess.run(command, env=env, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 70
    assert done.stderr.startswith("error: OSError: [Errno 28] No space left on device. Fix: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(os.name != "posix", reason="pipes")
@pytest.mark.parametrize("buffered", ["", "1"])
def test_nobody_reading_is_no_error_and_says_nothing(model_file, buffered):
    command = [sys.executable, "-m", "squircuit", "sample", str(model_file), "-n", "20000"]
    env = os.environ | {"PYTHONPATH": SRC, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": buffered}
    child = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline()
    child.stdout.close()  # as `| head` does when it has enough
    assert child.stderr.read() == ""
    assert child.wait(timeout=120) == 141


def test_errors_of_several_lines_are_one(people, tmp_path):
    (tmp_path / "x.yaml").write_text("epochs: 3\n lr: [1\n")
    line = error_line("fit", people, "--out", tmp_path / "m", "--config", tmp_path / "x.yaml")
    assert line.startswith(f"error: {tmp_path / 'x.yaml'}: not valid YAML (")
    assert line.endswith("Fix: correct the file.")


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_while_a_model_is_read_is_130_in_a_real_process(model_file):
    env = os.environ | {"PYTHONPATH": SRC, "OMP_NUM_THREADS": "1"}
    program = (
        "import signal, squircuit.cli; from squircuit.cli import sample\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # jobs in the background ignore it
        "sample.open_model = lambda *_: print('ready', flush=True) or signal.pause()\n"
        "squircuit.cli.main()"
    )
    command = [sys.executable, "-c", program, "sample", str(model_file)]
    child = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=60)
    assert child.returncode == 130
    assert said.count("\n") == 1


def test_help_names_the_option():
    assert "--traceback" in call("--help").stdout


def test_json_stays_one_document_where_something_fails(model_file, monkeypatch):
    monkeypatch.setattr(sample_command, "open_model", failing(KeyError("x")))
    assert call("sample", model_file, "--json", code=70).stdout == ""
    monkeypatch.undo()
    assert json.loads(call("sample", model_file, "-n", 1, "--json").stdout)["columns"]


def test_a_name_that_is_too_long_for_a_file_is_one_line(tmp_path):
    done = process("check", tmp_path / ("x" * 3000))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["x" * 300, "x" * 300 + ".csv", "a/" * 3000 + "x.npy", "x\ny.csv"])
def test_names_that_no_file_can_have_are_wrong_input(name, model_file, people, tmp_path):
    out, picture = ("--out", tmp_path / "m.safetensors"), ("--what", "curves", "--out", tmp_path / "x.png")
    for words in (
        ("score", model_file, name),
        ("score", name, people),
        ("fit", name, *out),
        ("fit", people, *out, "--config", name),
        ("fit", people, *out, "--valid", name),
        ("data", "show", name),
        ("sample", model_file, "--given", name),
        ("mix", name, name, *out),
        ("plot", name, *picture),
    ):
        assert "Fix: " in error_line(*words)
    assert list(tmp_path.iterdir()) == []
