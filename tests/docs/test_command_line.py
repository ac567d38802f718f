"""The commands in docs/command-line.md and docs/troubleshooting.md do what the pages show."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from squircuit.cli import app

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "command-line.md"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks(page: Path, kind: str) -> list[tuple[str, str]]:
    """What stands after the kind of a fenced block, and its content."""
    return re.findall(
        rf"^```{kind} ?(.*?)\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


def commands(page: Path) -> list[tuple[str, str]]:
    """All commands of the page in order, and the output that it shows."""
    text = "".join(content for _, content in blocks(page, "console"))
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    return [(part.partition("\n")[0], part.partition("\n")[2]) for part in parts]


@pytest.mark.parametrize("name", ["command-line.md", "troubleshooting.md"])
def test_every_command_of_the_page_prints_what_is_shown(name, tmp_path, monkeypatch):
    page = DOCS / name
    monkeypatch.chdir(tmp_path)
    for file, content in blocks(page, "text"):
        Path(file).write_text(content, encoding="utf-8")
    assert len(commands(page)) > 10
    for line, expected in commands(page):
        program, *words = shlex.split(line)
        done = CliRunner().invoke(app, words)
        found = done.stderr if expected.startswith("error: ") else done.stdout
        assert program == "squircuit"
        assert doctest.OutputChecker().check_output(expected, found, FLAGS), f"{line}\n{found}{done.stderr}"


def test_every_command_is_on_the_page_and_has_a_row_in_the_first_table():
    named = set(re.findall(r"^\| `squircuit (\w+)", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    known = {command.name or command.callback.__name__ for command in app.registered_commands}
    assert named == known | {group.typer_instance.info.name for group in app.registered_groups}
