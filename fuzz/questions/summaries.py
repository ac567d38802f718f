"""Questions whose answers are distributions of single variables, means and likely values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from fuzz.functions import Array, log_sum
from fuzz.questions.asked import DOUBLE, OfEvidence, Problem, Subject, unequal


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
