"""Questions whose answers are log-densities of rows."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fuzz.functions import Array, log_sum
from fuzz.program import tensor
from fuzz.questions.asked import (
    DOUBLE,
    ILL,
    OfEvidence,
    OfRows,
    Problem,
    Question,
    Subject,
    at_weights,
    different,
    unequal,
)
from fuzz.questions.whole import _by_root


@dataclass(frozen=True)
class LogProb(OfRows):
    """log p of rows, or of what they show."""

    @property
    def kind(self) -> str:
        return "log_prob" if self.missing is None else "log_prob with missing"

    def expression(self, name: str) -> str:
        return f"{name}.log_prob({self.arguments})"

    def check(self, subject: Subject, answer: Any) -> Problem | None:
        return different(subject, self.kind, answer, *subject.log_prob(self.rows, self.mask))

    def smaller(self) -> Iterator[Question]:
        yield from super().smaller()
        if self.missing is not None and self.missing.any() and type(self) is LogProb:
            yield replace(self, missing=None, nan=False)


@dataclass(frozen=True)
class MixtureOf(OfRows):
    """log Σ_m w_m p_m(x) of the models that are mixed, each with its own oracle."""

    @property
    def kind(self) -> str:
        return "mixture"

    def expression(self, name: str) -> str:
        return f"{name}.log_prob(x)"

    def check(self, subject: Subject, answer: Any) -> Problem | None:
        logs, limits = [], []
        parts, weights = mixed_in(subject)
        for part, weight in zip(parts, weights, strict=True):
            own = Subject(subject.program, part)
            if not own.is_sound:
                return None
            log, limit = own.log_prob(self.rows, self.mask)
            share = math.log(weight / sum(weights))
            logs.append(log + share)
            limits.append(np.logaddexp(limit, log + math.log(subject.z_error)) + share)
        expected, limit = (log_sum(np.stack(each), axis=0) for each in (logs, limits))
        return different(subject, self.kind, answer, expected, limit)


def mixed_in(subject: Subject) -> tuple[list[str], list[float]]:
    """The models and the weights of the mixture that a model was made as; none where it is no mixture."""
    made = re.compile(rf"{subject.name} = sq\.(mixture|stack)\(\[(.*?)\](?:, (?:\[(.*)\]|.*))?\)")
    found = next((match for line in subject.program.lines if (match := made.match(line))), None)
    if found is None:
        return [], []
    parts = found.group(2).split(", ")
    if found.group(1) == "stack":
        shares = subject.model.notes["stack"]["shares"]
        kept = [(part, share) for part, share in zip(parts, shares, strict=True) if share > 0]
        return [part for part, _ in kept], [share for _, share in kept]
    return parts, list(map(float, found.group(3).split(", "))) if found.group(3) else [1.0] * len(parts)


@dataclass(frozen=True)
class FittedLogProb(LogProb):
    """log p by what EM has found, which is what the circuit that was made of it computes."""

    @property
    def kind(self) -> str:
        return "log_prob of a fit"

    def expression(self, name: str) -> str:
        return f"{self.fit}.log_prob(x)"

    fit: str = ""


def fitted_in(subject: Subject) -> str:
    """The name of the fit without encoding that a model in double precision was made of, if there is one."""
    if any(line.startswith(f"{subject.name} = copy") for line in subject.program.lines):
        return ""
    made = re.compile(r"c\d+ = sq\.learning\.members\.mixture_circuit\((r\d+), .*Encoding\(\{\}, \{\}\)")
    found = next((match for line in subject.program.lines if (match := made.match(line))), None)
    return found.group(1) if found and subject.precision == DOUBLE else ""


@dataclass(frozen=True)
class Sums(OfRows):
    """Σ p = 1 over all states."""

    @property
    def kind(self) -> str:
        return "sum of p"

    def expression(self, name: str) -> str:
        return f"{name}.log_prob(x).exp().sum()"

    def check(self, subject: Subject, answer: Any) -> Problem | None:
        log, tolerance = subject.log_prob(self.rows, self.mask)  # all rows, so that these sum to 1
        limit = np.array(np.exp(tolerance).sum() + subject.z_error)
        return unequal(subject, self.kind, answer, np.exp(log).sum(), limit)

    def smaller(self) -> Iterator[Question]:
        return iter(())


@dataclass(frozen=True)
class Components(OfRows):
    """log p(m, x) of the root layers."""

    @property
    def kind(self) -> str:
        return "component_log_prob"

    def expression(self, name: str) -> str:
        return f"{name}.component_log_prob({self.arguments})"

    def check(self, subject: Subject, answer: Any) -> Problem | None:
        oracle = subject.oracle
        logs, tolerances = [], []
        for row in range(len(self.x)):
            hidden = [v for v in oracle.variables if self.mask[row, v]]
            log, bound, table = oracle.root_table(self.rows[row : row + 1], hidden)
            axes = tuple(range(1, log.ndim - 1))
            log, bound = (
                log_sum(each + table.weights[..., None], axis=axes) if axes else each for each in (log, bound)
            )
            parts = _by_root(oracle, log[0]), _by_root(oracle, bound[0])
            found, tolerance = subject._normalised(*parts)
            logs.append(found)
            tolerances.append(tolerance)
        shape = (len(self.x), len(oracle.circuit.roots))
        return different(subject, self.kind, answer, np.reshape(logs, shape), np.reshape(tolerances, shape))


@dataclass(frozen=True)
class Conditional(OfRows):
    """log p(x_of | x_given)."""

    of: tuple[int, ...] = ()
    given: tuple[int, ...] = ()

    @property
    def kind(self) -> str:
        return "log_conditional"

    def expression(self, name: str) -> str:
        return f"{name}.log_conditional(x, of={list(self.of)}, given={list(self.given)})"

    def _masks(self, subject: Subject) -> tuple[Array, Array]:
        every = np.isin(np.arange(self.x.shape[1]), subject.oracle.variables)
        both = every & ~np.isin(np.arange(len(every)), (*self.of, *self.given))
        known = every & ~np.isin(np.arange(len(every)), self.given)
        return np.tile(both, (len(self.x), 1)), np.tile(known, (len(self.x), 1))

    def applies(self, subject: Subject) -> bool:
        return bool((subject.relative(self.rows, self._masks(subject)[1])[1] < ILL).all())

    def check(self, subject: Subject, answer: Any) -> Problem | None:
        both, known = self._masks(subject)
        joint, tolerance = subject.log_prob(self.rows, both)
        condition, error = subject.relative(self.rows, known)
        limit = np.logaddexp(tolerance - condition, joint - condition + np.log(2 * error))
        return different(subject, self.kind, answer, joint - condition, limit)

    def smaller(self) -> Iterator[Question]:
        for row in range(len(self.x) if len(self.x) > 1 else 0):
            yield replace(self, x=self.x[row : row + 1])


@dataclass(frozen=True)
class GivenLogProb(OfEvidence):
    """log p(x | y) of the distribution given evidence; ``y`` holds the values asked for."""

    values: Array | None = None

    @property
    def kind(self) -> str:
        return "distribution().log_prob" if self.bare else "given().log_prob"

    def names(self) -> dict[str, str]:
        return {**super().names(), "y": tensor(self.values)}

    def expression(self, name: str) -> str:
        made = "distribution()" if self.bare else f"given({self.arguments})"
        return f"{name}.{made}.log_prob(y)"

    def check(self, subject: Subject, answer: Any) -> Problem | None:
        assert self.values is not None
        filled = self.values if self.bare else np.where(self.mask, self.values, self.rows)
        joint, tolerance = subject.log_prob(filled, np.zeros(filled.shape, bool))
        condition, error = self.evidence(subject)
        limit = np.logaddexp(tolerance - condition, joint - condition + np.log(2 * error))
        return different(subject, self.kind, answer, joint - condition, limit)

    def smaller(self) -> Iterator[Question]:
        for row in range(len(self.x) if len(self.x) > 1 and not self.bare else 0):
            assert self.values is not None
            assert self.missing is not None
            part = slice(row, row + 1)
            yield replace(self, x=self.x[part], missing=self.missing[part], values=self.values[part])


@dataclass(frozen=True)
class TrainingLogProb(LogProb):
    """log p in training mode without gradients, where answers are exact as well."""

    @property
    def kind(self) -> str:
        return "log_prob in training mode"

    def expression(self, name: str) -> str:
        return f"torch.no_grad()({name}.train().log_prob)({self.arguments})"


@dataclass(frozen=True)
class FunctionalLogProb(OfRows):
    """log p with all parameters multiplied by a number, without writing them."""

    factor: float = 1.0

    @property
    def kind(self) -> str:
        return "functional_call"

    def expression(self, name: str) -> str:
        weights = f"{{n: {self.factor} * p for n, p in {name}.named_parameters()}}"
        return f"torch.func.functional_call({name}, {weights}, (x,))"

    def check(self, subject: Subject, answer: Any) -> Problem | None:
        weights = {n: self.factor * p.detach() for n, p in subject.model.named_parameters()}
        with at_weights(subject, weights) as other:
            if not other.is_sound:
                return None
            found = different(other, self.kind, answer, *other.log_prob(self.rows, self.mask))
        subject.compared += other.compared
        return found
