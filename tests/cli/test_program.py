"""The program as a process: what it prints where, how it ends, how it starts."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

import squircuit as sq
from squircuit.cli import app

from .conftest import call

pytestmark = pytest.mark.process

COMMANDS = ["fit", "score", "sample", "complete", "mix", "check", "plot", "data"]
SRC = str(Path(sq.__file__).resolve().parents[1])


def process(*words, **options):
    env = os.environ | {"PYTHONPATH": SRC, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "squircuit", *map(str, words)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, **options)


def test_a_csv_file_is_fitted_and_the_document_is_all_of_standard_output(people, tmp_path):
    words = ("fit", people, "--out", tmp_path / "m", "--epochs", 1, "--units", 2, "--json")
    done = process(*words)
    assert done.returncode == 0
    assert json.loads(done.stdout)["saved"] == str(tmp_path / "m")
    assert "epoch 1/1" in done.stderr  # progress


def test_a_mistake_is_one_line_without_traceback(tmp_path):
    done = process("score", tmp_path / "no", "digits")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: {tmp_path / 'no'}: there is no such file. Fix: check the path.\n"


def test_starting_does_not_import_compilers_or_drawing():
    code = (
        "import sys, squircuit.cli; print([m for m in ('torch._dynamo', 'matplotlib') if m in sys.modules])"
    )
    env = os.environ | {"PYTHONPATH": SRC}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_version():
    assert call("--version").stdout == f"{sq.__version__}\n"


def test_alone_it_shows_its_commands():
    text = call().stdout
    assert all(command in text for command in [*COMMANDS, "bench"])
    assert "verify" in call("data").stdout


@pytest.mark.parametrize("command", COMMANDS[:-1])
def test_every_command_has_help_with_examples(command):
    text = call(command, "--help").stdout
    assert text.count(f"• squircuit {command} ") >= 2
    assert "--json" in text


def test_warnings_are_one_line_on_standard_error(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,0\n2,0\n3,0\n")
    done = call("data", "show", tmp_path / "x.csv", "--json")
    assert json.loads(done.stdout)["rows"] == 3
    assert done.stderr.startswith(f"warning: {tmp_path / 'x.csv'}: constant columns: b.")
    assert done.stderr.count("\n") == 1


def test_the_entry_point_of_the_package_is_the_program():
    project = tomllib.loads((Path(SRC).parent / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"squircuit": "squircuit.cli:main"}
    assert app.info.name == "squircuit"


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("squircuit ", "reproduce"),
        ("squircuit fit mni", "mnist"),
        ("squircuit fit mnist --preset sm", "small"),
        ("squircuit complete m.safetensors x.csv --method mo", "mode"),
        ("squircuit reproduce den", "densities"),
    ],
)
def test_the_shell_completes_commands_names_and_words(typed, expected, monkeypatch):
    done = CliRunner().invoke(
        app,
        [],
        prog_name="squircuit",
        env={"_SQUIRCUIT_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": typed},
    )
    assert expected in done.stdout
