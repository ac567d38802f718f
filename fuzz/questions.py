"""Every question to a model, as text that is run and an answer of the oracle that it is compared with."""

from __future__ import annotations

import itertools
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from fuzz.functions import Array, log_sum
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


# ---------------------------------------------------------------------- questions


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
        if self.missing is not None and self.missing.any() and type(self) is LogProb:
            yield replace(self, missing=None, nan=False)

    def evidence(self, subject: Subject) -> tuple[Array, Array]:
        """log p of what rows show, and its relative tolerance."""
        return subject.relative(self.rows, self.mask)


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
class ComponentWeights(Question):
    """log p(m) of the root layers."""

    @property
    def kind(self) -> str:
        return "component_log_weights"

    def expression(self, name: str) -> str:
        return f"{name}.component_log_weights()"

    def check(self, subject: Subject, answer: Any) -> Problem | None:
        oracle = subject.oracle
        log, bound, table = oracle.root_table(None, oracle.variables)
        axes = tuple(range(log.ndim - 1))
        logs, bounds = (
            _by_root(oracle, log_sum(each + table.weights[..., None], axis=axes)) for each in (log, bound)
        )
        return different(subject, self.kind, answer, *subject._normalised(logs, bounds))


def _by_root(oracle: Oracle, logs: Array) -> Array:
    """Sums over the units of every root layer."""
    ends = np.cumsum([0, *(root.units for root in oracle.circuit.roots)])
    return np.array([log_sum(logs[a:b], axis=0) for a, b in itertools.pairwise(ends)])


@dataclass(frozen=True)
class LogPartition(Question):
    """log Z."""

    @property
    def kind(self) -> str:
        return "log_partition"

    def expression(self, name: str) -> str:
        return f"{name}.log_partition()"

    def check(self, subject: Subject, answer: Any) -> Problem | None:
        return unequal(
            subject, self.kind, answer, np.array(subject.oracle.log_z), np.array(2 * subject.z_error)
        )


@dataclass(frozen=True)
class IsNormalised(Question):
    """Z = 1 where the model says so."""

    @property
    def kind(self) -> str:
        return "is_normalised"

    def expression(self, name: str) -> str:
        return f"{name}.is_normalised()"

    def check(self, subject: Subject, answer: Any) -> Problem | None:
        if not answer:
            return None
        return unequal(subject, self.kind, subject.oracle.log_z, np.array(0.0), np.array(2 * subject.z_error))


@dataclass(frozen=True)
class StaysNormalised(Question):
    """Z = 1 after steps of Polar from a model that was normalised."""

    @property
    def kind(self) -> str:
        return "Polar keeps Z = 1"

    def expression(self, name: str) -> str:
        return f"{name}.log_partition()"

    def check(self, subject: Subject, answer: Any) -> Problem | None:
        return unequal(subject, self.kind, subject.oracle.log_z, np.array(0.0), np.array(2 * subject.z_error))


