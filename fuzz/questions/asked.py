"""What a question is, the model that it is put to, and how answers are compared."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from fuzz.functions import Array
from fuzz.oracle import Oracle
from fuzz.program import Program, tensor
from fuzz.tails import HARD

ULPS = 16  #: units in the last place, of the sum of absolute values, that an answer may be off
SINGLE, DOUBLE = 2.0**-24, 2.0**-53
ROUNDING = 1e-12  #: the same in double precision, where the oracle rounds as well
ILL = 0.02  #: what rounding may change by more than this is not compared
ALARM = 1e-10  #: the probability of a false alarm of one test of samples


@dataclass(frozen=True)
class Problem:
    """A difference between the library and the oracle."""

    question: str  # which kind
    got: str
    expected: str
    detail: str = ""

    @property
    def kind(self) -> str:
        """Failures of one kind have most likely one cause."""
        return f"{self.question}: {self.detail}" if self.detail else self.question


class Subject:
    """A model as it is now, and the oracle of its present weights.

    Args:
        program: that made the model.
        name: of the model in it.
        model: another one in its place.
    """

    def __init__(self, program: Program, name: str, model: Any = None) -> None:
        self.program, self.name = program, name
        self.model = program.names[name] if model is None else model
        self.precision = DOUBLE if self.model.precision == torch.float64 else SINGLE
        circuit = self.model.circuit()
        self.weights = {key: value.detach().numpy() for key, value in circuit.weights.items()}
        self.oracle = Oracle(circuit, self.weights, self.precision)
        self.compared = 0

    @property
    def is_finite(self) -> bool:
        """All weights are numbers."""
        return all(bool(np.isfinite(value).all()) for value in self.weights.values())

    @property
    def unit(self) -> float:
        """What an answer may be off, relative to the sum of absolute values."""
        return ROUNDING if self.precision == DOUBLE else ULPS * SINGLE

    @property
    def slack(self) -> float:
        """How far Z may be from 1 where it is taken to be 1, or terms from 0 that are taken to vanish."""
        return 1e-7 if self.precision == DOUBLE else 5e-4

    @property
    def z_error(self) -> float:
        """The relative error that Z may have."""
        oracle = self.oracle
        return self.unit * (oracle.z_rounding + abs(oracle.log_z)) + self.slack + oracle.rule_rounding

    @property
    def is_sound(self) -> bool:
        """There is a density, and rounding leaves its digits alone."""
        return self.is_finite and math.isfinite(self.oracle.log_z) and self.z_error < ILL

    def log_prob(self, x: Array, missing: Array) -> tuple[Array, Array]:
        """log p of the observed entries of rows and the logarithm of its tolerance: (n,) each."""
        oracle = self.oracle
        log, bound = np.zeros(len(x)), np.zeros(len(x))
        for mask in np.unique(missing, axis=0):
            rows = np.flatnonzero((missing == mask).all(axis=1))
            hidden = [v for v in oracle.variables if mask[v]]
            for some in rows[:, None] if oracle.cuts_blocks(hidden) else [rows]:
                table = oracle.table(x[some], hidden)
                log[some], bound[some] = table.total(), table.total_bound()
        return self._normalised(log, bound)

    def _normalised(self, log: Array, bound: Array) -> tuple[Array, Array]:
        oracle, unit = self.oracle, self.unit
        size = np.where(np.isfinite(log), np.abs(log), 0) + abs(oracle.log_z)
        relative = np.log(self.z_error + unit * size)
        tolerance = np.logaddexp(bound + math.log(unit), log + relative)
        return log - oracle.log_z, tolerance - oracle.log_z

    def relative(self, x: Array, missing: Array) -> tuple[Array, Array]:
        """log p of evidence and its relative tolerance."""
        log, tolerance = self.log_prob(x, missing)
        with np.errstate(invalid="ignore"):
            return log, np.where(np.isfinite(log), np.exp(np.minimum(tolerance - log, 50)), np.inf)

    @property
    def nothing(self) -> tuple[Array, Array]:
        """One row in which everything is missing."""
        d = self.oracle.width
        missing = np.isin(np.arange(d), self.oracle.variables)
        return np.zeros((1, d)), missing[None]


def different(
    subject: Subject, question: str, got: Any, log: Array, tolerance: Array, detail: str = ""
) -> Problem | None:
    """Logarithms of densities against those of the oracle, compared as densities."""
    found = got.detach().double().numpy() if isinstance(got, torch.Tensor) else np.asarray(got, float)
    subject.compared += log.size
    if found.shape != log.shape:
        return Problem(question, str(found.shape), str(log.shape), "shape")
    wrong = np.isnan(found) | (found == np.inf)
    top = np.maximum(np.maximum(found, log), tolerance)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        wrong |= np.abs(np.exp(found - top) - np.exp(log - top)) > np.exp(tolerance - top)
    wrong &= ~(np.abs(found - log) <= 4 * subject.precision * np.abs(log))  # the answer itself is rounded
    if not wrong.any():
        return None
    return Problem(question, _shown(found, wrong), _shown(log, wrong), detail)


def unequal(
    subject: Subject, question: str, got: Any, expected: Array, tolerance: Array, detail: str = ""
) -> Problem | None:
    """Numbers against those of the oracle, up to absolute tolerances."""
    found = got.detach().double().numpy() if isinstance(got, torch.Tensor) else np.asarray(got, float)
    subject.compared += expected.size
    if found.shape != expected.shape:
        return Problem(question, str(found.shape), str(expected.shape), "shape")
    wrong = ~(np.abs(found - expected) <= tolerance)
    if not wrong.any():
        return None
    return Problem(question, _shown(found, wrong), _shown(expected, wrong), detail)


def _shown(values: Array, wrong: Array) -> str:
    """The first entries that are wrong."""
    places = np.argwhere(wrong)[:3]
    return ", ".join(f"[{', '.join(map(str, p.tolist()))}] {values[tuple(p)]:.10g}" for p in places)


@dataclass(frozen=True)
class Question(ABC):
    """A question to a model and what is to come out of it."""

    @property
    def kind(self) -> str:
        """Its name in reports."""
        return type(self).__name__

    @abstractmethod
    def expression(self, name: str) -> str:
        """The question as Python text; ``x`` and ``missing`` stand for :meth:`names`."""

    @abstractmethod
    def check(self, subject: Subject, answer: Any) -> Problem | None:
        """What is wrong with an answer."""

    def names(self) -> dict[str, str]:
        """Values that the expression uses, as text."""
        return {}

    def smaller(self) -> Iterator[Question]:
        """Simpler questions that may fail in the same way."""
        return iter(())

    def applies(self, subject: Subject) -> bool:
        """Whether the question has an answer that can be compared."""
        return True

    def about(self, subject: Subject) -> Iterator[Subject]:
        """The models that it is about; it may be refused where weights of one of them are out of range."""
        yield subject


@dataclass(frozen=True)
class OfRows(Question):
    """A question about rows, some entries of which may be missing.

    Args:
        x: (n, d).
        missing: (n, d), or None where nothing is.
        one_mask: the same entries are missing in all rows, and the mask is passed as (d,).
        nan: missing entries of continuous columns are passed as NaN alone.
        dtype: of the rows as they are passed.
    """

    x: Array
    missing: Array | None = None
    one_mask: bool = False
    nan: bool = False
    dtype: str = "float64"

    def names(self) -> dict[str, str]:
        passed = self.x
        if self.nan and self.missing is not None:
            passed = np.where(self.missing, np.nan, self.x)
        found = {"x": tensor(passed.astype(int) if self.dtype == "int64" else passed, self.dtype)}
        if self.missing is not None and not self.nan:
            found["missing"] = tensor(self.missing[0] if self.one_mask else self.missing)
        return found

    @property
    def arguments(self) -> str:
        """What is passed."""
        return "x, missing" if self.missing is not None and not self.nan else "x"

    @property
    def mask(self) -> Array:
        """What is missing: (n, d)."""
        return np.zeros(self.x.shape, bool) if self.missing is None else self.missing

    @property
    def rows(self) -> Array:
        """The rows as the library gets them."""
        return self.x.astype(np.float32).astype(float) if self.dtype == "float32" else self.x

    def smaller(self) -> Iterator[Question]:
        if len(self.x) > 1:
            for row in range(len(self.x)):
                part = None if self.missing is None else self.missing[row : row + 1]
                yield replace(self, x=self.x[row : row + 1], missing=part)

    def evidence(self, subject: Subject) -> tuple[Array, Array]:
        """log p of what rows show, and its relative tolerance."""
        return subject.relative(self.rows, self.mask)


@dataclass(frozen=True)
class OfEvidence(OfRows):
    """A question given what rows show; without rows, of the model as it is."""

    bare: bool = False

    @property
    def arguments(self) -> str:
        return "" if self.bare else super().arguments

    def names(self) -> dict[str, str]:
        return {} if self.bare else super().names()

    def applies(self, subject: Subject) -> bool:
        return bool((self.evidence(subject)[1] < ILL).all())

    def hidden(self, subject: Subject) -> list[int]:
        """The variables that all rows lack."""
        return [v for v in subject.oracle.variables if self.mask[:, v].all()]

    def orders(self, subject: Subject) -> dict[int, int]:
        """The moments that it asks for: of a variable that some row lacks the highest power."""
        return {}

    def is_infinite(self, subject: Subject) -> bool:
        """Some mean that it asks for is infinite, so that it has to be refused."""
        return any(order >= subject.oracle.index(v) for v, order in self.orders(subject).items())

    def is_far_out(self, subject: Subject) -> bool:
        """Too much of some mean is too far out to be found, so that it may be refused."""
        return any(order > HARD * subject.oracle.index(v) for v, order in self.orders(subject).items())

    def lacked(self, subject: Subject) -> list[int]:
        """The variables that some row lacks."""
        return [v for v in subject.oracle.variables if self.mask[:, v].any()]


@contextmanager
def at_weights(subject: Subject, weights: dict[str, Any]) -> Iterator[Subject]:
    """The oracle of a model at other weights, which are taken back afterwards."""
    parameters = dict(subject.model.named_parameters())
    kept = {name: p.detach().clone() for name, p in parameters.items()}
    with torch.no_grad():
        for name, p in parameters.items():
            p.copy_(weights[name])
    try:
        yield Subject(subject.program, subject.name)
    finally:
        with torch.no_grad():
            for name, p in parameters.items():
                p.copy_(kept[name])
