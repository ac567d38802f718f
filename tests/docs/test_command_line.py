"""The commands in docs/command-line.md do what the page shows."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

from typer.testing import CliRunner

from squircuit.cli import app

PAGE = Path(__file__).resolve().parents[2] / "docs" / "command-line.md"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks(kind: str) -> list[tuple[str, str]]:
    """What stands after the kind of a fenced block, and its content."""
    return re.findall(
        rf"^```{kind} ?(.*?)\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


def commands() -> list[tuple[str, str]]:
    """All commands of the page in order, and the output that it shows."""
    text = "".join(content for _, content in blocks("console"))
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    return [(part.partition("\n")[0], part.partition("\n")[2]) for part in parts]


def test_every_command_of_the_page_prints_what_is_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, content in blocks("text"):
        Path(name).write_text(content, encoding="utf-8")
    assert len(commands()) > 10
    for line, expected in commands():
        program, *words = shlex.split(line)
        done = CliRunner().invoke(app, words)
        found = done.stderr if expected.startswith("error: ") else done.stdout
        assert program == "squircuit"
        assert doctest.OutputChecker().check_output(expected, found, FLAGS), f"{line}\n{found}{done.stderr}"


def test_every_command_is_on_the_page_and_has_a_row_in_the_first_table():
    named = set(re.findall(r"^\| `squircuit (\w+)", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    known = {command.name or command.callback.__name__ for command in app.registered_commands}
    assert named == known | {group.typer_instance.info.name for group in app.registered_groups}
