"""Samples against exact probabilities and expectations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fuzz.functions import Array
from fuzz.questions.asked import ALARM, OfEvidence, Problem, Question, Subject


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
