"""Expectations of products of functions of one variable each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

import torch
from torch import Tensor

from squircuit.circuits import Circuit
from squircuit.errors import ParameterError
from squircuit.execution.precision import tf32
from squircuit.inference.compile.compiled_circuit import Snapshot
from squircuit.inference.evidence import Evidence, distinct_masks, require_positive
from squircuit.inference.upward.batches import blocks
from squircuit.inference.upward.finite import Range, not_finite, share_missed
from squircuit.inference.upward.messages import log_total, messages, total
from squircuit.inference.upward.quadrature import Nodes, quadrature

Functions: TypeAlias = Mapping[int, Callable[[Tensor], Tensor]]  #: variable → real function of a tensor

LARGE = 1e25
"""Functions that are this many medians where a rule ends are looked at: densities there are 1e-43."""


@tf32(False)
def expectation(snapshot: Snapshot, evidence: Evidence, functions: Functions) -> Tensor:
    """E[∏_v f_v(x_v) | y] of every row: two passes upwards, with weights ω_q f_v(x_q) and ω_q.

    Functions of observed variables are evaluated there. Continuous variables are integrated by their
    families' quadrature: exact to rounding for functions as smooth as the input functions, such as
    polynomials of low degree. Differentiable in the weights of the model.

    Args:
        snapshot: of the model; see :func:`keeps_cross_terms_zero`.
        evidence: n rows of positive probability.
        functions: variable → f_v.

    Returns:
        (n,).
    """
    _require_variables(snapshot.circuit, functions)
    if not len(evidence):
        return snapshot.root_shares.new_zeros(0)
    own, snapshot = snapshot.real, snapshot.doubled()  # terms cancel, and functions may be large far out
    parts, order = [], []
    for mask, batch in distinct_masks(evidence):
        hidden = {v: f for v, f in functions.items() if bool(mask[v])}
        schedule = snapshot.schedule(mask.unsqueeze(0), frozenset(hidden))
        for rows in blocks(batch, schedule):
            parts.append(_expected(snapshot, evidence.take(rows), functions, hidden, rows))
            order.append(rows)
    return torch.cat(parts)[torch.cat(order).argsort()].to(own)


def keeps_cross_terms_zero(circuit: Circuit, evidence: Evidence, functions: Functions) -> bool:
    """Below every sum with several inputs a variable is plainly marginalised, or all but one are observed.

    Input functions that are orthogonal (U1, U4) need not be so any more once multiplied by f.
    """
    scopes = [layer.scope for layer in circuit.sums if len(layer.inputs) > 1]
    for mask, _ in distinct_masks(evidence):
        missing = {v for v in circuit.scope if bool(mask[v])}
        for scope in scopes:
            weighted = scope & missing & set(functions)
            if len(weighted) > 1 and not scope & missing - set(functions):
                return False
    return True


def _expected(
    snapshot: Snapshot, evidence: Evidence, functions: Functions, hidden: Functions, rows: Tensor
) -> Tensor:
    plain = messages(snapshot, evidence)
    require_positive(log_total(plain), rows)
    known_total, scale = total(plain)
    known = [_values(v, f, evidence.x[:, v]) for v, f in functions.items() if v not in hidden]
    ones = torch.ones_like(known_total)
    factor = torch.stack(known).prod(dim=0).to(ones.dtype) if known else ones
    if not hidden:
        return factor
    of_blocks = {v: partial(_values, v, f) for v, f in hidden.items() if snapshot.is_in_block(v)}
    single = [v for v in hidden if snapshot.is_alone(v)]
    nodes = quadrature(snapshot, single) if single else None
    if nodes is not None:
        values = torch.stack([_values(v, hidden[v], nodes.points[i])[None] for v, i in nodes.rows.items()])
        _require_finite(snapshot, evidence, nodes, values, of_blocks)
        nodes = nodes.weighted(nodes.weights * values)
    weighted, weighted_scale = total(messages(snapshot, evidence, nodes, functions=of_blocks))
    apart = torch.where(weighted == 0, 0.0, weighted_scale - scale)
    return factor * weighted / known_total * apart.exp()


@torch.no_grad()
def _require_finite(
    snapshot: Snapshot, evidence: Evidence, nodes: Nodes, values: Tensor, of_blocks: Functions
) -> None:
    """Refuse functions, (V, 1, Q) at nodes, whose means are infinite, or of which too much is far out.

    Of E |f₁ f₂ …| nothing may be left where a rule ends; where a function is large there, that is looked at.
    """
    weights = nodes.weights * values.detach().abs()
    sizes = {}
    for v, i in nodes.rows.items():
        if snapshot.circuit.domains[v].is_discrete:
            continue
        reach, count = Range.of(snapshot, v), nodes.counts[i]
        x, found = nodes.points[i, :count], values[i, 0, :count].detach()
        last = reach.outermost(x)
        if not reach.is_finite(reach.growth(x, found)) or not bool(found.isfinite().all()):
            raise not_finite(f"a function of variable {v}", "expectation")
        if bool((found[last].abs() > LARGE * found.abs().median()).any()):
            sizes[v] = torch.where(
                torch.nn.functional.pad(last, (0, weights.shape[2] - count)), weights[i], 0.0
            )
    if not sizes:
        return
    absolute = {v: partial(_absolute, f) for v, f in of_blocks.items()}
    whole, scale = total(messages(snapshot, evidence, nodes.weighted(weights), functions=absolute))
    for v, outer in sizes.items():
        part = weights.clone()
        part[nodes.rows[v]] = outer
        missed, other = total(messages(snapshot, evidence, nodes.weighted(part), functions=absolute))
        if not bool((missed.abs() * (other - scale).exp() <= share_missed(missed.dtype) * whole.abs()).all()):
            raise not_finite(f"a function of variable {v}", "expectation")


def _absolute(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    return function(x).abs()


def _values(variable: int, function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """f at some points, checked."""
    x = x.double()
    value = function(x)
    if not isinstance(value, Tensor) or value.shape != x.shape or value.is_complex():
        got = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        raise ParameterError(
            f"expectation: the function of variable {variable} gave {got} for points {tuple(x.shape)}. "
            "Fix: return a real tensor of the same shape"
        )
    return value.double()


def _require_variables(circuit: Circuit, functions: Functions) -> None:
    for v, function in functions.items():
        if v not in circuit.scope or not callable(function):
            raise ParameterError(
                f"expectation: {v!r}: {function!r} is not a variable of the circuit with a function of it. "
                "Fix: pass e.g. {0: torch.square, 3: torch.exp}"
            )
