"""The most probable completion of a row, all that it lacks together: exact, or the best found and a bound."""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from squircuit.errors import ParameterError, is_whole
from squircuit.execution.threads import SMALL, fitting_threads
from squircuit.inference.compile.compiled_circuit import Snapshot
from squircuit.inference.evidence import Evidence, require_positive
from squircuit.inference.imputation import modes
from squircuit.inference.likelihood import log_marginal
from squircuit.inference.marginals import marginals
from squircuit.inference.sampling.sample import sample
from squircuit.progress import steps

BEAM = 32
"""Partial completions that are looked at together."""
STARTS = 16
"""Samples from which a search among continuous variables begins."""
SWEEPS = 20
"""Rounds in which every missing variable moves to its mode given all others, at most."""
GAIN = 1e-9
"""Nats that a round gains at least, or it is the last."""
ROUNDING = {torch.float32: 1e-4, torch.float64: 1e-9}
"""Nats by which log-probabilities may err."""


@final
@dataclass(frozen=True, eq=False)
class MostProbable:
    """The best completions that were found, and what is known about better ones.

    Args:
        x: the rows with their gaps filled: (n, d).
        log_prob: log p of them: (n,).
        log_bound: no completion has a larger log p, up to rounding: (n,); equal to ``log_prob`` where the
            search was complete, infinite where a row lacks a continuous variable, of whose density no bound
            is known.
        is_exact: rows for which no completion is more probable, up to rounding: (n,).
    """

    x: Tensor
    log_prob: Tensor
    log_bound: Tensor
    is_exact: Tensor

    def __str__(self) -> str:
        known, better = int(self.is_exact.sum()), ~self.is_exact
        if not bool(better.any()):
            return f"the most probable completions of all {known} rows"
        gap = float((self.log_bound - self.log_prob)[better].max())
        bound = "no bound is known" if math.isinf(gap) else f"by at most {gap:.3g} nats"
        return (
            f"the most probable completions of {known} of {len(better)} rows; "
            f"others may be more probable than the best found, {bound}"
        )


@fitting_threads(SMALL)
@torch.no_grad()
def most_probable(
    snapshot: Snapshot, evidence: Evidence, budget: int = 2000, generator: torch.Generator | None = None
) -> MostProbable:
    r"""argmax over all that a row lacks, together, of p(x | y).

    Discrete variables: branch and bound. For every partial completion z and every missing variable v

    .. math:: \max_x p(z, x) \le \min_v \max_s p(z, x_v = s) \le p(z),

    which marginals tell exactly. The most promising partial completions go on first, so that the search ends
    with a proof; where ``budget`` of them were looked at before, with the best found and the largest bound
    left. Where continuous variables are missing, every variable moves to its mode given all others, from
    samples and from the modes of each by itself: a local maximum, without a bound.

    Args:
        snapshot: of the model.
        evidence: n rows of positive probability.
        budget: partial completions that are looked at for each row, at most.
        generator: of the samples.
    """
    if not is_whole(budget, 1):
        raise ParameterError(f"budget={budget!r}. Fix: pass how many partial completions may be looked at.")
    start = log_marginal(snapshot, evidence)
    require_positive(start, torch.arange(len(evidence)))
    discrete = torch.tensor(
        [snapshot.circuit.domains[v].is_discrete if v in snapshot.circuit.domains else True
         for v in range(snapshot.circuit.num_variables)], device=evidence.x.device,
    )  # fmt: skip
    filled, bounds = evidence.x.clone(), []
    for i in steps(range(len(evidence)), [1.0] * len(evidence)):
        row, bound = evidence.take(slice(i, i + 1)), float(start[i])
        if bool(row.missing.any()):
            filled[i], reached = _climbed(snapshot, row, generator)
            bound = math.inf
            if not bool((row.missing & ~discrete).any()):
                filled[i], bound = _searched(snapshot, row, filled[i], reached, budget)
        bounds.append(bound)
    found = log_marginal(snapshot, Evidence(filled, torch.zeros_like(evidence.missing)))
    log_bound = torch.maximum(torch.tensor(bounds, dtype=torch.float64, device=found.device), found.double())
    is_exact = log_bound <= found.double() + ROUNDING[found.dtype]
    return MostProbable(filled, found, torch.where(is_exact, found.double(), log_bound), is_exact)


def _searched(
    snapshot: Snapshot, row: Evidence, best: Tensor, reached: float, budget: int
) -> tuple[Tensor, float]:
    """The best completion of a row whose gaps are discrete, and a bound on log p of all others.

    Args:
        snapshot: of the model.
        row: one.
        best: a completion, and the log-probability that it has ``reached``.
        budget: partial completions that are looked at.
    """
    order = itertools.count()  # of equal bounds the first
    waiting = [(-math.inf, next(order), row.x[0], row.missing[0])]
    looked = 0
    while waiting and -waiting[0][0] > reached and looked < budget:
        some = [heapq.heappop(waiting) for _ in range(min(BEAM, len(waiting), budget - looked))]
        looked += len(some)
        parts = Evidence(torch.stack([part[2] for part in some]), torch.stack([part[3] for part in some]))
        for log_p, x, missing in _branches(snapshot, parts):
            if log_p > reached and bool(missing.any()):
                heapq.heappush(waiting, (-log_p, next(order), x, missing))
            elif log_p > reached:
                best, reached = x, log_p
    return best, max(reached, -waiting[0][0]) if waiting else reached


def _branches(snapshot: Snapshot, parts: Evidence) -> list[tuple[float, Tensor, Tensor]]:
    """Partial completions with one variable more, log p of each, and its gaps.

    The variable is the one whose most probable state is the least probable: the bounds fall fastest.
    """
    log_p = log_marginal(snapshot, parts).double()
    tables = marginals(snapshot, parts).values
    highest = torch.full(parts.missing.shape, torch.inf, dtype=torch.float64, device=parts.x.device)
    for v, table in tables.items():
        highest[:, v] = torch.where(parts.missing[:, v], table.double().amax(dim=1), torch.inf)
    found = []
    for i, v in enumerate(highest.argmin(dim=1).tolist()):
        logs = tables[v][i].double().log() + log_p[i]
        missing = parts.missing[i].clone()
        missing[v] = False
        for state in torch.nonzero(logs > -torch.inf).flatten().tolist():
            x = parts.x[i].clone()
            x[v] = state
            found.append((float(logs[state]), x, missing))
    return found


def _climbed(snapshot: Snapshot, row: Evidence, generator: torch.Generator | None) -> tuple[Tensor, float]:
    """A completion that no change of one variable makes more probable, the best from several starts."""
    drawn = sample(snapshot, row, STARTS, generator)[:, 0]
    alone = row.x.to(drawn).clone()
    for v, values in modes(snapshot, row).items():
        alone[:, v] = values.to(alone)
    x = torch.cat([alone, drawn])
    nothing = torch.zeros(x.shape, dtype=torch.bool, device=x.device)
    reached = log_marginal(snapshot, Evidence(x, nothing)).double()
    for _ in range(SWEEPS):
        begun = reached.max()
        for v in torch.nonzero(row.missing[0]).flatten().tolist():
            hidden = nothing.clone()
            hidden[:, v] = True
            moved = x.clone()
            moved[:, v] = modes(snapshot, Evidence(x, hidden))[v].to(x)
            log_p = log_marginal(snapshot, Evidence(moved, nothing)).double()
            x = torch.where((log_p > reached).unsqueeze(1), moved, x)
            reached = torch.maximum(reached, log_p)
        if reached.max() <= begun + GAIN:
            break
    best = int(reached.argmax())
    return x[best], float(reached[best])
