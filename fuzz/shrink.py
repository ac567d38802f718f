"""Failures made smaller: fewer lines, fewer rows, fewer layers, as long as they fail in the same way."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from fuzz.case import Failure, answer, raised
from fuzz.functions import TooLargeError
from fuzz.program import Program
from fuzz.questions import Problem, Question, Subject
from fuzz.verdicts import CircuitQuestion, CircuitSubject
from squircuit.errors import SquircuitError

NAME = re.compile(r"[a-z]\d+")
LIST = re.compile(r"\[([a-z]\d+(?:, [a-z]\d+)+)\]")
SUM = re.compile(r"sq\.Sum\((\[[^\]]*\]|\w+), weight=(.*)\)$")
OPTION = re.compile(
    r", (?:parameters=\{[^}]*\}|root_weights=\w+|input_sums=True|\w+=(?:2|3|'learnable'|'inputs'))"
)
LAYER = re.compile(r"^(a\d+) = sq\.\w+\(.*$")


def shrunk(failure: Failure, seconds: float = 20.0) -> Failure:
    """A smaller failure of the same kind; the same one where it cannot be shown again."""
    best, end = failure, time.monotonic() + seconds
    problem = replayed(failure.lines, failure.model, failure.question)
    if problem is None or problem.kind != failure.problem.kind:
        return failure
    needed = replace(failure, lines=_needed(failure.lines))
    problem = replayed(needed.lines, needed.model, needed.question)
    if problem is not None and problem.kind == failure.problem.kind:
        best = needed
    progress = True
    while progress and time.monotonic() < end:
        progress = False
        for smaller in _smaller(best):
            if time.monotonic() > end:
                break
            problem = replayed(smaller.lines, smaller.model, smaller.question)
            if problem is not None and problem.kind == failure.problem.kind:
                best, progress = replace(smaller, problem=problem), True
                break
    return best


def replayed(lines: list[str], model: str, question: Question | CircuitQuestion | None) -> Problem | None:
    """What goes wrong when a program is run again and asked."""
    program = Program()
    torch.manual_seed(0)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            for line in lines:
                program.do(line)
        except SquircuitError:
            return None
        except Exception as error:
            return raised("history" if model else "construction", error) if question is None else None
        if question is None:
            return None
        try:
            kind = CircuitSubject if isinstance(question, CircuitQuestion) else Subject
            subject = kind(program, model)
            return answer(subject, question) if subject.is_sound else None
        except (TooLargeError, KeyError, IndexError, AttributeError, ValueError):
            return None


def _needed(lines: list[str]) -> list[str]:
    """Lines without values that nothing uses."""
    kept: list[str] = []
    for line in reversed(lines):
        name, equals, _ = line.partition(" = ")
        is_value = bool(equals) and NAME.fullmatch(name) is not None and not name.startswith("m")
        if not is_value or any(re.search(rf"\b{name}\b", other) for other in kept):
            kept.append(line)
    return kept[::-1]


def _smaller(failure: Failure) -> Iterator[Failure]:
    """Failures with one thing less."""
    for number in reversed(range(len(failure.lines))):
        lines = [*failure.lines[:number], *failure.lines[number + 1 :]]
        if not failure.model.startswith("m") or failure.question is None or _is_asked_well(lines):
            yield replace(failure, lines=lines)
    for question in failure.question.smaller() if failure.question is not None else ():
        yield replace(failure, question=question)
    for number in reversed(range(len(failure.lines))):
        for line in _rewritten(failure.lines[number]):
            yield replace(failure, lines=[*failure.lines[:number], line, *failure.lines[number + 1 :]])


def _is_asked_well(lines: list[str]) -> bool:
    """Models are asked in evaluation mode: in training mode unitary ones are taken to be normalised."""
    return bool(lines) and (lines[-1].endswith(".eval()") or lines[-1].startswith("sq.fit("))


def _rewritten(line: str) -> Iterator[str]:
    """A line with less in it."""
    for match in OPTION.finditer(line):
        yield line[: match.start()] + line[match.end() :]
    found = LAYER.match(line)
    if found:
        for item in dict.fromkeys(re.findall(r"\ba\d+\b", line)[1:]):
            yield f"{found.group(1)} = {item}"
    for match in LIST.finditer(line):
        items = match.group(1).split(", ")
        for place in range(len(items)):
            rest = [*items[:place], *items[place + 1 :]]
            shown = rest[0] if len(rest) == 1 and "mixture" not in line else f"[{', '.join(rest)}]"
            yield line[: match.start()] + shown + line[match.end() :]
    total = SUM.search(line)
    if total:
        for units in (1, 2):
            yield line[: total.start()] + f"sq.Sum({total.group(1)}, {units})"
            items = total.group(1).strip("[]").split(", ")
            for place in range(len(items) if len(items) > 1 else 0):
                rest = ", ".join([*items[:place], *items[place + 1 :]])
                yield line[: total.start()] + f"sq.Sum([{rest}], {units})"
