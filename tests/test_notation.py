"""docs/notation.md speaks of things that exist: every name resolves, every file and test is there."""

from __future__ import annotations

import dataclasses
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "docs" / "notation.md").read_text(encoding="utf-8")
SPANS = list(dict.fromkeys(re.findall(r"`([^`\n]+)`", TEXT)))
NAMES = [span for span in SPANS if re.match(r"(sq|squircuit)\.", span)]
PATHS = [span for span in SPANS if re.match(r"(src|examples|tests|docs)/", span)]
FIGURES = re.findall(r"`(\w+)(?:\([^`]*\))?` \| `examples/paper_figures\.py`", TEXT)


def resolve(dotted: str) -> object:
    """The object of a dotted name: the longest module that can be imported, then attributes."""
    parts = dotted.split(".")
    parts[0] = "squircuit"
    for count in range(len(parts), 0, -1):
        name = ".".join(parts[:count])
        try:
            found: object = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if not f"{name}.".startswith(f"{error.name}."):  # a module lacks one that it imports
                raise
            continue
        for part in parts[count:]:
            found = attribute(found, part)
        return found
    raise AssertionError(f"{dotted} cannot be imported")


def attribute(owner: object, name: str) -> object:
    """An attribute, or a field of a dataclass, which has no default to be found on the class."""
    if dataclasses.is_dataclass(owner):
        for item in dataclasses.fields(owner):
            if item.name == name:
                return item
    return getattr(owner, name)


@pytest.mark.parametrize("span", NAMES)
def test_every_name_resolves(span):
    name = re.fullmatch(r"([\w.]+)(\(.*\))?", span)
    assert name, f"{span!r} is neither a dotted name nor a call of one"
    resolve(name[1])


@pytest.mark.parametrize("span", PATHS)
def test_every_path_and_test_exists(span):
    path, _, test = span.partition("::")
    assert (ROOT / path).is_file(), f"{path} does not exist"
    if test:
        source = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^\s*def {re.escape(test)}\(", source, re.MULTILINE), f"{path} has no {test}"


@pytest.mark.parametrize("name", FIGURES)
def test_every_circuit_of_a_figure_is_in_the_examples(name):
    source = (ROOT / "examples" / "paper_figures.py").read_text(encoding="utf-8")
    assert f"def {name}(" in source


def test_the_page_names_something_of_every_kind():
    assert len(NAMES) > 50
    assert len(PATHS) > 50
    assert FIGURES


def test_rows_of_a_table_have_as_many_cells_as_its_head():
    lines = TEXT.splitlines()
    for number, line in enumerate(lines):
        if line.startswith("|") and number and lines[number - 1].startswith("|"):
            assert cells(line) == cells(lines[number - 1]), f"line {number + 1}: {line}"


def cells(row: str) -> int:
    return len(re.findall(r"(?<!\\)\|", row))


@pytest.mark.parametrize("wrong", ["sq.no_such_name", "squircuit.no_such_folder.name", "sq.Layer.no_field"])
def test_a_name_that_is_gone_is_noticed(wrong):
    with pytest.raises(AttributeError):
        resolve(wrong)