@dataclass(frozen=True)
class Divergences(Question):
    """Overlap, fidelity, Kullback–Leibler divergence, total variation to other weights of one structure."""

    seed: int = 0
    count: int = 1000

    @property
    def kind(self) -> str:
        return "divergences"

    def _other(self, name: str) -> str:
        return f"sq.SquaredCircuit({name}.structure, seed={self.seed}, dtype=torch.complex128).eval()"

    def about(self, subject: Subject) -> Iterator[Subject]:
        yield subject
        yield Subject(subject.program, subject.name, subject.program.ask(self._other(subject.name)))

    def expression(self, name: str) -> str:
        samples = f"{self.count}, seed={self.seed}"
        answers = f"sq.kl_divergence({name}, o, {samples}), sq.total_variation({name}, o, {samples})"
        answers += f", sq.overlap({name}, o), sq.fidelity({name}, o)"
        return f"(lambda o: (o, {answers}))({self._other(name)})"

    def applies(self, subject: Subject) -> bool:
        oracle = subject.oracle
        return all(oracle.is_discrete(v) for v in oracle.variables) and oracle.splits_agree()

    def check(self, subject: Subject, answer: Any) -> Problem | None:
        model, kl, variation, overlap, fidelity = answer
        other = Subject(subject.program, subject.name, model)
        if not other.is_sound:
            return None
        p, q = (np.exp(each.oracle.joint.log - each.oracle.log_z).ravel() for each in (subject, other))
        error = 4 * (subject.z_error + other.z_error)
        sampled = math.sqrt(math.log(2 / ALARM) / (2 * self.count)) + error
        exact = np.array(np.abs(p - q).sum() / 2)
        found = unequal(subject, "total_variation", variation.value, exact, np.array(sampled))
        return (
            found or self._ratios(subject, kl, p, q) or self._states(subject, other, overlap, fidelity, error)
        )

    def _ratios(self, subject: Subject, kl: Any, p: Array, q: Array) -> Problem | None:
        """By Bernstein's inequality, where no ratio is extreme."""
        kept = p > 1e-12
        if (q[kept] < 1e-8).any():
            return None
        logs = np.log(p[kept] / q[kept])
        mean = float(p[kept] @ logs)
        spread, most = float(p[kept] @ (logs - mean) ** 2), float(np.abs(logs - mean).max())
        level = math.log(2 / ALARM)
        limit = math.sqrt(2 * spread * level / self.count) + 2 * most * level / (3 * self.count)
        expected = np.array(max(mean, 0.0))
        return unequal(subject, "kl_divergence", kl.value, expected, np.array(limit + 1e-3))

    def _states(
        self, subject: Subject, other: Subject, overlap: Any, fidelity: float, error: float
    ) -> Problem | None:
        rows = []
        for each in (subject, other):
            values = each.oracle.values(None, each.oracle.variables)
            shape = each.oracle.joint.log.shape
            units = [values[id(root)] for root in each.oracle.circuit.roots]
            parts = [
                np.broadcast_to(u.phase * np.exp(u.log - each.oracle.log_z / 2), (*shape, u.log.shape[-1]))
                for u in units
            ]
            rows.append(np.concatenate([part.reshape(-1, part.shape[-1]) for part in parts], axis=1))
        exact = rows[0].T @ rows[1].conj()
        roots = [np.exp(each.oracle.mixture / 2) for each in (subject, other)]
        sizes = np.linalg.norm(rows[0], axis=0)[:, None] * np.linalg.norm(rows[1], axis=0)
        found = overlap.numpy()
        for part in (np.real, np.imag):
            problem = unequal(subject, "overlap", part(found), part(exact), error * sizes + 1e-12)
            if problem:
                return problem
        singular = np.linalg.svd(exact * roots[0][:, None] * roots[1], compute_uv=False).sum() ** 2
        return unequal(subject, "fidelity", fidelity, np.array(singular), np.array(error + 1e-9))


@dataclass(frozen=True)
class HoldsWeights(Question):
    """The weights of ``circuit()`` are those of ``state_dict()``."""

    @property
    def kind(self) -> str:
        return "weights"

    def expression(self, name: str) -> str:
        return f"{name}.state_dict()"

    def check(self, subject: Subject, answer: Any) -> Problem | None:
        held = [value.detach().numpy() for value in answer.values()]
        pi = subject.model.structure.root_weights
        for name, value in subject.weights.items():
            subject.compared += 1
            if subject.model.structure.parameters[name] is pi:
                continue
            rows = [row for stack in held for row in ([stack] if stack.ndim == value.ndim else stack)]
            if not any(row.shape == value.shape and np.array_equal(row, value) for row in rows):
                return Problem(self.kind, f"{name} = {value.tolist()}", "an entry of state_dict()")
        return None


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


@dataclass(frozen=True)
class MarginalsOf(OfEvidence):
    """The distribution of every missing variable by itself, at states or at points of a grid."""

    grid: tuple[tuple[int, tuple[float, ...]], ...] = ()

    @property
    def kind(self) -> str:
        return "marginals"

    def expression(self, name: str) -> str:
        points = {v: list(t) for v, t in self.grid}
        inner = ", ".join(part for part in (self.arguments, f"grid={points}" if points else "") if part)
        return f"{name}.marginals({inner})"

    def check(self, subject: Subject, answer: Any) -> Problem | None:
        condition, error = self.evidence(subject)
        grid = dict(self.grid)
        for v in subject.oracle.variables:
            lacking = np.flatnonzero(self.mask[:, v])
            discrete = subject.oracle.is_discrete(v)
            if len(lacking) == 0 or not (discrete or v in grid):
                continue
            points = subject.oracle.rules[v][0] if discrete else np.array(grid[v])
            rows = np.repeat(self.rows[lacking], len(points), axis=0)
            rows[:, v] = np.tile(points, len(lacking))
            missing = np.repeat(self.mask[lacking], len(points), axis=0)
            missing[:, v] = False
            joint, tolerance = subject.log_prob(rows, missing)
            base = np.repeat(condition[lacking], len(points))
            limit = np.logaddexp(
                tolerance - base, joint - base + np.log(2 * np.repeat(error[lacking], len(points)))
            )
            limit = np.exp(limit) + 1e-30
            if discrete and subject.precision != DOUBLE:
                limit += (
                    subject.unit
                )  # probabilities of one table, contracted in single precision, add up to 1
            expected = np.exp(joint - base)
            shape = (len(lacking), len(points))
            got = answer.values[v][torch.from_numpy(lacking)]
            problem = unequal(subject, self.kind, got, expected.reshape(shape), limit.reshape(shape))
            if problem:
                return problem
        return None


