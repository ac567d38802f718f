"""Rows with their gaps filled: by the mean or the mode of each variable by itself, or by a joint sample."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from squircuit.errors import ParameterError
from squircuit.execution.threads import SMALL, fitting_threads
from squircuit.families import Categorical, Fourier
from squircuit.inference.compile.compiled_circuit import Snapshot
from squircuit.inference.coordinates import modes as highest
from squircuit.inference.evidence import Evidence
from squircuit.inference.marginals import Marginals, marginals, questions, sweeps
from squircuit.inference.sampling.sample import sample
from squircuit.inference.upward.finite import Range, not_finite
from squircuit.inference.upward.quadrature import breakpoints
from squircuit.progress import steps

How: TypeAlias = Literal["mean", "mode", "sample"]  #: what a gap is filled with
HOW = ("mean", "mode", "sample")
TABLE = 256
"""Rows whose densities at all nodes of all variables are in memory at once."""
FINER = 8
"""Points that the second look has on each side of a node, up to its neighbour."""
NEARLY = 0.5
"""A peak between the nodes is at most twice as high as the nodes show it: lower ones are not looked at."""


@fitting_threads(SMALL)
def impute(
    snapshot: Snapshot,
    evidence: Evidence,
    how: How = "mode",
    generator: torch.Generator | None = None,
) -> Tensor:
    """Rows with their gaps filled: (n, d).

    Args:
        snapshot: of the model.
        evidence: n rows of positive probability.
        how: "mode", of each missing variable by itself the most probable state or the point of highest
            density; "mean", of each by itself the mean (of ordered states the nearest one, of others the most
            probable; on a circle the mean direction); "sample", all that a row lacks drawn jointly.
        generator: of the samples.
    """
    require_how(how, "impute: how")
    if how == "sample":
        return sample(snapshot, evidence, 1, generator)[0]
    found = (means if how == "mean" else modes)(snapshot, evidence)
    filled = evidence.x.clone()
    for v, values in found.items():
        filled[:, v] = torch.where(evidence.missing[:, v], values.to(filled), filled[:, v])
    return filled


def require_how(how: object, name: str) -> None:
    """Refuse what is none of the ways to fill a gap."""
    if isinstance(how, str) and how in HOW:
        return
    known = ", ".join(map(repr, HOW[:-1]))
    meant = ' What "likely" meant is now "mode" (before, the mean of continuous variables).'
    raise ParameterError(
        f"{name}={how!r} is not known. Fix: pass one of {known} or {HOW[-1]!r}." + meant * (how == "likely")
    )


def means(snapshot: Snapshot, evidence: Evidence) -> dict[int, Tensor]:
    """Missing variable → a mean that the variable can take, in every row: (n,).

    Of a continuous variable E[x_v | y], of a periodic one the mean direction. Of ordered states the one
    nearest to the mean. States without an order have none, so it is the most probable one.
    """
    evidence = Evidence(evidence.x.detach(), evidence.missing)
    snapshot, nodes, of_blocks = questions(snapshot, evidence)
    expected = {v: torch.zeros(len(evidence), dtype=torch.float64, device=snapshot.device) for v in of_blocks}
    found = {} if nodes is None else {v: torch.zeros(len(evidence)).to(nodes.points) for v in nodes.rows}
    for sweep in sweeps(snapshot, evidence, nodes, of_blocks):
        for v, (rows, table) in sweep.tables.items():
            assert nodes is not None
            found[v][rows] = _mean(snapshot, v, nodes.rule(v), table)
        for v, part in sweep.coordinates:
            expected[v].index_add_(0, part.rows, part.mean())
    found |= expected
    for v, values in found.items():
        if bool(values[evidence.missing[:, v]].isnan().any()):
            raise not_finite(f"variable {v}", "mean")
    return found


def modes(snapshot: Snapshot, evidence: Evidence) -> dict[int, Tensor]:
    """Missing variable → argmax p(x_v | y) in every row, other missing variables marginalised: (n,).

    Of a continuous variable the density is known at the nodes of its integral; a second sweep looks at finer
    points around each that may be the highest, and a parabola through the best three gives the maximum.
    """
    parts = torch.split(torch.arange(len(evidence), device=snapshot.device), TABLE)
    found: dict[int, Tensor] = {}
    for rows in steps(parts, [len(part) for part in parts]):
        for v, values in _modes(snapshot, evidence.take(rows)).items():
            whole = found.setdefault(v, torch.zeros(len(evidence)).to(values))
            whole[rows] = values
    return found


def _modes(snapshot: Snapshot, evidence: Evidence) -> dict[int, Tensor]:
    """The same of some rows, whose densities are in memory at once."""
    found = marginals(snapshot, evidence, tables=False)
    domains = snapshot.circuit.domains
    finer = {v: _finer(snapshot, found, v) for v in found.points if not domains[v].is_discrete}
    again = marginals(snapshot, evidence, finer, tables=False) if finer else found
    modes = {v: _vertex(again, v) if v in finer else found.mode(v) for v in found.points}
    return modes | {v: highest(parts, len(evidence)) for v, parts in found.coordinates.items()}


def direction(nodes: Tensor, masses: Tensor, low: float, period: float) -> Tensor:
    """The mean on a circle: the angle of E[exp(2πi (x − low)/P)]: (Q,), (n, Q) → (n,).

    Example:
        >>> direction(torch.tensor([10.0, 350.0]), torch.tensor([[0.5, 0.5], [1.0, 0.0]]), 5.0, 360.0).round()
        tensor([360.,  10.])
    """
    angles = 2 * math.pi * (nodes - low) / period
    turns = torch.atan2(masses @ angles.sin().to(masses), masses @ angles.cos().to(masses)) / (2 * math.pi)
    return low + torch.remainder(turns, 1.0) * period


def _mean(snapshot: Snapshot, v: int, rule: tuple[Tensor, Tensor], table: Tensor) -> Tensor:
    """A mean of a variable from its densities at the nodes of its rule, (m, Q): (m,)."""
    nodes, weights = rule
    masses = table[:, : len(nodes)].double() * weights
    masses = masses / masses.sum(dim=1, keepdim=True)
    domain = snapshot.circuit.domains[v]
    families = [layer.family for layer in snapshot.circuit.inputs if v in layer.variables]
    if domain.is_discrete:
        is_ordered = any(isinstance(family, Categorical) and family.ordered for family in families)
        return (masses @ nodes + 0.5).floor() if is_ordered else nodes[masses.argmax(dim=1)]
    circle = next((family for family in families if isinstance(family, Fourier)), None)
    if circle is None:
        return Range.of(snapshot, v).total(nodes, masses * nodes, 1)
    ends = breakpoints(snapshot, v)
    low, high = float(ends[0]), float(ends[-1])
    return direction(nodes, masses, low, high - low)


def _finer(snapshot: Snapshot, found: Marginals, v: int) -> Tensor:
    """Points around every node that is a high peak in some row, up to its neighbours: (Q,), sorted."""
    values, nodes = found.values[v].nan_to_num(0.0), found.points[v]
    outside = values.new_zeros(len(values), 1)
    left, right = (torch.cat(parts, dim=1) for parts in ((outside, values[:, :-1]), (values[:, 1:], outside)))
    peaks = (values >= left) & (values >= right) & (values >= NEARLY * values.amax(dim=1, keepdim=True))
    ends = breakpoints(snapshot, v).to(nodes)
    framed = torch.cat([ends[:1], nodes, ends[-1:]])  # a density may be highest at the end of its domain
    shares = torch.linspace(0, 1, FINER + 1, dtype=nodes.dtype, device=nodes.device)
    chosen = torch.nonzero((peaks & (values > 0)).any(dim=0)).flatten()
    if not len(chosen):
        return nodes
    around = [
        torch.lerp(framed[chosen + 1].unsqueeze(1), framed[chosen + side].unsqueeze(1), shares)
        for side in (0, 2)
    ]
    points: Tensor = torch.unique(torch.cat([part.flatten() for part in around]))
    return points


def _vertex(found: Marginals, v: int) -> Tensor:
    """The highest point of each row, moved to the vertex of log p through it and its neighbours: (n,)."""
    points, logs = found.points[v].double(), found.values[v].nan_to_num(0.0).double().log()
    best = logs.argmax(dim=1)
    inner = best.clamp(1, max(1, len(points) - 2))
    x = [points[inner + step] for step in (-1, 0, 1)]
    y = [logs.gather(1, (inner + step).unsqueeze(1)).squeeze(1) for step in (-1, 0, 1)]
    left, right = (y[1] - y[0]) / (x[1] - x[0]), (y[2] - y[1]) / (x[2] - x[1])
    bend = (right - left) / (x[2] - x[0])
    vertex = (x[0] + x[1]) / 2 - left / (2 * bend)
    is_top = (inner == best) & (bend < 0) & vertex.isfinite()
    return torch.where(is_top, vertex.clamp(x[0], x[2]), points[best])
