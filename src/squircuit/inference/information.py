"""Entropy and mutual information of some variables: exact where states can be counted, else estimated."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from squircuit.circuits import Circuit
from squircuit.errors import DataError
from squircuit.inference.comparison import Estimate, estimated
from squircuit.inference.compile.compiled_circuit import Snapshot
from squircuit.inference.evidence import Evidence
from squircuit.inference.likelihood import log_ratio
from squircuit.inference.sampling.sample import make_generator, sample

MOST_STATES = 2**16
"""Joint states of variables that are counted one by one."""


def entropy(
    snapshot: Snapshot,
    evidence: Evidence,
    variables: Sequence[int],
    samples: int = 1000,
    confidence: float = 0.95,
    seed: int | None = None,
) -> Estimate:
    """H(x_S | y) = −E[log p(x_S | y)] in nats, y being one row of evidence, what is beside S marginalised.

    Exact, an interval of no length, where the states of the variables are at most 2¹⁶; else from exact
    samples. Of continuous variables it is the differential entropy.
    """
    known = _one_row(evidence, variables)
    states = joint_states(snapshot.circuit, variables)
    if states is not None:
        log_p = _log_probs(snapshot, known, variables, states)
        return exactly(-float(torch.where(log_p > -torch.inf, log_p.exp() * log_p, 0.0).sum()))
    drawn = _drawn(snapshot, known, variables, samples, seed)
    return estimated(-_log_probs(snapshot, known, variables, drawn), confidence, (-math.inf, math.inf))


def mutual_information(
    snapshot: Snapshot,
    evidence: Evidence,
    first: Sequence[int],
    second: Sequence[int],
    samples: int = 1000,
    confidence: float = 0.95,
    seed: int | None = None,
) -> Estimate:
    """I(x_A; x_B | y) = E[log p(x_A, x_B | y) − log p(x_A | y) − log p(x_B | y)] in nats, as `entropy`."""
    both = [*first, *second]
    known = _one_row(evidence, both)
    states = joint_states(snapshot.circuit, both)
    found = _drawn(snapshot, known, both, samples, seed) if states is None else states
    sides = (found[:, : len(first)], found[:, len(first) :])
    joint = _log_probs(snapshot, known, both, found)
    apart = sum(
        _log_probs(snapshot, known, own, part) for own, part in zip((first, second), sides, strict=True)
    )
    ratios = torch.where(joint > -torch.inf, joint - apart, 0.0)
    if states is None:
        return estimated(ratios, confidence, (0.0, math.inf))
    return exactly(max(0.0, float((joint.exp() * ratios).sum())))


def exactly(value: float) -> Estimate:
    """A number that is known."""
    return Estimate(value, value, value, 1.0)


def joint_states(circuit: Circuit, variables: Sequence[int], most: int = MOST_STATES) -> Tensor | None:
    """All joint states of some variables, (m, k) int64; None: they are too many, or one is not discrete."""
    domains = [circuit.domains[v] for v in variables]
    if not all(domain.is_discrete for domain in domains):
        return None
    sizes = [int(domain.bounds[1]) + 1 for domain in domains]
    if math.prod(sizes) > most:
        return None
    return torch.cartesian_prod(*(torch.arange(size) for size in sizes)).reshape(-1, len(sizes))


def _one_row(evidence: Evidence, variables: Sequence[int]) -> Evidence:
    """Evidence of one row that lacks the variables."""
    if len(evidence) != 1:
        raise DataError(f"{len(evidence)} rows are given. Fix: ask about one at a time.")
    missing = evidence.missing.clone()
    missing[:, list(variables)] = True
    return Evidence(evidence.x, missing)


def _drawn(
    snapshot: Snapshot, known: Evidence, variables: Sequence[int], samples: int, seed: int | None
) -> Tensor:
    source = make_generator(seed, None, snapshot.device)
    return sample(snapshot, known, samples, source)[:, 0, list(variables)]


@torch.no_grad()
def _log_probs(snapshot: Snapshot, known: Evidence, variables: Sequence[int], values: Tensor) -> Tensor:
    """log p(x_S | y) at some values of S, (m, k): (m,) float64."""
    chosen = list(variables)
    x, missing = (part.expand(len(values), -1).clone() for part in (known.x, known.missing))
    dtype = torch.promote_types(x.dtype, values.dtype)
    x, missing = x.to(dtype), missing
    x[:, chosen], missing[:, chosen] = values.to(x), False
    return log_ratio(snapshot, Evidence(x, missing), known).double()