def moments(subject: Subject, question: OfEvidence, order: int) -> tuple[Array, Array, Array, Array]:
    """E[x^k] for k = 1 … order, and the variance, with their tolerances: (order, n, d) and (n, d)."""
    oracle, unit = subject.oracle, subject.unit
    n, d = question.x.shape
    rows, mask = question.rows, question.mask
    means = np.stack([rows**k for k in range(1, order + 1)])
    limits = unit * np.abs(means) * np.arange(1, order + 1)[:, None, None]
    variances, variance_limits = np.zeros((n, d)), np.zeros((n, d))
    error = question.evidence(subject)[1]
    for row in range(n):
        hidden = [v for v in oracle.variables if mask[row, v]]
        if not hidden:
            continue
        table = oracle.table(rows[row : row + 1], hidden)
        total = table.total()[0]
        for v in hidden:
            others = tuple(a for a in range(table.log.ndim) if a != table.axes[v])
            mass = np.exp(log_sum(table.masses, axis=others) - total)
            rough = unit * np.exp(log_sum(table.bound + table.weights, axis=others) - total)
            x = table.nodes[v]
            for k in range(1, order + 1):
                means[k - 1, row, v] = mass @ x**k
                size = np.abs(x) ** k
                limits[k - 1, row, v] = rough @ size + (error[row] + k * unit) * (mass @ size)
            mean = means[0, row, v]
            far = np.abs(x - mean)
            variances[row, v] = mass @ far**2
            variance_limits[row, v] = (
                rough @ far**2
                + error[row] * variances[row, v]
                + 4 * unit * (mass @ (np.abs(x) * far))
                + (limits[0, row, v]) ** 2
                + (1e-300 if subject.precision == DOUBLE else 1e-30 * far.max() ** 2)  # masses that underflow
            )
    return means, limits, variances, variance_limits


@dataclass(frozen=True)
class MeanOf(OfEvidence):
    """E[x_v | y]."""

    @property
    def kind(self) -> str:
        return "mean"

    def orders(self, subject: Subject) -> dict[int, int]:
        return dict.fromkeys(self.lacked(subject), 1)

    def expression(self, name: str) -> str:
        return f"{name}.mean({self.arguments})"

    def check(self, subject: Subject, answer: Any) -> Problem | None:
        means, limits, _, _ = moments(subject, self, 1)
        return _of_scope(subject, self.kind, answer, means[0], limits[0])


@dataclass(frozen=True)
class VarianceOf(OfEvidence):
    """Var[x_v | y]."""

    @property
    def kind(self) -> str:
        return "variance"

    def orders(self, subject: Subject) -> dict[int, int]:
        return dict.fromkeys(self.lacked(subject), 2)

    def expression(self, name: str) -> str:
        return f"{name}.variance({self.arguments})"

    def check(self, subject: Subject, answer: Any) -> Problem | None:
        _, _, variances, limits = moments(subject, self, 1)
        return _of_scope(subject, self.kind, answer, variances, limits)


@dataclass(frozen=True)
class MomentsOf(OfEvidence):
    """E[x_v^k | y] up to k = 3."""

    @property
    def kind(self) -> str:
        return "moments"

    def orders(self, subject: Subject) -> dict[int, int]:
        return dict.fromkeys(self.lacked(subject), 3)

    def expression(self, name: str) -> str:
        return f"{name}.moments(3{', ' + self.arguments if self.arguments else ''})"

    def check(self, subject: Subject, answer: Any) -> Problem | None:
        means, limits, _, _ = moments(subject, self, 3)
        return _of_scope(subject, self.kind, answer, means, limits)


def _of_scope(subject: Subject, kind: str, answer: Any, expected: Array, limits: Array) -> Problem | None:
    """Compare the columns of variables alone."""
    columns = subject.oracle.variables
    return unequal(subject, kind, answer[..., columns], expected[..., columns], limits[..., columns])


