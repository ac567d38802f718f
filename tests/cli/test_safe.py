"""Texts that a spreadsheet would run: written as they are, or with --safe so that it does not."""

import csv
import io

import pytest

from squircuit.cli.tables import as_csv

from .conftest import call

TEXTS = ["=1+1", "+2", "-3", "@sum", "=cmd|' /C calc'!A0", "plain", "a=1", "\tx", "\rx", " =1", "＝1"]


@pytest.fixture(scope="module")
def formulas(tmp_path_factory):
    """A model of a column of such texts and of negative numbers."""
    folder = tmp_path_factory.mktemp("safe")
    lines = ["=who,n", *(f"{text},{-i - 0.5}" for i, text in enumerate(TEXTS[:4] * 6)), ",-1.5"]
    (folder / "x.csv").write_text("\n".join(lines) + "\n")
    call("fit", folder / "x.csv", "--out", folder / "m", "--epochs", 1, "--units", 1, "--set", "size=4",
         "--set", "progress=false")  # fmt: skip
    return folder


def test_texts_that_begin_like_formulas_get_a_mark_and_all_else_stays():
    rows = [[text, -1.5, None] for text in TEXTS]
    found = list(csv.reader(io.StringIO(as_csv(["=a", "b", "c"], rows, safe=True), newline="")))
    assert found[0] == ["'=a", "b", "c"]
    assert all(row[1:] == ["-1.5", ""] for row in found[1:])
    for text, (cell, *_) in zip(TEXTS, found[1:], strict=True):
        assert cell == (text if text in ("plain", "a=1") else f"'{text}")


@pytest.mark.parametrize("command", ["sample", "complete"])
@pytest.mark.parametrize("to_file", [False, True])
def test_only_safe_changes_cells(command, to_file, formulas, tmp_path):
    words = (
        ["sample", formulas / "m", "-n", 20]
        if command == "sample"
        else ["complete", formulas / "m", formulas / "x.csv"]
    )

    def written(*more):
        done = call(*words, *more, *(("--out", tmp_path / "o.csv") if to_file else ()))
        return (tmp_path / "o.csv").read_text() if to_file else done.stdout

    plain, safe = written(), written("--safe")
    assert plain.startswith("=who,n\n")
    assert safe.startswith("'=who,n\n")
    for before, after in zip(plain.splitlines()[1:], safe.splitlines()[1:], strict=True):
        assert after == f"'{before}"  # every text here is one; the numbers are below 0 and stay


def test_score_takes_the_option_and_its_numbers_stay(formulas, tmp_path):
    words = ("score", formulas / "m", formulas / "x.csv", "--out", tmp_path / "s.csv")
    call(*words)
    before = (tmp_path / "s.csv").read_text()
    call(*words, "--safe")
    assert (tmp_path / "s.csv").read_text() == before
    assert "-" in before
