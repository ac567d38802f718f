"""Questions to circuits: values, integrals, transforms, and whether verdicts are true of what is computed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

import squircuit as sq
from fuzz.functions import DOUBLE, Array, Scaled, functions, log_sum
from fuzz.oracle import Oracle, columns, is_block
from fuzz.program import Program, tensor
from fuzz.questions import ROUNDING, Problem

SURE = 1e-11  #: cosines below this are zero
CLEAR = 1e-5  #: cosines above this are not
RULED_OUT = (
    1e-9  #: digits that rounding may have left of a function; below, it is undecided whether it is zero
)


class CircuitSubject:
    """A circuit with weights, and its oracle.

    Args:
        program: that made the circuit.
        name: of the circuit in it.
    """

    def __init__(self, program: Program, name: str) -> None:
        self.program, self.name = program, name
        self.circuit = program.names[name]
        weights = {key: value.detach().numpy() for key, value in self.circuit.weights.items()}
        self.is_double = all(
            value.dtype in (torch.float64, torch.complex128) for value in self.circuit.weights.values()
        )
        self.oracle = Oracle(self.circuit, weights)
        self.compared = 0

    @cached_property
    def error(self) -> float:
        """The relative error that Z may have."""
        return ROUNDING * self.oracle.z_rounding + 1e-7

    @property
    def is_sound(self) -> bool:
        """Z is a number that rounding leaves alone, and no square leaves the range of floats."""
        oracle = self.oracle
        return -600 < oracle.log_z < 600 and self.error < 0.02


# ---------------------------------------------------------------------- numbers


@dataclass(frozen=True)
class CircuitQuestion:
    """Something to be asked of a circuit, at rows of data.

    Args:
        kind: which question.
        x: rows (n, d).
        over: variables that are integrated out.
    """

    kind: str
    x: Array
    over: tuple[int, ...] = ()

    def names(self) -> dict[str, str]:
        """Values that the expression uses, as text."""
        return {"x": tensor(self.x)} if "x" in self.expression("").replace("expand", "") else {}

    def expression(self, name: str) -> str:
        """The question as Python text."""
        return EXPRESSIONS[self.kind].format(c=name, over=list(self.over))

    def smaller(self) -> Iterable[CircuitQuestion]:
        """The same question of single rows."""
        if len(self.x) > 1:
            for row in range(len(self.x)):
                yield CircuitQuestion(self.kind, self.x[row : row + 1], self.over)

    def check(self, subject: CircuitSubject, answer: Any) -> Problem | None:
        """What is wrong with an answer."""
        return CHECKS[self.kind](self, subject, answer)


EXPRESSIONS = {
    "evaluate": "sq.evaluate({c}, x)",
    "conjugate": "sq.evaluate(sq.conjugate({c}), x)",
    "unroll": "sq.evaluate(sq.unroll({c}), x)",
    "multiply": "sq.evaluate(sq.multiply({c}, {c}), x)",
    "square": "sq.evaluate(sq.square({c}), x)",
    "integral of the square": "sq.integrate(sq.square({c}))",
    "unitarise": "(lambda u: (u.log_beta, u.circuit.root_shares, sq.evaluate(u.circuit, x)))"
    "(sq.unitarise({c}))",
    "unitarise is normalised": "sq.partition(sq.unitarise({c}).circuit)",
    "integrate": "sq.integrate({c}, x, over={over})",
    "partition": "sq.partition({c})",
    "marginal": "sq.marginal({c}, x, over={over})",
    "scalar.partition": "sq.scalar.partition({c})",
    "scalar.marginal": "sq.scalar.marginal({c}, x, over={over})",
    "unitary.marginal": "sq.inference.unitary.marginal({c}, x, over={over})",
    "inner_product": "sq.inner_product({c}, {c})",
    "fidelity": "sq.fidelity({c}, {c})",
    "overlap": "sq.overlap({c}, {c})",
    "to_json": "sq.evaluate(sq.Circuit.from_json({c}.to_json(weights=True)), x)",
    "check": "sq.check({c})",
    "Z-verdicts": "(sq.is_orthogonal({c}, over={over}), sq.is_regular_orthogonal({c}, over={over}))",
}

TINY = 1e-307  #: below this doubles lose digits, and inner products are computed without scales
NEEDS_COMPATIBLE = ("multiply", "square", "integral of the square")
MAY_REFUSE = (
    "scalar.partition",
    "scalar.marginal",
    "unitary.marginal",
    "unitarise",
    "unitarise is normalised",
)


def _plain(values: Scaled) -> Array:
    return values.phase * np.exp(np.minimum(values.log, 700))


def _compare(subject: CircuitSubject, kind: str, got: Any, expected: Array, limit: Array) -> Problem | None:
    found = got.detach().numpy() if isinstance(got, torch.Tensor) else np.asarray(got)
    subject.compared += expected.size
    if found.shape != expected.shape:
        return Problem(kind, str(found.shape), str(expected.shape), "shape")
    wrong = ~(np.abs(found - expected) <= limit + 1e-290)
    if not wrong.any():
        return None
    place = tuple(np.argwhere(wrong)[0])
    return Problem(kind, f"{list(map(int, place))} {found[place]:.10g}", f"{expected[place]:.10g}")


def _amplitudes(question: CircuitQuestion, subject: CircuitSubject, answer: Any) -> Problem | None:
    values = subject.oracle.amplitudes(question.x)
    expected, limit = _plain(values), ROUNDING * np.exp(np.minimum(values.bound[1], 700))
    if question.kind == "conjugate":
        expected = expected.conj()
    if question.kind == "multiply":
        sizes = np.exp(np.minimum(values.bound[1], 300))
        expected = (expected[:, :, None] * expected[:, None, :]).reshape(len(expected), -1)
        limit = ROUNDING * (sizes[:, :, None] * sizes[:, None, :]).reshape(len(expected), -1)
    if question.kind == "unroll":
        limit = 4 * limit
    return _compare(subject, question.kind, answer, expected, limit)


def _square(question: CircuitQuestion, subject: CircuitSubject, answer: Any) -> Problem | None:
    table = subject.oracle.table(question.x, ())
    values = subject.oracle.amplitudes(question.x)
    sizes = np.exp(log_sum(2 * np.minimum(values.bound[1], 300) + subject.oracle.mixture, axis=-1))
    return _compare(subject, question.kind, answer[:, 0], np.exp(table.log), ROUNDING * sizes)


def _unitarised(question: CircuitQuestion, subject: CircuitSubject, answer: Any) -> Problem | None:
    log_beta, mixture, amplitudes = answer
    table = subject.oracle.table(question.x, ())
    expected = np.exp(np.minimum(table.log + 2 * log_beta, 600))
    found = (amplitudes.abs().square().double() @ mixture.double()).numpy()
    values = subject.oracle.amplitudes(question.x)
    sizes = np.exp(
        log_sum(2 * np.minimum(values.bound[1], 300) + subject.oracle.mixture, axis=-1) + 2 * log_beta
    )
    # Rows of the new weights have length 1, and are rounded beside their largest entry, so amplitudes are
    # wrong by ε times the size of the orthonormal functions at x, also where they should vanish; and by
    # ε times what had cancelled before, as the oracle adds it up over all x
    grown = math.exp(min(max(0.0, log_beta + subject.oracle.joint.total_bound()[0] / 2), 300))
    amplitude = ROUNDING * grown * _function_sizes(subject.oracle, question.x)
    limit = 1e-10 * expected + 100 * ROUNDING * sizes + (2 * np.sqrt(expected) + amplitude) * amplitude
    return _compare(subject, question.kind, found, expected, limit)


def _function_sizes(oracle: Oracle, x: Array) -> Array:
    """A bound of (Σ_k |ℓ_k(x)|²)^½ of functions that are orthonormal and made of the input functions: (n,).

    By Bessel's inequality Σ_k |ℓ_k(x)|² is at most ∏_v Σ_j |φ_vj(x_v)|² for each product, and there are as
    many products as layers at most.
    """
    logs, overlap = np.zeros(len(x)), oracle.blocks_overlap()
    for group in oracle.input_groups():
        found = [functions(i.family, columns(i, x), oracle.learnt(i), DOUBLE).log for i in group]
        sizes = log_sum(2 * np.concatenate(found, axis=1), axis=1)
        logs = logs + (np.maximum(sizes, 0) if overlap else sizes)
    return np.exp(np.minimum(logs / 2, 300)) * math.sqrt(len(oracle.layers()))


def _partition(question: CircuitQuestion, subject: CircuitSubject, answer: Any) -> Problem | None:
    z = math.exp(subject.oracle.log_z)
    found = answer.item().real if isinstance(answer, torch.Tensor) else answer
    return _compare(subject, question.kind, found, np.array(z), np.array(z * subject.error))


def _normalised(question: CircuitQuestion, subject: CircuitSubject, answer: Any) -> Problem | None:
    oracle = subject.oracle
    if not (oracle.inputs_apart(False) and _inputs_orthogonal(subject) is True):
        return None
    return _compare(subject, question.kind, answer, np.array(1.0), np.array(1e-7))


def _marginal(question: CircuitQuestion, subject: CircuitSubject, answer: Any) -> Problem | None:
    table = subject.oracle.table(question.x, question.over)
    expected = np.exp(table.total())
    limit = ROUNDING * np.exp(table.total_bound()) + 1e-7 * expected
    return _compare(subject, question.kind, answer, expected, limit)


def _integrated(question: CircuitQuestion, subject: CircuitSubject, answer: Any) -> Problem | None:
    oracle = subject.oracle
    blocks = {v for layer in oracle.inputs if is_block(layer.family) for v in layer.variables}
    if any(oracle.index(v) <= 1 for v in question.over):
        return Problem(question.kind, str(answer), "a refusal, for it is infinite", "infinite")
    if any(is_unbounded(oracle, v) and v not in blocks for v in question.over):
        return None  # the rules of lines are for products of two functions
    if any(oracle.cuts_blocks([v]) or v in blocks for v in question.over) and len(question.x) > 1:
        return None
    nodes = oracle.rules_at(question.x, question.over)
    values = oracle.values(question.x, question.over, nodes=nodes)
    parts, limits = [], []
    for root in oracle.circuit.roots:
        found = values[id(root)]
        shape = (len(question.x), *(len(nodes[v][0]) for v in sorted(question.over)), root.units)
        weight = np.zeros(shape[:-1])
        for axis, v in enumerate(sorted(question.over)):
            side = [1] * weight.ndim
            side[axis + 1] = -1
            weight = weight + nodes[v][1].reshape(side)
        axes = tuple(range(1, weight.ndim))
        parts.append((np.broadcast_to(_plain(found), shape) * np.exp(weight)[..., None]).sum(axis=axes))
        sizes = np.broadcast_to(np.exp(np.minimum(found.bound[1], 300)), shape)
        limits.append((sizes * np.exp(weight)[..., None]).sum(axis=axes))
    # nodes far from 0 are rounded, and phases with them
    far = max((float(np.abs(nodes[v][0]).max()) for v in question.over), default=0.0)
    ends = 1e-6 if blocks & set(question.over) else 0.0  # roots of Gaussians end beyond the nodes
    limit = (ROUNDING + 1e-15 * far + ends) * np.concatenate(limits, axis=1)
    return _compare(subject, question.kind, answer, np.concatenate(parts, axis=1), limit)


def is_unbounded(oracle: Oracle, variable: int) -> bool:
    """Whether a variable lives on a line or a half-line."""
    kinds = ("Line", "HalfLine")
    return type(oracle.circuit.domains[variable]).__name__ in kinds


def _inner(question: CircuitQuestion, subject: CircuitSubject, answer: Any) -> Problem | None:
    oracle = subject.oracle
    values = oracle.values(None, oracle.variables)
    units = _flat(oracle, [values[id(root)] for root in oracle.circuit.roots], oracle.variables)
    gram, sizes = units
    norms = np.sqrt(np.abs(np.diag(gram)))  # whose products are numbers where those of squares are none
    scale = 1.0
    if question.kind == "overlap":
        scale = math.exp(-oracle.log_z)
    return _compare(
        subject,
        question.kind,
        answer if question.kind == "overlap" else answer[0],
        gram * scale,
        (ROUNDING * sizes + 1e-7 * np.outer(norms, norms) + TINY) * scale,
    )


def _fidelity(question: CircuitQuestion, subject: CircuitSubject, answer: Any) -> Problem | None:
    return _compare(subject, question.kind, answer, np.array(1.0), np.array(4 * subject.error))


def _flat(oracle: Oracle, layers: list[Scaled], over: Iterable[int]) -> tuple[Array, Array]:
    """Inner products of units over all variables, and of their bounds."""
    rows, sizes = [], []
    shape = (1, *(len(oracle.rules[v][0]) for v in sorted(over)))
    weight = np.zeros(shape)
    for axis, v in enumerate(sorted(over)):
        side = [1] * len(shape)
        side[axis + 1] = -1
        weight = weight + oracle.rules[v][1].reshape(side)
    root = np.exp(weight / 2)[..., None]
    for found in layers:
        full = (*shape, found.log.shape[-1])
        rows.append((np.broadcast_to(_plain(found), full) * root).reshape(-1, full[-1]))
        sizes.append(
            (np.broadcast_to(np.exp(np.minimum(found.bound[0], 300)), full) * root).reshape(-1, full[-1])
        )
    values, bounds = np.concatenate(rows, axis=1), np.concatenate(sizes, axis=1)
    return values.T @ values.conj(), bounds.T @ bounds


# ---------------------------------------------------------------------- verdicts


def _check(question: CircuitQuestion, subject: CircuitSubject, answer: Any) -> Problem | None:
    verdicts = {verdict.name: verdict for verdict in answer}
    for name, truth in _truths(subject):
        if name not in verdicts:
            continue
        problem = _judged(subject, name, verdicts[name].holds, truth, verdicts[name].reason)
        if problem:
            return problem
    if verdicts["unitary"].holds and abs(subject.oracle.log_z) > 1e-6 and subject.is_double:
        return Problem("check", "unitary", f"log Z = {subject.oracle.log_z:.6g}", "unitary but Z is not 1")
    for name in ("orthogonal", "deterministic"):
        if verdicts[name].holds is None and _is_small(subject):
            return Problem("check", f"{name}: {verdicts[name].reason}", "decided", f"{name} undecided")
    return None


def _is_small(subject: CircuitSubject) -> bool:
    oracle = subject.oracle
    return all(oracle.is_discrete(v) for v in oracle.variables)


def _judged(
    subject: CircuitSubject, name: str, holds: bool | None, truth: bool | None, reason: str
) -> Problem | None:
    subject.compared += 1
    if holds is None or truth is None or holds == truth:
        return None
    return Problem("verdict", f"{name} is {holds}: {reason}", str(truth), f"{name} is {holds}")


def _truths(subject: CircuitSubject) -> Iterable[tuple[str, bool | None]]:
    oracle, roots = subject.oracle, subject.oracle.circuit.roots
    yield "smooth", True
    yield "decomposable", True
    yield "structured-decomposable", oracle.splits_agree()
    yield "U2", oracle.inputs_apart(False)
    yield "U4", oracle.inputs_apart(True)
    loose = 3e-4 if not subject.is_double else 1e-7
    u1, u3 = _u1(oracle, None, loose), _near(oracle.sum_error(), loose)
    yield "U1", u1
    yield "U3", u3
    each = [
        (
            _u1(oracle, [root], loose),
            oracle.inputs_apart(False, [root]),
            _near(oracle.sum_error([root]), loose),
        )
        for root in roots
    ]
    flat = [part for parts in each for part in parts]
    yield "unitary", None if None in flat else all(flat)
    yield "orthogonal", _orthogonal(subject, oracle.variables)
    yield "basis decomposable", _basis_decomposable(subject, oracle.variables)
    regular = _inputs_orthogonal(subject)
    basis = _basis_decomposable(subject, oracle.variables)
    yield "regular orthogonal", None if regular is None and basis else bool(basis and regular)
    yield "deterministic", _deterministic(subject)


def _u1(oracle: Oracle, roots: list[Any] | None, loose: float) -> bool | None:
    """(U1); what it says of blocks that overlap is not decided."""
    found = _near(oracle.input_error(roots), loose)
    return None if found and oracle.blocks_overlap(roots) else found


def _near(error: float, loose: float) -> bool | None:
    """True below what rounding makes, False beyond any tolerance, None between."""
    return True if error < SURE else None if error < 3 * loose else False


def _orthogonal(subject: CircuitSubject, over: Iterable[int]) -> bool | None:
    """The inputs of every sum unit are orthogonal over some variables, for all values of the others."""
    oracle, chosen = subject.oracle, set(over)
    values = oracle.values(None, oracle.variables)
    undecided = False
    for layer in oracle.layers():
        if type(layer).__name__ != "Sum" or not set(layer.scope) & chosen:
            continue
        verdict = _sum_orthogonal(subject, layer, values, chosen)
        if verdict is False:
            return False
        undecided |= verdict is None
    return None if undecided else True


def _sum_orthogonal(
    subject: CircuitSubject, layer: Any, values: dict[int, Scaled], chosen: set[int]
) -> bool | None:
    oracle = subject.oracle
    weight = oracle.matrix(layer)
    assert weight is not None
    used = weight != 0
    meet = (used.T.astype(float) @ used.astype(float)) > 0
    np.fill_diagonal(meet, False)
    if not meet.any():
        return True
    logs, phase, bound, weights, kept = _grid(oracle, layer, values, chosen)
    norms = log_sum(2 * logs + weights[..., None], axis=kept) / 2
    rounding = log_sum(2 * bound + weights[..., None], axis=kept) / 2
    size = np.expand_dims(np.where(np.isfinite(norms), norms, 0), kept)
    unit = phase * np.exp(logs + weights[..., None] / 2 - size)
    fold = [a for a in range(unit.ndim - 1) if a not in kept]
    order = np.transpose(unit, [*fold, *kept, unit.ndim - 1])
    rows = int(np.prod([unit.shape[a] for a in fold], initial=1))
    flat = order.reshape(rows, -1, unit.shape[-1])
    cosine = np.abs(np.einsum("nmh,nmk->nhk", flat, flat.conj())) * meet
    blur = np.exp(np.minimum(rounding - norms, 700)).reshape(rows, -1)
    blur = np.where(
        np.isfinite(norms.reshape(rows, -1)),
        blur,
        np.where(np.isfinite(rounding.reshape(rows, -1)), np.inf, 0),
    )
    doubt = 64 * DOUBLE * blur[:, :, None] * blur[:, None, :]
    doubt = np.where(np.isnan(doubt), np.inf, doubt) * 1.0
    wrong = cosine - doubt > (CLEAR if subject.is_double else 3e-3)
    if wrong.any():
        return False
    loose = np.where(meet, cosine + np.where(np.isfinite(doubt), doubt, 1.0), 0)
    return True if (loose < SURE).all() else None


def _grid(oracle: Oracle, layer: Any, values: dict[int, Scaled], chosen: set[int]) -> tuple[Any, ...]:
    """Units of the inputs of a sum on the grid of its variables, and the axes that are integrated."""
    parts = [values[id(item)] for item in layer.inputs]
    shape = np.broadcast_shapes(*(part.log.shape[:-1] for part in parts))

    def joined(arrays: list[Array]) -> Array:
        return np.concatenate([np.broadcast_to(a, (*shape, a.shape[-1])) for a in arrays], axis=-1)

    weights, kept = np.zeros(shape), []
    for axis, v in enumerate(oracle.variables):
        if v in layer.scope and v in chosen:
            side = [1] * len(shape)
            side[axis + 1] = -1
            weights = weights + oracle.rules[v][1].reshape(side)
            kept.append(axis + 1)
    logs, phase = joined([p.log for p in parts]), joined([p.phase for p in parts])
    return logs, phase, joined([p.bound[0] for p in parts]), weights, tuple(kept)


def _deterministic(subject: CircuitSubject) -> bool | None:
    """No two inputs of a sum unit are non-zero at one point."""
    oracle = subject.oracle
    values = oracle.values(None, oracle.variables)
    undecided = False
    for layer in oracle.layers():
        if type(layer).__name__ != "Sum":
            continue
        weight = oracle.matrix(layer)
        assert weight is not None
        parts = [values[id(item)] for item in layer.inputs]
        shape = np.broadcast_shapes(*(part.log.shape[:-1] for part in parts))
        logs = np.concatenate([np.broadcast_to(p.log, (*shape, p.log.shape[-1])) for p in parts], axis=-1)
        bounds = np.concatenate(
            [np.broadcast_to(p.bound[0], (*shape, p.log.shape[-1])) for p in parts], axis=-1
        )
        sure = (logs - bounds > math.log(RULED_OUT)) & np.isfinite(logs)
        maybe = np.isfinite(logs)
        edges = (weight != 0).astype(float)
        if (sure.reshape(-1, logs.shape[-1]).astype(float) @ edges.T).max() >= 2:
            return False
        undecided |= bool((maybe.reshape(-1, logs.shape[-1]).astype(float) @ edges.T).max() >= 2)
    return None if undecided else True


def _inputs_orthogonal(subject: CircuitSubject, over: Iterable[int] | None = None) -> bool | None:
    """All input units over one variable are pairwise orthogonal."""
    oracle = subject.oracle
    chosen = set(oracle.variables if over is None else over)
    groups = [group for group in oracle.input_groups() if group[0].scope & chosen]
    # of blocks that overlap, or are integrated in part, it is not said what is compared
    undecided = oracle.blocks_overlap() or any(not group[0].scope <= chosen for group in groups)
    for group in groups:
        if not group[0].scope <= chosen:
            continue
        turn, log = (np.concatenate(each, axis=1) for each in zip(*oracle.input_units(group), strict=True))
        norms = log_sum(2 * log, axis=0) / 2
        units = turn * np.exp(log - np.where(np.isfinite(norms), norms, 0))
        cosine = np.abs(units.T @ units.conj())
        np.fill_diagonal(cosine, 0)
        if cosine.max(initial=0) > (CLEAR if subject.is_double else 3e-3):
            return False
        undecided |= bool(cosine.max(initial=0) > SURE)
    return None if undecided else True


def _basis_decomposable(subject: CircuitSubject, over: Iterable[int]) -> bool:
    """For some variable, no two inputs of a sum unit depend on one input unit; zero weights are no edges."""
    oracle, chosen = subject.oracle, set(over)
    scopes: dict[int, list[dict[int, frozenset[tuple[int, int]]]]] = {}
    for layer in oracle.layers():
        kind = type(layer).__name__
        if kind == "Input":
            scopes[id(layer)] = [
                dict.fromkeys(layer.variables, frozenset({(id(layer), k)})) for k in range(layer.units)
            ]
            continue
        inputs = [scopes[id(item)] for item in layer.inputs]
        if kind == "Sum":
            units = [unit for item in inputs for unit in item]
            weight = oracle.matrix(layer)
            assert weight is not None
            found = []
            for row in weight:
                used = [unit for unit, w in zip(units, row, strict=True) if w != 0]
                if set(layer.scope) & chosen and not any(
                    all(
                        not a.get(v, frozenset()) & b.get(v, frozenset())
                        for a, b in itertools.combinations(used, 2)
                    )
                    for v in set(layer.scope) & chosen
                ):
                    return False
                found.append(_united(used))
            scopes[id(layer)] = found
        else:
            pairs = zip(*inputs, strict=True) if kind == "Hadamard" else itertools.product(*inputs)
            scopes[id(layer)] = [_united(parts) for parts in pairs]
    return True


def _united(parts: Iterable[dict[int, frozenset[tuple[int, int]]]]) -> dict[int, frozenset[tuple[int, int]]]:
    merged: dict[int, frozenset[tuple[int, int]]] = {}
    for part in parts:
        for v, units in part.items():
            merged[v] = merged.get(v, frozenset()) | units
    return merged


def _over(question: CircuitQuestion, subject: CircuitSubject, answer: Any) -> Problem | None:
    orthogonal, regular = answer
    truth = _orthogonal(subject, question.over)
    problem = _judged(subject, "Z-orthogonal", orthogonal.holds, truth, orthogonal.reason)
    if problem:
        return problem
    basis, inputs = _basis_decomposable(subject, question.over), _inputs_orthogonal(subject, question.over)
    both = None if basis and inputs is None else bool(basis and inputs)
    return _judged(subject, "Z-regular orthogonal", regular.holds, both, regular.reason)


CHECKS = {
    "evaluate": _amplitudes,
    "conjugate": _amplitudes,
    "unroll": _amplitudes,
    "to_json": _amplitudes,
    "multiply": _amplitudes,
    "square": _square,
    "integral of the square": _partition,
    "unitarise": _unitarised,
    "unitarise is normalised": _normalised,
    "integrate": _integrated,
    "partition": _partition,
    "marginal": _marginal,
    "scalar.partition": _partition,
    "scalar.marginal": _marginal,
    "unitary.marginal": _marginal,
    "inner_product": _inner,
    "overlap": _inner,
    "fidelity": _fidelity,
    "check": _check,
    "Z-verdicts": _over,
}


def refused(subject: CircuitSubject, question: CircuitQuestion, error: sq.StructureError) -> Problem | None:
    """Whether a circuit may be refused."""
    subject.compared += 1
    kind, oracle = question.kind, subject.oracle
    if kind in NEEDS_COMPATIBLE and (oracle.has_blocks or not oracle.splits_agree()):
        return None
    have_forms = oracle.splits_agree() and oracle.blocks_agree()
    if kind in ("inner_product", "overlap", "fidelity") and not have_forms:
        return None
    if kind in ("partition", "marginal") and not oracle.roots_agree():
        return None
    if kind == "integrate" and error.property == "finite" and _falls_slowly(oracle, question.over):
        return None
    if kind == "integrate" and error.property == "integrable in closed form" and oracle.has_blocks:
        return None
    if kind.startswith("scalar.") and _orthogonal(subject, question.over or oracle.variables) is not True:
        return None
    whole = all(i.scope <= set(question.over) for i in oracle.inputs if is_block(i.family))
    cut = (question.over and not whole) or not oracle.blocks_agree()
    if kind.startswith("scalar.") and cut and "not decided" in error.reason:
        return None
    # #P-hard where inputs of a sum split differently; over continuous variables there is nothing to enumerate
    hard = not oracle.splits_agree() and not _is_small(subject)
    if kind.startswith("scalar.") and hard and "not decided" in error.reason:
        return None
    if kind == "unitary.marginal" and not _is_unitary(subject):
        return None
    if kind == "unitary.marginal" and cut and error.property == "orthogonal over what is integrated":
        return None
    if kind == "unitary.marginal" and not oracle.blocks_agree() and "no closed form" in error.reason:
        return None
    families = [layer.family for layer in oracle.layers() if type(layer).__name__ == "Input"]
    if kind.startswith("unitarise") and not all(family.is_orthonormal for family in families):
        return None
    if kind.startswith("unitarise") and not oracle.blocks_agree() and error.property == "compatible":
        return None
    if kind == "unitarise is normalised" and not (oracle.inputs_apart(False) and _inputs_orthogonal(subject)):
        return None
    return Problem(kind, f"StructureError: {error}", "an answer", "refused")


def _falls_slowly(oracle: Oracle, over: Iterable[int]) -> bool:
    """Some function falls like |x|^(−3/2) at most: its integral is infinite below |x|^(−1), or far out."""
    return any(oracle.index(v) < 2 for v in over)


def _is_unitary(subject: CircuitSubject) -> bool:
    oracle = subject.oracle
    if oracle.blocks_overlap():
        return False
    return oracle.inputs_apart(True) and max(oracle.input_error(), oracle.sum_error()) < SURE