@dataclass(frozen=True)
class ExpectationOf(OfEvidence):
    """E[∏ f_v(x_v) | y] with squares, and values as they are."""

    variables: tuple[int, ...] = ()

    @property
    def kind(self) -> str:
        return "expectation"

    def orders(self, subject: Subject) -> dict[int, int]:
        lacked = self.lacked(subject)
        return {v: 1 + (i % 2 == 0) for i, v in enumerate(self.variables) if v in lacked}

    def expression(self, name: str) -> str:
        inner = ", ".join(
            f"{v}: {'torch.square' if i % 2 == 0 else 'torch.positive'}" for i, v in enumerate(self.variables)
        )
        rest = f", {self.arguments}" if self.arguments else ""
        return f"{name}.expectation({{{inner}}}{rest})"

    def applies(self, subject: Subject) -> bool:
        oracle = subject.oracle
        near = all(oracle.is_discrete(v) or np.abs(oracle.rules[v][0]).max() < 100 for v in self.variables)
        return near and super().applies(subject)

    def check(self, subject: Subject, answer: Any) -> Problem | None:
        oracle, unit = subject.oracle, subject.unit
        error = self.evidence(subject)[1]
        expected, limits = np.zeros(len(self.x)), np.zeros(len(self.x))
        for row in range(len(self.x)):
            hidden = [v for v in oracle.variables if self.mask[row, v]]
            table = oracle.table(self.rows[row : row + 1], hidden)
            factor: Any = np.ones(())
            for i, v in enumerate(self.variables):
                points = table.nodes[v] if v in hidden else self.rows[row, v : v + 1]
                values = points**2 if i % 2 == 0 else points
                shape = [1] * table.log.ndim
                shape[table.axes.get(v, 0)] = -1
                factor = factor * values.reshape(shape)
            mass = np.exp(table.masses - table.total()[0])
            rough = np.exp(table.bound + table.weights - table.total()[0])
            expected[row] = (mass * factor).sum()
            limits[row] = ((unit * rough + (error[row] + 4 * unit) * mass) * np.abs(factor)).sum() + 1e-300
        return unequal(subject, self.kind, answer, expected, limits)


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
class Imputed(OfEvidence):
    """Gaps filled with likely values."""

    @property
    def kind(self) -> str:
        return "impute"

    def expression(self, name: str) -> str:
        return f"{name}.impute({self.arguments})"

    def check(self, subject: Subject, answer: Any) -> Problem | None:
        oracle, found = subject.oracle, answer.detach().double().numpy()
        subject.compared += found.size
        for v in oracle.variables:
            seen = ~self.mask[:, v]
            if not np.array_equal(found[seen, v], self.rows[seen, v].astype(found.dtype)):
                return Problem(self.kind, str(found[seen, v]), str(self.rows[seen, v]), "observed entries")
        for row in range(len(self.x)):
            for v in [v for v in oracle.variables if self.mask[row, v]]:
                problem = self._likely(subject, row, v, found[row, v])
                if problem:
                    return problem
        return None

    def _likely(self, subject: Subject, row: int, v: int, value: float) -> Problem | None:
        hidden = [other for other in subject.oracle.variables if self.mask[row, other]]
        nodes = subject.oracle.rules_at(self.rows[row : row + 1], hidden)[v][0]
        discrete = subject.oracle.is_discrete(v)
        if not discrete:
            nodes = np.concatenate([nodes, (nodes[1:] + nodes[:-1]) / 2])
        rows = np.repeat(self.rows[row : row + 1], len(nodes) + 1, axis=0)
        rows[:, v] = [*nodes, value]
        mask = np.repeat(self.mask[row : row + 1], len(nodes) + 1, axis=0)
        mask[:, v] = False
        log, tolerance = subject.log_prob(rows, mask)
        best = int(log[:-1].argmax())
        slack = np.exp(tolerance[[best, -1]] - log[best]).sum() + (0.0 if discrete else 0.2)
        if math.exp(log[-1] - log[best]) >= 1 - slack:
            return None
        what = "state" if discrete else "continuous value"
        return Problem(
            self.kind,
            f"{value:.6g} of log density {log[-1]:.4f}",
            f"{nodes[best]:.6g} of {log[best]:.4f}",
            what,
        )


