"""Every error says what to do: the sources are read."""

import ast
from pathlib import Path

import pytest

import squircuit as sq

ROOT = Path(sq.__file__).resolve().parent
FILES = sorted(ROOT.rglob("*.py"))
ERRORS = {"SquircuitError", "ParameterError", "DataError", "FormatError", "FloatingPointError"}
PLAIN = {"ValueError", "warn"}  # in data/, readers catch those of one another and say the fix themselves
PASSED_ON = (
    "{error}",
    "_what_to_put_where(",
    "_fix(",
)  # what another error, or a function that ends in a fix, says


def silent(source, errors=ERRORS):
    """Lines on which an error is made that neither says a fix nor passes on what another error says."""
    for node in ast.walk(ast.parse(source)):
        name = isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", None))
        if name in errors:
            text = ast.get_source_segment(source, node)
            if not any(part in text for part in ("Fix: ", "fix=", *PASSED_ON)):
                yield node.lineno


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_every_error_carries_a_fix(file):
    errors = ERRORS if file.parent.name == "data" else ERRORS | PLAIN
    assert list(silent(file.read_text(encoding="utf-8"), errors)) == []
