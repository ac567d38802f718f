"""One seed: a circuit, its history, its questions, and what was wrong."""

from __future__ import annotations

import re
import traceback
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from fuzz import circuits, drawing, histories, many_masks
from fuzz.circuits import Random, chance
from fuzz.functions import TooLargeError
from fuzz.oracle import is_block
from fuzz.program import Program, listing
from fuzz.questions import ExpectationOf, LogProb, OfEvidence, Problem, Question, StaysNormalised, Subject
from fuzz.verdicts import CircuitQuestion, CircuitSubject, refused
from squircuit.errors import DataError, ParameterError, SquircuitError, StructureError

NEW = ("sq.Transformed(", "sq.Bins", "sq.MultivariateGaussian", "'transformed'", "'bins'", "fit_mixture(")
"""What transformed columns, bins and blocks are made with."""
MANY = 0.3
"""How often a model is asked about many rows that lack different variables, too."""


@dataclass
class Failure:
    """A problem, and the program that shows it."""

    seed: int
    problem: Problem
    lines: list[str]
    model: str
    question: Question | CircuitQuestion | None = None

    def text(self) -> str:
        """The failure for people: what differed, and a program that shows it."""
        problem = self.problem
        head = f"seed {self.seed}: {problem.kind}\n  got      {problem.got}\n  expected {problem.expected}"
        lines = list(self.lines)
        if self.question is not None:
            lines += [f"{name} = {value}" for name, value in self.question.names().items()]
            lines.append(f"print({self.question.expression(self.model)})  # expected {self.problem.expected}")
        return f"{head}\n{listing(lines)}\n"


@dataclass
class Result:
    """What one seed came to."""

    seed: int
    compared: int = 0
    refused: bool = False
    new: bool = False  # there are transformed columns, bins or blocks
    failures: list[Failure] = field(default_factory=list)


def run(seed: int) -> Result:
    """One seed."""
    result = Result(seed)
    random = np.random.default_rng(seed)
    program = Program()
    torch.manual_seed(seed)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        _run(program, random, result)
    return result


def _run(program: Program, random: Random, result: Result) -> None:
    of_circuit = chance(random, 0.35)
    try:
        if of_circuit:
            name = circuits.drawn_circuit(program, random)
            if not program.names[name].has_weights:
                program.do(f"{name} = {name}.initialise(seed={int(random.integers(1000))})")
        else:
            name = circuits.drawn_model(program, random)
            program.do(f"{name}.eval()")
    except SquircuitError:
        result.refused = True
        return
    except Exception as error:
        result.failures.append(Failure(result.seed, raised("construction", error), program.lines, ""))
        return
    result.new = any(word in line for line in program.lines for word in NEW)
    if of_circuit:
        _asked_circuit(program, name, random, result)
    elif chance(random, 0.45):
        _asked(program, name, random, result, 2)
        if not _aged(program, name, random, result):
            return
        _asked(program, name, random, result, 4)
    else:
        _asked(program, name, random, result, 4)


def _aged(program: Program, name: str, random: Random, result: Result) -> bool:
    """Give the model a history; False where nothing more is to be asked."""
    try:
        subject = Subject(program, name)
        if not subject.is_sound:
            return False
        x = drawing.rows(subject, random, 6)
        log, error = subject.relative(x, np.zeros(x.shape, bool))
        x = x[(error < 0.01) & (log > -300)]
    except TooLargeError:
        return False
    if not len(x):
        return False
    begins = subject.model.is_normalised()
    discrete = all(subject.oracle.is_discrete(v) for v in subject.oracle.variables)
    has = any(True for _ in subject.model.parameters())
    lines = histories.history(random, name, x, discrete, has)
    try:
        program.do(histories.warm(random, name))
    except SquircuitError:
        program.lines.pop()
    except Exception as error:
        result.failures.append(Failure(result.seed, raised("history", error), list(program.lines), name))
        return False
    try:
        for line in lines:
            program.do(line)
    except StructureError:
        return subject.oracle.roots_agree() is False
    except SquircuitError:
        return False
    except FloatingPointError as error:  # which says that gradients are too large
        if not (_has_odd_scales(program.names[name]) or _has_large_gradients(program.names[name])):
            result.failures.append(Failure(result.seed, raised("history", error), list(program.lines), name))
        return False
    except Exception as error:
        result.failures.append(Failure(result.seed, raised("history", error), list(program.lines), name))
        return False
    if not _has_numbers(program, name, lines, result):
        return False
    polar = len(lines) > 1 and "Polar" in lines[-2] and "0.1" in lines[-2]
    if begins and polar and not any("randn" in each for each in lines):
        _stays(program, name, lines, result)
    return True


def _has_odd_scales(model: Any) -> bool:
    """Some row of a weight is so large or small that gradients, or one over them, are no numbers any more."""
    sizes = [_row_sizes(value.detach().numpy()) for value in model.state_dict().values() if value.numel()]
    return any(bool(((size > 0) & ~((size > 1e-9) & (size < 1e9))).any()) for size in sizes)


