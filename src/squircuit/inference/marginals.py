"""The distribution of every missing variable by itself, in one sweep up and one sweep down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from squircuit.circuits import Circuit
from squircuit.errors import ParameterError, is_whole
from squircuit.execution.precision import tf32
from squircuit.inference.compile.compiled_circuit import Snapshot, constant
from squircuit.inference.evidence import Evidence, require_positive
from squircuit.inference.upward.batches import batches, blocks
from squircuit.inference.upward.messages import log_total, messages
from squircuit.inference.upward.quadrature import Nodes, quadrature


@final
@dataclass(frozen=True, eq=False)
class Marginals:
    """p(x_v | y) of every variable v that some row lacks, y being what that row shows.

    Of no rows at all, every variable has a table, without rows: parts of data can be put together.

    Args:
        points: variable → the states of a discrete variable, or the points at which a density is given: (Q,).
        values: variable → probabilities or densities there, (n, Q). In rows that show v: one at its state if
            it is discrete, else NaN, for a point mass has no density.
        mean: E[x_v | y], (n, d); the value itself where it is observed.
        variance: Var[x_v | y], (n, d); 0 where it is observed.
        nodes: variable → its states, or the nodes at which it is integrated: (Q,).
        masses: variable → the probability of every node, (n, Q), zero in rows that show the variable.
    """

    points: Mapping[int, Tensor]
    values: Mapping[int, Tensor]
    mean: Tensor
    variance: Tensor
    nodes: Mapping[int, Tensor]
    masses: Mapping[int, Tensor]

    def mode(self, variable: int) -> Tensor:
        """The most probable of a variable's points in every row: (n,)."""
        return self.points[variable][self.values[variable].nan_to_num(0.0).argmax(dim=1)]


@tf32(False)
def marginals(snapshot: Snapshot, evidence: Evidence, grid: Mapping[int, Any] | None = None) -> Marginals:
    """p(x_v | y) = ∂ log p(y) / ∂ ω_v for all missing v of all rows.

    Two sweeps (see :mod:`squircuit.inference.upward.quadrature`), whatever the number of missing variables;
    exact also where sums have several inputs, whose interference the last missing variable sees.

    Args:
        snapshot: of the model.
        evidence: n rows of positive probability.
        grid: continuous variable → points (Q,) at which its density is wanted; by default the nodes at which
            it is integrated.
    """
    evidence = Evidence(evidence.x.detach(), evidence.missing)  # these sweeps use gradients for themselves
    missing = evidence.missing.any(dim=0)
    wanted = [v for v in sorted(snapshot.circuit.scope) if bool(missing[v]) or not len(evidence)]
    nodes = quadrature(snapshot, wanted, _as_grid(snapshot.circuit, wanted, grid)) if wanted else None
    found = {v: _nothing_yet(snapshot, evidence, nodes, v) for v in wanted}
    for rows, densities, variables in _sweeps(snapshot, evidence, nodes):
        for row, v in enumerate(variables):
            keep = evidence.missing[rows, v]
            found[v][rows[keep]] = densities[row, keep, : found[v].shape[1]]
    return _collected(evidence, nodes, found, grid or {}, snapshot.mixture.dtype)


def moments(found: Marginals, evidence: Evidence, order: int) -> Tensor:
    """E[x_v^k | y] for k = 1 … order of every variable: (order, n, d)."""
    if not is_whole(order, 1):
        raise ParameterError(
            f"moments: order must be an integer ≥ 1, got {order!r}. Fix: pass a whole number from 1."
        )
    powers = torch.arange(1, order + 1, device=found.mean.device)
    result = found.mean.unsqueeze(0) ** powers[:, None, None]
    for v, mass in found.masses.items():
        keep = evidence.missing[:, v]
        x = found.nodes[v].to(mass.dtype)
        result[:, keep, v] = ((x ** powers.unsqueeze(1)) @ mass[keep].T).to(result.dtype)
    return result


def node_densities(snapshot: Snapshot, evidence: Evidence, nodes: Nodes, rows: Tensor) -> Tensor:
    """p(x_q | y) at all nodes for rows computed together: (V, B, Q)."""
    with torch.inference_mode(mode=False), torch.enable_grad():
        shape = (-1, len(evidence), -1)
        weights = nodes.weights.to(snapshot.mixture.dtype).expand(*shape).clone().requires_grad_()
        plain = Evidence(constant(evidence.x), constant(evidence.missing))
        log_p = log_total(messages(snapshot.detached(), plain, nodes.weighted(weights)))
        require_positive(log_p, rows)
        (gradient,) = torch.autograd.grad(log_p.sum(), weights)
    return gradient.clamp_min(0)


