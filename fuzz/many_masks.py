"""Questions of many rows, each of which lacks something else: these the library computes together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fuzz import drawing
from fuzz import questions as q
from fuzz.circuits import Random, chance
from fuzz.functions import Array, log_sum
from fuzz.questions import OfEvidence, Problem, Question, Subject


@dataclass(frozen=True)
class WithoutGraph(q.LogProb):
    """log p without gradients, where many masks are computed together only if that is cheaper."""

    @property
    def kind(self) -> str:
        return "log_prob without a graph"

    def expression(self, name: str) -> str:
        return f"torch.no_grad()({name}.log_prob)({self.arguments})"


@dataclass(frozen=True)
class QuantilesOf(OfEvidence):
    """The smallest x with P(x_v ≤ x | y) ≥ level; between nodes it may lie where it likes."""

    variable: int = 0
    levels: tuple[float, ...] = (0.1, 0.5, 0.9)

    @property
    def kind(self) -> str:
        return "quantiles"

    def expression(self, name: str) -> str:
        return f"(m := {name}.marginals({self.arguments})).quantiles({self.variable}, {self.levels}), m.nodes"

    def check(self, subject: Subject, answer: Any) -> Problem | None:
        found, nodes = answer[0].double().numpy(), np.sort(answer[1][self.variable].double().numpy())
        lacks, error, v = self.mask[:, self.variable], self.evidence(subject)[1], self.variable
        subject.compared += found.size
        if found.shape != (len(self.x), len(self.levels)):
            return Problem(self.kind, str(found.shape), str((len(self.x), len(self.levels))), "shape")
        if not np.isnan(found[~lacks]).all() or np.isnan(found[lacks]).any():
            return Problem(self.kind, str(found), "NaN where a row shows the variable", "NaN")
        for row in np.flatnonzero(lacks):
            points, mass, rough = self._masses(subject, row)
            limit = (rough * subject.unit).sum() + error[row] + 4 * len(points) * subject.unit
            for level, x in zip(self.levels, found[row], strict=True):
                low, high = self._around(subject, points, nodes, x)
                least, most = mass[points < low].sum(), mass[points <= high].sum()
                if not least - limit <= level <= most + limit:
                    return Problem(
                        self.kind,
                        f"{x:.8g} in row {row}",
                        f"P = {level} in [{least:.6g}, {most:.6g}]",
                        f"of {v}",
                    )
        return None

    def _masses(self, subject: Subject, row: int) -> tuple[Array, Array, Array]:
        """Nodes of the variable in rising order, their probabilities, and what rounding is relative to."""
        hidden = [v for v in subject.oracle.variables if self.mask[row, v]]
        table = subject.oracle.table(self.rows[row : row + 1], hidden)
        others = tuple(a for a in range(table.log.ndim) if a != table.axes[self.variable])
        total = table.total()[0]
        mass = np.exp(log_sum(table.masses, axis=others) - total)
        rough = np.exp(log_sum(table.bound + table.weights, axis=others) - total)
        order = np.argsort(table.nodes[self.variable])
        return table.nodes[self.variable][order], mass[order], rough[order]

    def _around(self, subject: Subject, points: Array, nodes: Array, x: float) -> tuple[float, float]:
        """x itself of a state; of others the ends of two gaps between nodes, of either rule, around it."""
        if subject.oracle.is_discrete(self.variable):
            return x, x
        ends = [
            (each[max(0, place - 2)], each[min(len(each) - 1, place + 1)])
            for each in (points, nodes)
            for place in [int(np.searchsorted(each, x))]
        ]
        return min(low for low, _ in ends), max(high for _, high in ends)


def _evidence(subject: Subject, random: Random) -> dict[str, Any]:
    """Five rows or more with masks of their own, some of them far out."""
    count = int(random.integers(5, 13))
    x = drawing.rows(subject, random, count, far=chance(random, 0.15))
    missing = drawing.mask(subject, random, count)
    if chance(random, 0.3):  # few cells, many rows alike
        missing &= random.random(missing.shape) < 0.3
    return {"x": x, "missing": missing}


def _log_prob(subject: Subject, random: Random) -> Question:
    return (WithoutGraph if chance(random, 0.6) else q.LogProb)(**_evidence(subject, random))


def _components(subject: Subject, random: Random) -> Question:
    return q.Components(**_evidence(subject, random))


def _gradient(subject: Subject, random: Random) -> Question:
    evidence = {key: value[:4] for key, value in _evidence(subject, random).items()}
    return q.Gradient(**evidence, seed=int(random.integers(1000)))


def _marginals(subject: Subject, random: Random) -> Question:
    evidence = _evidence(subject, random)
    lacking = evidence["missing"].any(axis=0)
    points = drawing.rows(subject, random, 3)
    grid = [(v, tuple(points[:, v].tolist())) for v in subject.oracle.variables]
    return q.MarginalsOf(
        **evidence, grid=tuple((v, x) for v, x in grid if lacking[v] and not subject.oracle.is_discrete(v))
    )


def _moments(subject: Subject, random: Random) -> Question:
    kinds = (q.MeanOf, q.VarianceOf, q.MomentsOf)
    return kinds[int(random.integers(3))](**_evidence(subject, random))


def _quantiles(subject: Subject, random: Random) -> Question:
    evidence = _evidence(subject, random)
    variable = int(random.choice(subject.oracle.variables))
    evidence["missing"][0, variable] = True
    levels = np.round(random.uniform(0.01, 0.99, 3), 3)
    return QuantilesOf(**evidence, variable=variable, levels=tuple(levels.tolist()))


def _impute(subject: Subject, random: Random) -> Question:
    return q.Imputed(**_evidence(subject, random))


def _expectation(subject: Subject, random: Random) -> Question:
    chosen = random.permutation(subject.oracle.variables)[: random.integers(1, 3)].tolist()
    return q.ExpectationOf(**_evidence(subject, random), variables=tuple(chosen))


def _sample(subject: Subject, random: Random) -> Question:
    return q.Samples(**_evidence(subject, random), count=1000, seed=int(random.integers(1000)))


DRAWN: tuple[tuple[float, Callable[[Subject, Random], Question]], ...] = (
    (2.0, _log_prob),
    (1.0, _gradient),
    (1.5, _marginals),
    (1.0, _moments),
    (0.7, _quantiles),
    (0.5, _impute),
    (0.5, _expectation),
    (0.5, _components),
    (0.3, _sample),
)


def question(subject: Subject, random: Random) -> Question:
    """One question of many rows at random."""
    weights = np.array([weight for weight, _ in DRAWN])
    return DRAWN[int(random.choice(len(DRAWN), p=weights / weights.sum()))][1](subject, random)
