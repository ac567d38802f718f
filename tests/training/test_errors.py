"""Every error says what to do: the sources of the folders that users meet first are read."""

import ast
from pathlib import Path

import pytest

import squircuit as sq

ROOT = Path(sq.__file__).resolve().parent
FOLDERS = ("cli", "training", "estimators", "optim", "storage")
FILES = sorted(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py"))
ERRORS = {"ParameterError", "DataError", "FormatError", "FloatingPointError", "ValueError", "warn"}


def silent(source):
    """Lines on which an error is made that neither says a fix nor passes on what another error says."""
    for node in ast.walk(ast.parse(source)):
        name = isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", None))
        if name in ERRORS:
            text = ast.get_source_segment(source, node)
            if "Fix: " not in text and "fix=" not in text and "{error}" not in text:
                yield node.lineno


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_every_error_carries_a_fix(file):
    assert list(silent(file.read_text(encoding="utf-8"))) == []
