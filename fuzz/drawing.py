"""Questions drawn at random for a model as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fuzz import questions as q
from fuzz.circuits import Random, chance, choice
from fuzz.functions import Array, places
from fuzz.questions import Question, Subject
from fuzz.verdicts import CHECKS, CircuitQuestion, CircuitSubject, is_unbounded


def rows(subject: Subject | CircuitSubject, random: Random, count: int, *, far: bool = False) -> Array:
    """Rows of data, mostly where the density is; with ``far`` some are hundreds of scales away."""
    oracle = subject.oracle
    found = np.zeros((count, oracle.width))
    for v in oracle.variables:
        nodes = oracle.rules[v][0]
        if oracle.is_discrete(v):
            found[:, v] = random.choice(nodes, count)
            continue
        middle = nodes[len(nodes) // 6 : len(nodes) - len(nodes) // 6]
        found[:, v] = random.choice(middle if len(middle) else nodes, count)
        gap = np.diff(nodes).min() if len(nodes) > 1 else 0.0
        found[:, v] += gap * (random.random(count) - 0.5) * 0.9
        if far and count and chance(random, 0.5):
            found[0, v] = _far(subject, random, v)
    return found


def _far(subject: Subject | CircuitSubject, random: Random, variable: int) -> float:
    """A value far out on a line, or outside an interval."""
    layer = next(each for each in subject.oracle.inputs if variable in each.variables)
    kind = type(layer.family).__name__
    distance = float(choice(random, (8.0, 20.0, 40.0, 120.0, 400.0)))
    if kind == "Laguerre":
        nodes = subject.oracle.rules[variable][0]
        return float(nodes[0] + distance * (nodes[-1] - nodes[0]) / 20)
    if kind in ("Hermite", "Gaussian"):
        loc, scale, _ = places(layer.family, subject.oracle.learnt(layer))[0]
        return float(loc + random.choice([-1, 1]) * distance * scale)
    nodes = subject.oracle.rules[variable][0]
    if is_unbounded(subject.oracle, variable):
        return float(np.median(nodes) + random.choice([-1, 1]) * distance * (nodes[-1] - nodes[0]) / 20)
    return float(nodes[-1] + (nodes[-1] - nodes[0]))


def mask(subject: Subject, random: Random, count: int, *, same: bool = False, least: int = 0) -> Array:
    """Which entries of rows are missing."""
    found = np.zeros((max(1, count), subject.oracle.width), bool)
    for row in range(1 if same else count):
        hidden = random.permutation(subject.oracle.variables)[
            : random.integers(least, len(subject.oracle.variables) + 1)
        ]
        found[row, hidden] = True
    return np.tile(found[0], (count, 1)) if same else found[:count]


def _dtype(subject: Subject, random: Random) -> str:
    discrete = all(subject.oracle.is_discrete(v) for v in subject.oracle.variables)
    if discrete and chance(random, 0.7):
        return "int64"
    return "float32" if chance(random, 0.1) and not _large(subject) else "float64"


def _large(subject: Subject) -> bool:
    return any(np.abs(nodes).max() > 1e4 for nodes, _ in subject.oracle.rules.values())


def _count(random: Random) -> int:
    return int(random.choice([0, 1, 2, 4], p=[0.03, 0.27, 0.4, 0.3]))


def log_prob(subject: Subject, random: Random) -> Question:
    """Whole rows."""
    x = rows(subject, random, _count(random), far=chance(random, 0.25))
    return q.LogProb(x, dtype=_dtype(subject, random))


def log_prob_missing(subject: Subject, random: Random, kind: type[q.OfRows] = q.LogProb) -> Question:
    """Rows with gaps: one mask, another for each row, or NaN."""
    count = _count(random)
    x = rows(subject, random, count, far=chance(random, 0.1))
    how = choice(random, ("one", "each", "nan"))
    hidden = mask(subject, random, count, same=how == "one")
    if how == "nan":
        for v in subject.oracle.variables:
            hidden[:, v] &= not subject.oracle.is_discrete(v)
        return kind(x, hidden, nan=True)
    return kind(x, hidden, one_mask=how == "one" and count > 0, dtype=_dtype(subject, random))


def all_states(subject: Subject, random: Random) -> Question:
    """Every state of a discrete model, or nodes of a continuous one."""
    oracle = subject.oracle
    sizes = [len(oracle.rules[v][0]) for v in oracle.variables]
    if np.prod(sizes) > 300:
        return log_prob(subject, random)
    x = np.zeros((int(np.prod(sizes)), oracle.width))
    grids = np.meshgrid(*(oracle.rules[v][0] for v in oracle.variables), indexing="ij")
    for v, grid in zip(oracle.variables, grids, strict=True):
        x[:, v] = grid.ravel()
    if chance(random, 0.5) and all(oracle.is_discrete(v) for v in oracle.variables):
        return q.Sums(x, dtype="int64")
    return q.LogProb(x)


def components(subject: Subject, random: Random) -> Question:
    """Root layers by themselves."""
    if chance(random, 0.3):
        return q.ComponentWeights()
    if chance(random, 0.5):
        return log_prob_missing(subject, random, q.Components)
    return q.Components(rows(subject, random, _count(random)))


def conditional(subject: Subject, random: Random) -> Question:
    """Some variables given others."""
    order = random.permutation(subject.oracle.variables).tolist()
    first = int(random.integers(1, len(order) + 1))
    second = int(random.integers(first, len(order) + 1))
    x = rows(subject, random, max(1, _count(random)))
    return q.Conditional(x, of=tuple(order[:first]), given=tuple(order[first:second]))


def _evidence(subject: Subject, random: Random) -> dict[str, Any]:
    """Evidence of some rows, or none."""
    if chance(random, 0.4):
        x, missing = subject.nothing
        return {"x": x, "missing": missing, "bare": True}
    count = int(random.integers(1, 4))
    same = chance(random, 0.5)
    return {
        "x": rows(subject, random, count),
        "missing": mask(subject, random, count, same=same),
        "one_mask": same,
    }


def marginals(subject: Subject, random: Random) -> Question:
    """Tables of discrete variables, densities of continuous ones at points."""
    evidence = _evidence(subject, random)
    oracle = subject.oracle
    continuous = [
        v for v in oracle.variables if evidence["missing"][:, v].any() and not oracle.is_discrete(v)
    ]
    points = rows(subject, random, 3)
    grid = tuple((v, tuple(points[:, v].tolist())) for v in continuous)
    return q.MarginalsOf(**evidence, grid=grid)


def moments(subject: Subject, random: Random) -> Question:
    """Mean, variance, moments."""
    kind = choice(random, (q.MeanOf, q.VarianceOf, q.MomentsOf))
    return kind(**_evidence(subject, random))


def expectation(subject: Subject, random: Random) -> Question:
    """A product of functions of one variable each."""
    chosen = random.permutation(subject.oracle.variables)[: random.integers(1, 4)].tolist()
    return q.ExpectationOf(**_evidence(subject, random), variables=tuple(chosen))


def given(subject: Subject, random: Random) -> Question:
    """The distribution given evidence."""
    evidence = _evidence(subject, random)
    values = rows(subject, random, 3 if evidence.get("bare") else len(evidence["x"]))
    return q.GivenLogProb(**evidence, values=values)


def impute(subject: Subject, random: Random) -> Question:
    """Gaps filled."""
    count = int(random.integers(1, 3))
    return q.Imputed(rows(subject, random, count), mask(subject, random, count, least=1))


def sample(subject: Subject, random: Random) -> Question:
    """Samples, with evidence or without."""
    return q.Samples(**_evidence(subject, random), seed=int(random.integers(1000)))


def gradient(subject: Subject, random: Random) -> Question:
    """The gradient of whole or partial rows."""
    x = rows(subject, random, 2)
    missing = mask(subject, random, 2, same=True) if chance(random, 0.4) else None
    return q.Gradient(x, missing, one_mask=missing is not None, seed=int(random.integers(1000)))


def functional(subject: Subject, random: Random) -> Question:
    """Other weights for one call."""
    factor = float(choice(random, (0.5, 1.5, 1.0)))
    return q.FunctionalLogProb(rows(subject, random, 2), factor=factor)


def fresh(subject: Subject, random: Random) -> Question | None:
    """The mixture against its parts, where the model is one, and what EM has found against its circuit."""
    if q.mixed_in(subject)[0]:
        return q.MixtureOf(rows(subject, random, 3))
    fit = q.fitted_in(subject)
    if not fit:
        return None
    x = rows(subject, random, 3)
    hidden = (
        mask(subject, random, 3)
        if not any(map(subject.oracle.is_discrete, subject.oracle.variables))
        else None
    )
    return q.FittedLogProb(x, hidden, nan=hidden is not None, fit=fit)


DRAWN: tuple[tuple[float, Callable[[Subject, Random], Question]], ...] = (
    (2.0, log_prob),
    (2.0, log_prob_missing),
    (1.0, all_states),
    (0.7, components),
    (1.0, conditional),
    (1.5, marginals),
    (1.0, moments),
    (0.8, expectation),
    (0.7, given),
    (0.5, impute),
    (0.5, sample),
    (0.4, gradient),
    (0.3, functional),
    (0.2, lambda subject, random: q.TrainingLogProb(rows(subject, random, 2))),
    (0.25, lambda subject, random: q.Divergences(int(random.integers(100)))),
    (0.5, lambda subject, random: q.LogPartition()),
    (0.5, lambda subject, random: q.IsNormalised()),
    (0.3, lambda subject, random: q.HoldsWeights()),
)


def question(subject: Subject, random: Random) -> Question:
    """One question at random."""
    weights = np.array([weight for weight, _ in DRAWN])
    return DRAWN[int(random.choice(len(DRAWN), p=weights / weights.sum()))][1](subject, random)


def circuit_question(subject: CircuitSubject, random: Random) -> CircuitQuestion:
    """One question to a circuit at random, the properties more often than others."""
    kinds = [*CHECKS, "check", "check", "check", "Z-verdicts", "marginal", "scalar.partition"]
    kind = str(choice(random, kinds))
    variables = subject.oracle.variables
    over: list[int] = []
    if kind in ("integrate", "marginal", "scalar.marginal", "unitary.marginal", "Z-verdicts"):
        over = sorted(random.permutation(variables)[: random.integers(1, len(variables) + 1)].tolist())
    count = int(random.integers(1, 4))
    return CircuitQuestion(kind, rows(subject, random, count), tuple(over))
