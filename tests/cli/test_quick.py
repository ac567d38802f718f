"""The program answers without torch what needs no model, in the words that the library knows."""

import importlib
import os
import subprocess
import sys
from typing import get_type_hints

import pytest

import squircuit as sq
from squircuit.cli.arguments import DATA_SETS
from squircuit.cli.commands import check, complete, compress, data, fit, mix, plot, sample, score
from squircuit.inference.imputation import HOW

from .test_program import SRC

COMMANDS = [
    check.check, complete.complete, compress.compress, compress.decompress, fit.fit, mix.mix, plot.plot,
    sample.sample, score.score,
    data.list_, data.fetch, data.verify_, data.show,
]  # fmt: skip


@pytest.mark.process
@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["score"],
        ["fit", "--help"],
        ["sample", "m", "-n", "many"],
        ["fit", "nowhere.csv"],
        ["score", "nowhere.safetensors", "nowhere.csv"],
    ],
)
def test_help_and_mistakes_of_arguments_do_not_wait_for_torch(words):
    code = (
        "import sys; from squircuit.cli import app\n"
        f"try: app({words!r})\n"
        "except (SystemExit, ValueError): pass\n"
        "print([m for m in ('torch', 'scipy', 'pandas') if m in sys.modules])"
    )
    env = os.environ | {"PYTHONPATH": SRC}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("declared", COMMANDS)
def test_each_command_passes_on_what_its_work_takes(declared):
    module = importlib.import_module(f"squircuit.cli.{declared.__module__.rpartition('.')[2]}")
    call = getattr(module, "Call", None)  # of a command with many words: they are its fields
    taken = get_type_hints(getattr(module, declared.__name__) if call is None else call)
    assert get_type_hints(declared.__wrapped__) == {"return": type(None)} | taken


def test_words_that_shells_complete_are_those_of_the_library():
    assert list(DATA_SETS) == sq.data.names()
    assert complete.METHODS == HOW
