"""A small table with gaps, a model of it, and the program as a function."""

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import squircuit as sq
from squircuit.cli import app

NAMES = ("group", "children", "height", "wind")
COLUMNS = ("--columns", "wind=periodic:360")


def call(*words, code=0):
    """Run the program; it must end with this code."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == code, f"exit code {done.exit_code}: {done.output} {done.exception!r}"
    return done


def error_line(*words, code=2):
    """The one line that the program says of a mistake."""
    done = call(*words, code=code)
    assert done.stderr.count("\n") == 1
    return done.stderr.rstrip("\n")


def document(*words, code=0):
    """What the program says for machines, which is all of its standard output."""
    return json.loads(call(*words, "--json", code=code).stdout)


def table_of(text):
    """Lines of CSV: names, and rows of texts."""
    names, *rows = csv.reader(text.splitlines())
    return names, rows


def write_people(path, n=160, gaps=0.1, seed=0):
    """Rows of a category, a count, a number and an angle; some cells are empty."""
    rng = np.random.default_rng(seed)
    group = rng.integers(3, size=n)
    columns = [
        np.array(["a", "b", "c"])[group],
        rng.integers(4, size=n).astype(str),
        np.round(1.6 + 0.1 * group + 0.05 * rng.normal(size=n), 3).astype(str),
        np.round(rng.uniform(0, 360, size=n), 1).astype(str),
    ]
    cells = np.where(rng.random((n, 4)) < gaps, "", np.stack(columns, axis=1))
    lines = [",".join(row) for row in [NAMES, *cells]]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cli")


@pytest.fixture(scope="session")
def people(folder):
    return write_people(folder / "people.csv")


@pytest.fixture(scope="session")
def model_file(folder, people):
    """A model of the people that the program trained."""
    file = folder / "people.safetensors"
    call("fit", people, *COLUMNS, "--out", file, "--epochs", 2, "--set", "size=8", "--set", "progress=false")
    return file


@pytest.fixture(scope="session")
def image_file(folder):
    """A model of images of 4×4 pixels with 3 levels, not trained."""
    file = folder / "images.safetensors"
    sq.image_model((4, 4), units=2, levels=3, seed=1).save(file)
    return file