@dataclass(frozen=True)
class Samples(OfEvidence):
    """Samples against exact probabilities and expectations, at a level that never gives a false alarm."""

    count: int = 2000
    seed: int = 0

    @property
    def kind(self) -> str:
        return "sample" if self.bare else "sample with evidence"

    def expression(self, name: str) -> str:
        given = "" if self.bare else f", {self.arguments}"
        return f"{name}.sample({self.count}{given}, seed={self.seed})"

    def smaller(self) -> Iterator[Question]:
        return iter(())

    def check(self, subject: Subject, answer: Any) -> Problem | None:
        drawn = answer.detach().double().numpy()
        n, d = self.x.shape
        shape = (self.count, d) if self.bare else (self.count, n, d)
        if drawn.shape != shape:
            return Problem(self.kind, str(drawn.shape), str(shape), "shape")
        drawn = drawn.reshape(self.count, n, d)
        for row in range(n):
            hidden = [v for v in subject.oracle.variables if self.mask[row, v]]
            for v in set(subject.oracle.variables) - set(hidden):
                if not np.allclose(drawn[:, row, v], self.rows[row, v], rtol=1e-6, atol=1e-6):
                    return Problem(
                        self.kind, str(drawn[0, row, v]), str(self.rows[row, v]), "observed entries"
                    )
            if hidden:
                problem = self._tested(subject, drawn[:, row], hidden, row)
                if problem:
                    return problem
        return None

    def _tested(self, subject: Subject, drawn: Array, hidden: list[int], row: int) -> Problem | None:
        table = subject.oracle.table(self.rows[row : row + 1], hidden)
        mass = np.exp(table.masses - table.total()[0])[0]
        subject.compared += drawn.shape[0]
        if all(subject.oracle.is_discrete(v) for v in hidden):
            return self._counted(drawn[:, hidden].astype(int), mass)
        return self._averaged(table.nodes, drawn, hidden, mass)

    def _counted(self, drawn: Array, mass: Array) -> Problem | None:
        """Σ n log(n / (N p)) has a tail of e^(−t) (e t / (k − 1))^(k − 1) beyond k − 1."""
        if (drawn < 0).any() or (drawn >= mass.shape).any():
            return Problem(self.kind, str(drawn.max(axis=0)), str(mass.shape), "states")
        counts = np.zeros(mass.shape)
        np.add.at(counts, tuple(drawn.T), 1)
        order = np.argsort(-mass.ravel())
        p, n = mass.ravel()[order], counts.ravel()[order]
        kept = min(len(p), 24)
        p, n = np.append(p[:kept], p[kept:].sum()), np.append(n[:kept], n[kept:].sum())
        p = (p + 1e-6) / (p + 1e-6).sum()
        statistic = float((n * np.log(np.maximum(n, 1e-300) / (self.count * p)))[n > 0].sum())
        k = len(p) - 1
        limit = _tail(k, -math.log(ALARM)) + 1e-6 * self.count * len(p)
        if statistic <= limit:
            return None
        worst = int(np.abs(n / self.count - p).argmax())
        state = np.unravel_index(order[worst], mass.shape) if worst < kept else "the rest"
        where = f"at {tuple(map(int, state))}" if worst < kept else state
        return Problem(self.kind, f"{n[worst] / self.count:.4f} {where}", f"{p[worst]:.4f}", "frequencies")

    def _averaged(
        self, points: Mapping[int, Array], drawn: Array, hidden: list[int], mass: Array
    ) -> Problem | None:
        """Means of products of waves, bounded by 1, by Hoeffding's inequality."""
        random = np.random.default_rng(self.seed)
        limit = math.sqrt(2 * math.log(2 / ALARM) / self.count)
        for _ in range(6):
            expected, found = mass.astype(complex), np.ones(len(drawn), complex)
            for axis, v in enumerate(hidden):
                nodes = points[v]
                spread = (nodes.max() - nodes.min()) or 1.0
                turn = random.choice([0.0, 1.0, 2.5, 5.0]) * 2 / spread
                shape = [1] * mass.ndim
                shape[axis] = -1
                expected = expected * np.exp(1j * turn * (nodes - nodes[0])).reshape(shape)
                found = found * np.exp(1j * turn * (drawn[:, v] - nodes[0]))
            exact, mean = expected.sum(), found.mean()
            if abs(exact.real - mean.real) > limit or abs(exact.imag - mean.imag) > limit:
                return Problem(self.kind, f"{mean:.4f}", f"{exact:.4f}", "mean of a wave")
        return None


