"""The program on damaged files: the exit codes of docs/command-line.md, and never a traceback."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from broken.judge import Case, require, unclear
from broken.models import NAME, crafted_model, originals
from broken.mutate import mutated_bytes
from broken.runs import some_options
from broken.tables import good_files, people, some_table
from typer.testing import CliRunner

from squircuit.cli import app

DONE, FAILED, WRONG_INPUT = 0, 1, 2
DATA = "people.csv"


def call(words: Sequence[Any], codes: Sequence[int] = (DONE, WRONG_INPUT)) -> None:
    """Run the program, which obeys the laws of programs."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    require(
        done.exit_code in codes, "an exit code that is not documented", (done.exit_code, done.output[-300:])
    )
    if done.exit_code == WRONG_INPUT:
        _require_line(done.stderr)
    elif "--json" in words:
        _require_document(done.stdout)


def _require_line(text: str) -> None:
    """Warnings, and one line that says what is wrong."""
    *_, last = text.rstrip("\n").split("\n")
    others = [line for line in text.rstrip("\n").split("\n")[:-1] if not line.startswith("warning: ")]
    require(last.startswith("error: ") and not others, "more than one line of error", text[:600])
    for law, message, _ in unclear(last, ""):
        require(False, law, message[:600])


def _require_document(text: str) -> None:
    def no_constant(name: str) -> None:
        require(False, "JSON with numbers that it does not have", name)

    try:
        document = json.loads(text, parse_constant=no_constant)
    except ValueError:
        require(False, "standard output is no JSON document", text[:300])
    scores = document.get("log_prob", []) if isinstance(document, dict) else []
    require("nan" not in scores, "log p is NaN")


# ---------------------------------------------------------------------- cases


def _questions(folder: Path, rng: Random) -> list[Any]:
    """A command that asks a model of the folder."""
    model, data, json_ = folder / NAME, folder / DATA, ["--json"] * rng.randrange(2)
    commands = (
        ["check", model],
        ["score", model, data],
        ["sample", model, "-n", 3],
        ["sample", model, "-n", 2, "--given", data],
        ["complete", model, data, "--method", rng.choice(("sample", "mean", "mode"))],
        ["score", model, data, "--out", folder / "scores.csv"],
        ["sample", model, "-n", 2, "--out", folder / rng.choice(("rows.csv", "rows.npy"))],
    )
    return [*rng.choice(commands), *json_]


def _model_case(rng: Random) -> Case:
    """A changed model and good data."""
    seed, files = rng.random(), {NAME: crafted_model(rng), DATA: people()}
    return Case("command: changed model", files, lambda folder: call(_questions(folder, Random(seed))))


def _data_case(rng: Random) -> Case:
    """A good model and changed data."""
    seed, files = rng.random(), {NAME: originals()[-1].content, DATA: some_table(rng)}
    return Case("command: changed data", files, lambda folder: call(_questions(folder, Random(seed))))


def _show_case(rng: Random) -> Case:
    """The types of the columns of a damaged file."""
    path, contents = rng.choice([entry for entry in good_files() if ".idx" not in entry[0]])
    name = rng.choice(sorted(contents))
    files = {**contents, name: mutated_bytes(contents[name], rng)}
    words = ["--json"] * rng.randrange(2)
    return Case("command: data show", files, lambda folder: call(["data", "show", folder / path, *words]))


def _circuit_case(rng: Random) -> Case:
    """A damaged circuit as JSON."""
    text = rng.choice(originals()).model.circuit().to_json(weights=rng.random() < 0.5)
    files = {"circuit.json": mutated_bytes(text.encode(), rng)}
    return Case("command: check JSON", files, lambda folder: call(["check", folder / "circuit.json"]))


def _fit_case(rng: Random) -> Case:
    """A short training with damaged data or options."""
    both = rng.random() < 0.5
    files = {DATA: some_table(rng) if both else people(), "options.toml": b"" if both else some_options(rng)}

    def read(folder: Path) -> None:
        words = ["fit", folder / DATA, "--out", folder / NAME, "--config", folder / "options.toml"]
        call(
            [*words, "--epochs", 1, "--set", "units=2", "--set", "size=4", "--json"],
            (DONE, FAILED, WRONG_INPUT),
        )

    return Case("command: fit", files, read)


CASES: tuple[tuple[float, Callable[[Random], Case]], ...] = (
    (2.5, _model_case),
    (2, _data_case),
    (1, _show_case),
    (0.5, _circuit_case),
    (0.3, _fit_case),
)
"""How often, and what."""