def _sweeps(
    snapshot: Snapshot, evidence: Evidence, nodes: Nodes | None
) -> list[tuple[Tensor, Tensor, list[int]]]:
    """Rows, densities (V, B, Q) and variables of every batch."""
    found = []
    for batch in batches(snapshot, evidence):
        lacks = evidence.missing[batch].any(dim=0).tolist()
        variables = [v for v in sorted(snapshot.circuit.scope) if lacks[v]]
        part = None if nodes is None or not variables else nodes.of(variables)
        for rows in _blocks(snapshot, evidence, batch, part):
            if part is None:
                require_positive(log_total(messages(snapshot, evidence.take(rows))), rows)
            else:
                densities = node_densities(snapshot, evidence.take(rows), part, rows)
                found.append((rows, densities, variables))
    return found


def _blocks(snapshot: Snapshot, evidence: Evidence, batch: Tensor, nodes: Nodes | None) -> list[Tensor]:
    weighted = frozenset() if nodes is None else frozenset(nodes.rows)
    schedule = snapshot.schedule(evidence.missing[batch], weighted)
    widest = max(snapshot.plan.pools)
    entries = 1 if nodes is None else nodes.points.numel() * widest
    return list(blocks(batch, schedule, entries))


def _nothing_yet(snapshot: Snapshot, evidence: Evidence, nodes: Nodes | None, variable: int) -> Tensor:
    """The rows that show the variable: one at its state, or NaN."""
    assert nodes is not None
    count = nodes.counts[nodes.rows[variable]]
    shape = (len(evidence), count)
    if not snapshot.circuit.domains[variable].is_discrete:
        return torch.full(shape, torch.nan, dtype=snapshot.mixture.dtype, device=snapshot.device)
    table = torch.zeros(shape, dtype=snapshot.mixture.dtype, device=snapshot.device)
    state = torch.where(evidence.missing[:, variable], 0, evidence.x[:, variable].long())
    return table.scatter(1, state.unsqueeze(1), 1.0)


def _collected(
    evidence: Evidence,
    nodes: Nodes | None,
    found: dict[int, Tensor],
    grid: Mapping[int, Any],
    dtype: torch.dtype,
) -> Marginals:
    # in double precision, since points that differ by little may be large
    exact = torch.promote_types(dtype, evidence.x.dtype)
    mean, variance = evidence.x.to(exact).clone(), torch.zeros_like(evidence.x, dtype=exact)
    points, values, rules, masses = {}, {}, {}, {}
    for v, table in found.items():
        assert nodes is not None
        rules[v], w = nodes.rule(v)
        x, missing = rules[v], evidence.missing[:, v]
        mass = torch.where(missing.unsqueeze(1), table[:, : len(x)].double() * w, 0.0)
        total = mass.sum(dim=1, keepdim=True)
        masses[v] = mass = torch.where(total > 0, mass / total, 0.0)
        table = torch.where(missing.unsqueeze(1), (table / total).to(dtype), table)
        expected = mass @ x
        mean[:, v] = torch.where(missing, expected.to(exact), mean[:, v])
        variance[:, v] = (mass * (x - expected.unsqueeze(1)).square()).sum(dim=1).to(exact)
        shown = slice(len(x), None) if v in grid else slice(0, len(x))
        points[v], values[v] = nodes.points[nodes.rows[v], : table.shape[1]][shown], table[:, shown]
    return Marginals(points, values, mean, variance, rules, masses)


def _as_grid(circuit: Circuit, wanted: list[int], grid: Mapping[int, Any] | None) -> dict[int, Tensor]:
    if grid is not None and not isinstance(grid, Mapping):
        raise ParameterError(
            f"grid maps variables to points, e.g. {{2: torch.linspace(-3, 3, 61)}}; got {grid!r}"
            ". Fix: pass such a mapping."
        )
    points = {v: _as_points(v, x) for v, x in (grid or {}).items()}
    for v, x in points.items():
        if v not in circuit.domains:
            raise ParameterError(
                f"grid: {v!r} is no variable of the circuit, {sorted(circuit.domains)}"
                ". Fix: pass points of one of these."
            )
        if v not in wanted or circuit.domains[v].is_discrete:
            what = "discrete" if v in circuit.domains and circuit.domains[v].is_discrete else "not missing"
            raise ParameterError(
                f"grid: variable {v} is {what}. Fix: give points for continuous missing variables"
            )
        if x.ndim != 1:
            raise ParameterError(
                f"grid: the points of variable {v} have shape {tuple(x.shape)}. Fix: pass (Q,)"
            )
    return points


def _as_points(variable: int, x: Any) -> Tensor:
    try:
        points = torch.as_tensor(x, dtype=torch.float64).detach()
    except (TypeError, ValueError, RuntimeError) as error:
        raise ParameterError(
            f"grid: the points of variable {variable} are no numbers: {error}. Fix: pass (Q,) numbers."
        ) from error
    if bool(points.isnan().any()):
        raise ParameterError(f"grid: the points of variable {variable} hold NaN. Fix: pass finite points.")
    return points