def _has_large_gradients(model: Any) -> bool:
    """The square of some gradient, all of them numbers, is out of the range of its own precision.

    That is so, for instance, of data a million scales from where a model is: the share of an input whose
    weight is zero may be any number of times that of the others.
    """
    found = [p.grad.abs() for p in model.parameters() if p.grad is not None]
    if not all(bool(g.isfinite().all()) for g in found):
        return False
    return any(bool((g > 0.01 * torch.finfo(g.dtype).max ** 0.5).any()) for g in found)


def _row_sizes(value: Any) -> Any:
    """The largest entry of every row."""
    return np.abs(value).max(axis=-1) if value.ndim else np.abs(value)


def _has_no_squares(subject: Any) -> bool:
    """A unit may be beyond 1e±100, or Z is beyond 1e±300: its squares beside those of others are no doubles.

    A unit has at most the factors of all weights below it. Refusing such a model is honest; an answer is
    compared like any other.
    """
    if abs(subject.oracle.log_z) > 690:
        return True
    rows = [_row_sizes(value) for value in subject.weights.values() if value.size]
    sizes = [size[size > 0] for size in rows if bool((size > 0).any())]
    return sum(float(np.abs(np.log10(size)).max()) for size in sizes) > 100


def _stays(program: Program, name: str, lines: list[str], result: Result) -> None:
    """Polar keeps a model normalised, whatever came before, if that left it so."""
    if any(f" {factor} * v" in line for line in lines for factor in (0.5, 1.5, 3.0, 1e-06)):
        return
    try:
        subject, question = Subject(program, name), StaysNormalised()
        problem = answer(subject, question) if subject.is_sound else None
    except TooLargeError:
        return
    if problem:
        result.failures.append(Failure(result.seed, problem, list(program.lines), name, question))


def _has_numbers(program: Program, name: str, lines: list[str], result: Result) -> bool:
    """Whether weights are still numbers; steps of bounded size never make anything else of them."""
    values = [value for key, value in program.names[name].state_dict().items() if key != "root_logits"]
    logits = getattr(program.names[name], "root_logits", torch.zeros(1))
    if all(bool(value.isfinite().all()) for value in values) and not bool(
        torch.softmax(logits, 0).isnan().any()
    ):
        return True
    if any(line.startswith("o = ") and "SGD" not in line for line in lines):
        problem = Problem("history", "NaN", "numbers", "training makes weights NaN")
        result.failures.append(Failure(result.seed, problem, list(program.lines), name))
    return False


def _asked(program: Program, name: str, random: Random, result: Result, count: int) -> None:
    """Ask some questions and compare the answers."""
    try:
        subject = Subject(program, name)
        if not subject.is_sound:
            return
    except (TooLargeError, np.linalg.LinAlgError):  # covariances that are singular in the oracle's doubles
        return
    except Exception as error:
        result.failures.append(Failure(result.seed, raised("circuit()", error), list(program.lines), name))
        return
    fresh = drawing.fresh(subject, random) if _is_fresh(program, name) else None
    for number in range(count):
        try:
            question = fresh if fresh and number == 0 else drawing.question(subject, random)
            problem = answer(subject, question)
        except TooLargeError:
            continue
        if problem is not None:
            result.failures.append(Failure(result.seed, problem, list(program.lines), name, question))
    _asked_many(program, name, subject, result)
    result.compared += subject.compared


def _asked_many(program: Program, name: str, subject: Subject, result: Result) -> None:
    """Ask a question of many rows; what else a seed does is drawn as if there were none."""
    random = np.random.default_rng([result.seed, len(program.lines)])
    if not chance(random, MANY):
        return
    try:
        question = many_masks.question(subject, random)
        problem = answer(subject, question)
    except TooLargeError:
        return
    if problem is not None:
        result.failures.append(Failure(result.seed, problem, list(program.lines), name, question))


def _is_fresh(program: Program, name: str) -> bool:
    """Nothing has happened to the model since it was made."""
    made = [line for line in program.lines if re.match(rf"{name}\b|for |with |own |t = |o = ", line)]
    return len(made) == 2


def _asked_circuit(program: Program, name: str, random: Random, result: Result) -> None:
    """Ask a circuit."""
    try:
        subject = CircuitSubject(program, name)
        if not subject.is_sound:
            return
        for _ in range(6):
            question = drawing.circuit_question(subject, random)
            problem = answer(subject, question)
            if problem is not None:
                result.failures.append(Failure(result.seed, problem, list(program.lines), name, question))
    except TooLargeError:
        return
    result.compared += subject.compared


