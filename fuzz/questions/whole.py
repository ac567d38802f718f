"""Questions to a model as a whole: Z, shares of components, divergences, weights."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fuzz.functions import Array, log_sum
from fuzz.oracle import Oracle
from fuzz.questions.asked import ALARM, Problem, Question, Subject, different, unequal


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