def _tail(k: int, level: float) -> float:
    """t with t − (k) log(e t / k) = level."""
    t = max(level, k + 1.0)
    for _ in range(60):
        t = level + (k * math.log(math.e * t / k) if k else 0.0)
    return t


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


@dataclass(frozen=True)
class Gradient(OfRows):
    """The derivative of log p along a random direction, tangent where weights are semi-unitary now."""

    seed: int = 0
    step: float = 1e-5

    @property
    def kind(self) -> str:
        return "gradient of log_prob"

    def applies(self, subject: Subject) -> bool:
        error = subject.relative(self.rows, self.mask)[1]
        has = any(True for _ in subject.model.parameters())
        return has and subject.precision == DOUBLE and bool((error < 1e-7 + 2 * subject.slack).all())

    def expression(self, name: str) -> str:
        return (
            f"torch.autograd.grad({name}.log_prob({self.arguments}).sum(), "
            f"[p for p in {name}.parameters()], allow_unused=True)"
        )

    def check(self, subject: Subject, answer: Any) -> Problem | None:
        model = subject.model
        generator = torch.Generator().manual_seed(self.seed)
        slope, ahead, behind = 0.0, {}, {}
        kept = {name: p.detach().clone() for name, p in model.named_parameters()}
        for (name, p), g in zip(model.named_parameters(), answer, strict=True):
            constraint = getattr(p, "constraint", "free")
            way = _direction(p.detach(), constraint if _is_orthonormal(p.detach()) else "free", generator)
            if g is not None:
                slope += float((g.conj() * way).real.sum())
            ahead[name], behind[name] = p.detach() + self.step * way, p.detach() - self.step * way
        pairs = [self._moved(subject, weights) for weights in (ahead, behind)]
        near = [{n: (w + 9 * kept[n]) / 10 for n, w in weights.items()} for weights in (ahead, behind)]
        nearer = [self._moved(subject, weights) for weights in near]
        if any(each is None for each in (*pairs, *nearer)):
            return None
        expected = (pairs[0] - pairs[1])[0] / (2 * self.step)
        again = (nearer[0] - nearer[1])[0] / (0.2 * self.step)
        here = self._logs(subject)
        bend, less = (abs(a + b - 2 * here) for a, b in (pairs, nearer))
        if not (abs(expected - again) <= 1e-3 * (1 + abs(again)) and (bend < 0.1).all()):
            return None  # so curved, or rounded, that differences tell nothing
        if (less > bend / 10 + 1e-9).any():
            return None  # both steps are far beyond where the slope is that of the middle
        curvature = bend[0] / self.step
        limit = 1e-4 * (1 + abs(expected) + abs(slope)) + 0.02 * curvature
        limit += 2 * abs(expected - again)  # the third derivative, or rounding, at the two steps
        return unequal(subject, self.kind, slope, np.array(expected), np.array(limit))

    def _moved(self, subject: Subject, weights: dict[str, Any]) -> Any:
        """Those of the oracle at other weights."""
        with at_weights(subject, weights) as other:
            return self._logs(other) if other.is_sound else None

    def _logs(self, subject: Subject) -> Array:
        """log p of all rows together and log Z, the slope of which may cancel in it: (2,)."""
        return np.array([subject.log_prob(self.rows, self.mask)[0].sum(), subject.oracle.log_z])


def _is_orthonormal(value: Any) -> bool:
    """Rows are so to rounding, for otherwise derivatives in all directions are right."""
    if value.ndim < 2 or not bool(value.isfinite().all()):
        return False
    return float((value @ value.mH - torch.eye(value.shape[-2])).abs().max()) < 1e-6


def _direction(value: Any, constraint: str, generator: Any) -> Any:
    """A direction of change: A W with A skew-Hermitian where rows are orthonormal."""
    noise = torch.randn(value.shape, generator=generator, dtype=value.dtype)
    if constraint != "semi-unitary":
        size = torch.where(value.isfinite(), value.abs(), 0.0)
        rows = size.amax(dim=-1, keepdim=True) if value.ndim else size  # of which one may be 1e30 of another
        least = rows[rows > 0].min() if bool((rows > 0).any()) else rows.new_tensor(1.0)
        size = torch.maximum(size, 1e-3 * torch.where(rows > 0, rows, least))
        return torch.where(value.isfinite(), noise * size, 0.0)
    square = torch.randn((*value.shape[:-1], value.shape[-2]), generator=generator, dtype=value.dtype)
    return (square - square.mH) @ value / 2
