"""The list of mutants cannot rot, and the script that makes them tells the dead from the living."""

import dataclasses
import subprocess
import sys
from collections import Counter

import pytest

import kill_mutants
from kill_mutants import ROOT, SOURCES, mutants, run

LISTED = {mutant.name: mutant for mutant in mutants()}


def test_every_mutant_has_a_name_of_its_own():
    assert Counter(mutant.name for mutant in mutants()).most_common(1)[0][1] == 1


@pytest.mark.parametrize("name", LISTED)
def test_the_text_of_a_mutant_occurs_exactly_once_and_is_replaced_by_a_program(name):
    mutant = LISTED[name]
    assert mutant.problem() is None
    assert mutant.replacement != mutant.original
    text = (SOURCES / mutant.file).read_text(encoding="utf-8")
    compile(text.replace(mutant.original, mutant.replacement), mutant.file, "exec")


@pytest.mark.parametrize("name", LISTED)
def test_the_tests_that_kill_a_mutant_are_there(name):
    assert LISTED[name].killed_by
    for target in LISTED[name].killed_by:
        file, _, test = target.partition("::")
        text = (ROOT / file).read_text(encoding="utf-8")
        assert not test or f"def {test}(" in text or f"class {test}(" in text


def test_a_mistake_is_killed_and_none_survives_and_the_sources_stay_as_they_were():
    mutant = LISTED["quadrature-first-panel"]
    file = SOURCES / mutant.file
    before = file.read_bytes()
    assert run(mutant).verdict == "killed"
    assert run(dataclasses.replace(mutant, replacement=mutant.original)).verdict == "SURVIVED"
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "wrong", [{"original": "no such text"}, {"original": "half"}, {"file": "families/none.py"}]
)
def test_a_text_that_is_not_there_exactly_once_is_told_before_any_test_runs(wrong):
    mutant = dataclasses.replace(LISTED["quadrature-first-panel"], **wrong)
    assert run(mutant).verdict == "BROKEN"
    assert not run(mutant).is_good


def test_the_exit_code_tells_of_a_survivor(monkeypatch, capsys):
    verdicts = {"haar-sign": "killed", "fourier-shift": "SURVIVED"}
    monkeypatch.setattr(kill_mutants, "_tested", lambda *_: (kill_mutants.PASSED, ""))
    monkeypatch.setattr(
        kill_mutants, "run", lambda mutant: kill_mutants.Outcome(mutant, verdicts[mutant.name])
    )
    for names, code in (["haar-sign"], 0), (["haar-sign", "fourier-shift"], 1):
        monkeypatch.setattr(sys, "argv", ["kill_mutants.py", *names])
        assert kill_mutants.main() == code
    assert "1 of 2 mutants were killed" in capsys.readouterr().out


def test_an_unknown_name_is_refused():
    with pytest.raises(SystemExit, match="no mutant is called nothing"):
        kill_mutants._chosen(["nothing"])


def test_tests_that_take_too_long_count_as_failed(monkeypatch):
    def endless(*_, **__):
        raise subprocess.TimeoutExpired("pytest", 1)

    monkeypatch.setattr(subprocess, "run", endless)
    assert run(LISTED["quadrature-first-panel"]).verdict == "killed"