def answer(subject: Any, question: Any) -> Problem | None:
    """Ask one question; what is wrong with the answer, or None."""
    if isinstance(question, Question) and not question.applies(subject):
        return None
    for name, value in question.names().items():
        subject.program.names[name] = subject.program.ask(value)
    try:
        found = subject.program.ask(question.expression(subject.name))
    except StructureError as error:
        if error.property == "finite" and isinstance(question, OfEvidence) and question.is_far_out(subject):
            subject.compared += 1
            return None
        refuse = refused if isinstance(question, CircuitQuestion) else refusal
        return refuse(subject, question, error)
    except (ParameterError, DataError) as error:  # which say that weights are too large or small, or Z is 0
        if isinstance(question, Question) and any(map(_has_no_squares, question.about(subject))):
            return None
        if "too far apart" in str(error) and any(
            subject.oracle.index(v) == 0 for v in subject.oracle.variables
        ):
            return None  # exp of exp of what the functions are, which is beyond all doubles
        return raised(question.kind, error)
    except Exception as error:
        return raised(question.kind, error)
    finally:
        if isinstance(question, Question):
            subject.model.eval()  # also where a question in training mode is refused
    if isinstance(question, OfEvidence) and question.is_far_out(subject):
        if not question.is_infinite(subject):
            return None
        return Problem(question.kind, str(found), "a refusal, for it is infinite", "infinite")
    return question.check(subject, found)


def refusal(subject: Subject, question: Question, error: Exception) -> Problem | None:
    """A circuit that is not tractable may be refused, if all roads refuse it."""
    subject.compared += 1
    if _is_not_of_one_kind(subject, error):
        return None
    if is_tractable(subject) and not (
        isinstance(question, ExpectationOf) and not subject.oracle.roots_agree()
    ):
        return Problem(question.kind, f"StructureError: {error}", "an answer", "refused")
    if isinstance(question, LogProb) and question.missing is None and len(question.x):
        hidden = np.zeros((1, subject.oracle.width), bool)
        hidden[0, subject.oracle.variables[0]] = True
        other = LogProb(question.x[:1], hidden)
        if not _is_refused(subject, other):
            return Problem(
                question.kind, f"StructureError: {error}", "an answer, as with missing=", "one road"
            )
    return None


def _is_not_of_one_kind(subject: Subject, error: StructureError) -> bool:
    """A block below a sum whose cross terms count, or beside layers over its variables alone.

    The one is not joined into a tree, and the other has no moments in closed form.
    """
    oracle = subject.oracle
    many = any(type(a).__name__ == "Sum" and len(a.inputs) > 1 for a in oracle.layers())
    if oracle.has_blocks and many and error.property == "over single variables":
        return True
    kinds: dict[int, set[bool]] = {}
    for layer in oracle.inputs:
        for v in layer.variables:
            kinds.setdefault(v, set()).add(is_block(layer.family))
    return error.property == "over blocks or over single variables" and any(
        len(k) > 1 for k in kinds.values()
    )


def _is_refused(subject: Subject, question: Question) -> bool:
    for name, value in question.names().items():
        subject.program.names[name] = subject.program.ask(value)
    try:
        subject.program.ask(question.expression(subject.name))
    except SquircuitError:
        return True
    return False


def is_tractable(subject: Subject) -> bool:
    """Of each root layer by itself: structured-decomposable, or declared (U1), (U4) and on the manifold."""
    return all(_is_tractable(subject, root) for root in subject.oracle.circuit.roots)


def _is_tractable(subject: Subject, root: Any) -> bool:
    oracle = subject.oracle
    if oracle.splits_agree([root]) and oracle.blocks_agree([root]):
        return True
    if oracle.blocks_overlap([root]):
        return False
    for layer in oracle.layers([root]):
        weight = getattr(layer, "weight", None)
        if weight is not None and weight.constraint not in ("semi-unitary", "fixed"):
            return False
    if not _is_promised([layer for layer in oracle.layers([root]) if not layer.inputs]):
        return False
    limit = 1e-10 if subject.precision < 1e-10 else 1e-6
    # a parameter is on the manifold as a whole: rows that other roots use, and have moved, count
    held = [getattr(layer, "weight", None) for layer in oracle.layers([root])]
    whole = [oracle.value(p) for p in held if p is not None and p.constraint == "semi-unitary"]
    error = max((float(np.abs(w @ w.conj().T - np.eye(len(w))).max()) for w in whole), default=0.0)
    return (
        oracle.inputs_apart(True, [root])
        and max(oracle.input_error([root]), oracle.sum_error([root]), error) < limit
    )


def _is_promised(inputs: list[Any]) -> bool:
    """Input layers over one variable are orthogonal for all weights that their constraints allow.

    They are rows of one matrix over the same functions, or nothing of them is learnt.
    """
    for i, a in enumerate(inputs):
        for b in inputs[i + 1 :]:
            one = a.weight is b.weight and a.family == b.family and dict(a.parameters) == dict(b.parameters)
            learnt = a.parameters or b.parameters or any(x.weight is None for x in (a, b))
            fixed = not learnt and all(x.weight.constraint == "fixed" for x in (a, b))
            if set(a.variables) & set(b.variables) and not (one or fixed):
                return False
    return True


def raised(question: str, error: Exception) -> Problem:
    """An error that is none of the library's own, or should not be."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "squircuit" in f.filename]
    where = f" at {frames[-1].filename.rpartition('squircuit/')[2]}:{frames[-1].lineno}" if frames else ""
    message = str(error).split("\n")[0][:200]
    return Problem(
        question, f"{type(error).__name__}: {message}{where}", "an answer", f"{type(error).__name__}{where}"
    )
