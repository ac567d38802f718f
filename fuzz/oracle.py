"""The oracle: what a circuit means, unit by unit from the definition, in NumPy alone.

It reads the structure of a circuit (layers, parameters, the constructor arguments of families) and its
weights, and shares no arithmetic with the library. Integrals are sums over all states and over the nodes of
quadrature rules, so circuits have to be small.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from fuzz import blocks, tails
from fuzz.functions import (
    DOUBLE,
    Array,
    Bump,
    Scaled,
    TooLargeError,
    functions,
    log_sum,
    logarithm,
    mixed,
    rule,
)

MOST_POINTS = 40_000  #: of a table
Rules: TypeAlias = dict[int, tuple[Array, Array]]  #: nodes and logarithms of weights of variables


@dataclass(frozen=True)
class Table:
    """f = Σ_r π_r |c_r|² at rows, and at all nodes of what is missing: (n, q₁, …, q_m) logarithms.

    ``bound`` is what rounding is relative to, and ``weights`` are the logarithms of the weights of the nodes.
    """

    log: Array
    bound: Array
    weights: Array
    axes: Mapping[int, int]  # missing variable -> its axis
    nodes: Mapping[int, Array]  # missing variable -> its nodes

    @property
    def masses(self) -> Array:
        """log of f times the weights of the nodes."""
        return self.log + self.weights

    def total(self) -> Array:
        """log ∫ f over what is missing: (n,)."""
        return self._summed(self.masses)

    def total_bound(self) -> Array:
        """The logarithm of what the rounding of that integral is relative to: (n,)."""
        return self._summed(self.bound + self.weights)

    def _summed(self, logs: Array) -> Array:
        axes = tuple(range(1, logs.ndim))
        return log_sum(logs, axis=axes) if axes else logs


class Oracle:
    """One circuit with one set of weights.

    Args:
        circuit: its structure is read.
        weights: the value of every parameter by its name in the circuit, as arrays.
        precision: of the arithmetic that is compared with, the unit of all bounds.
    """

    def __init__(self, circuit: Any, weights: Mapping[str, Any], precision: float = DOUBLE) -> None:
        self.circuit, self.precision = circuit, precision
        named = {id(parameter): name for name, parameter in circuit.parameters.items()}
        self._names = named
        self._weights = {name: np.asarray(value) for name, value in weights.items()}
        self.variables = sorted(circuit.scope)
        self.width = max(self.variables) + 1

    def value(self, parameter: Any) -> Array:
        """The value of a parameter, in double precision."""
        found = self._weights[self._names[id(parameter)]]
        return found.astype(complex) if np.iscomplexobj(found) else found.astype(float)

    def matrix(self, layer: Any) -> Array | None:
        """The weight of a layer, its own rows of it; None where it has none."""
        if layer.weight is None:
            return None
        value = self.value(layer.weight)
        if type(layer).__name__ == "Input":
            return value[layer.first_row : layer.first_row + layer.units]
        return value

    def learnt(self, layer: Any) -> dict[str, Array]:
        """The values of the learnable parameters of an input layer's family."""
        return {role: self.value(parameter) for role, parameter in layer.parameters.items()}

    @cached_property
    def mixture(self) -> Array:
        """log π of the root units."""
        roots = self.circuit.root_weights
        count = sum(root.units for root in self.circuit.roots)
        pi = np.full(count, 1 / count) if roots is None else self.value(roots)
        return logarithm(pi)

    @cached_property
    def inputs(self) -> list[Any]:
        """The input layers."""
        return self.inputs_of(None)

    def inputs_of(self, roots: Sequence[Any] | None) -> list[Any]:
        """The input layers below some roots."""
        return [layer for layer in self.layers(roots) if type(layer).__name__ == "Input"]

    def index(self, variable: int) -> float:
        """E |x|^k of a variable is finite for k below this, by the families it has by itself."""
        layers = [layer for layer in self.inputs if layer.variables == (variable,)]
        return min((a for layer in layers for a in tails.indices(layer.family)), default=math.inf)

    @cached_property
    def rules(self) -> Rules:
        """Nodes and log weights of every variable, where all are integrated over."""
        return {v: self._rule(v, self.variables, None) for v in self.variables}

    def rules_at(self, x: Array | None, missing: Sequence[int]) -> Rules:
        """Nodes and log weights of missing variables, where others are as in some rows.

        What is observed of a block says where the rest of it is.
        """
        hidden = set(missing)
        cut = {v for layer in self.inputs if not set(layer.variables) <= hidden for v in layer.variables}
        return {v: self._rule(v, missing, x) if v in cut else self.rules[v] for v in missing}

    def _rule(self, variable: int, missing: Sequence[int], x: Array | None) -> tuple[Array, Array]:
        families, bumps = [], []
        for layer in self.inputs:
            if variable not in layer.variables:
                continue
            if not is_block(layer.family):
                families.append((layer.family, self.learnt(layer)))
                continue
            family, values = _gaussians(layer.family, self.learnt(layer))
            place = layer.variables.index(variable)
            left = [i for i, v in enumerate(layer.variables) if v in missing]
            rows = None if x is None else x[:, list(layer.variables)]
            if not all(np.isfinite(value).all() for value in values.values()):
                raise TooLargeError("numbers of a block are not finite")
            transform = blocks.transforms(family)[place]
            bumps += [Bump(transform, *each) for each in blocks.places(family, values, place, left, rows)]
        return rule(families, bumps)

    @cached_property
    def rule_rounding(self) -> float:
        """The relative error of integrals because nodes are floats.

        Around 1.7e9 floats are 2.4e-7 apart, and functions that are 1e-3 wide have nodes on that grid.
        """
        errors = [
            DOUBLE * np.abs(nodes).max() / max(np.diff(np.sort(nodes)).min(initial=np.inf), 1e-300)
            for v, (nodes, _) in self.rules.items()
            if not self.is_discrete(v)
        ]
        return 5 * float(sum(errors))

    def is_discrete(self, variable: int) -> bool:
        """Whether a variable has states."""
        return any(
            type(layer.family).__name__ == "Categorical"
            for layer in self.inputs
            if variable in layer.variables
        )

    def layers(self, roots: Sequence[Any] | None = None) -> list[Any]:
        """All layers below some roots (default: those of the circuit), inputs first."""
        order: dict[int, Any] = {}

        def visit(layer: Any) -> None:
            if id(layer) not in order:
                for item in layer.inputs:
                    visit(item)
                order[id(layer)] = layer

        for root in self.circuit.roots if roots is None else roots:
            visit(root)
        return list(order.values())

    # ------------------------------------------------------------------ values

    def values(
        self,
        x: Array | None,
        missing: Iterable[int],
        over: Iterable[int] | None = None,
        nodes: Rules | None = None,
    ) -> dict[int, Scaled]:
        """Every layer at rows of x and at all nodes of the missing variables, by the id of the layer.

        Arrays have an axis for rows, one for each missing variable (of length 1 where a layer does not
        depend on it) and one for units.

        Args:
            x: rows (n, d); None where all is missing.
            missing: the variables that run through their nodes.
            over: only layers whose scope is within these variables are wanted.
            nodes: of the missing variables; default those of all.
        """
        axes = {v: i + 1 for i, v in enumerate(sorted(missing))}
        wanted = set(self.variables if over is None else over)
        nodes = self.rules if nodes is None else nodes
        total = math.prod(len(nodes[v][0]) for v in axes) * (1 if x is None else max(1, len(x)))
        if total > MOST_POINTS:
            raise TooLargeError(f"{total} points")
        found: dict[int, Scaled] = {}
        for layer in self.layers():
            if set(layer.scope) <= wanted:
                found[id(layer)] = self._layer(layer, x, axes, nodes, found)
        return found

    def _layer(
        self, layer: Any, x: Array | None, axes: dict[int, int], nodes: Rules, found: dict[int, Scaled]
    ) -> Scaled:
        kind = type(layer).__name__
        if kind == "Input":
            return self._input(layer, x, axes, nodes)
        inputs = [found[id(item)] for item in layer.inputs]
        if kind == "Sum":
            weight = self.matrix(layer)
            assert weight is not None
            return mixed(weight, _joined(inputs))
        product = _hadamard if kind == "Hadamard" else _kronecker
        result = inputs[0]
        for item in inputs[1:]:
            result = product(result, item)
        return result

    def _input(self, layer: Any, x: Array | None, axes: dict[int, int], nodes: Rules) -> Scaled:
        sides = []
        for v in layer.variables:
            side = [1] * (len(axes) + 1)
            side[axes.get(v, 0)] = -1
            if v not in axes:
                assert x is not None
            sides.append((nodes[v][0] if v in axes else x[:, v]).reshape(side))
        shape = np.broadcast_shapes(*(side.shape for side in sides))
        columns = [np.broadcast_to(side, shape).ravel() for side in sides]
        points = np.stack(columns, axis=1) if is_block(layer.family) else columns[0]
        result = functions(layer.family, points, self.learnt(layer), self.precision)
        result = result.exact() if all(v in axes for v in layer.variables) else result
        weight = self.matrix(layer)
        if weight is not None:
            result = mixed(weight, result)
        return result.reshape((*shape, result.log.shape[-1]))

    def cuts_blocks(self, missing: Iterable[int]) -> bool:
        """Whether some variables of a block are missing and others are not."""
        hidden = set(missing)
        return any(not set(i.variables) <= hidden and set(i.variables) & hidden for i in self.inputs)

    def amplitudes(self, x: Array) -> Scaled:
        """c_r at rows: (n, R)."""
        values = self.values(x, ())
        return _joined([values[id(root)] for root in self.circuit.roots])

    def root_table(self, x: Array | None, missing: Iterable[int]) -> tuple[Array, Array, Table]:
        """log π_r |c_r|² and its bound, (…, R), and the table of their sum."""
        missing = sorted(missing)
        nodes = self.rules_at(x, missing)
        values = self.values(x, missing, nodes=nodes)
        roots = _joined([values[id(root)] for root in self.circuit.roots])
        shape = (1 if x is None else len(x), *(len(nodes[v][0]) for v in missing), roots.log.shape[-1])
        log = np.broadcast_to(2 * roots.log + self.mixture, shape)
        sizes, errors = roots.bound
        if not missing:  # |c|² of one row is known better than a Gram matrix: up to 2 |c| δ + δ²
            sizes = np.logaddexp(roots.log + math.log(2), errors + math.log(64 * self.precision))
        bound = np.broadcast_to(sizes + errors + self.mixture, shape)
        weights = np.zeros(shape[:-1])
        axes = {v: i + 1 for i, v in enumerate(missing)}
        for v, axis in axes.items():
            side = [1] * weights.ndim
            side[axis] = -1
            weights = weights + nodes[v][1].reshape(side)
        points = {v: nodes[v][0] for v in missing}
        return log, bound, Table(log_sum(log, axis=-1), log_sum(bound, axis=-1), weights, axes, points)

    def table(self, x: Array | None, missing: Iterable[int]) -> Table:
        """The density, not normalised, at rows and at the nodes of what is missing."""
        return self.root_table(x, missing)[2]

    @cached_property
    def joint(self) -> Table:
        """The density at the nodes of all variables."""
        return self.table(None, self.variables)

    @cached_property
    def log_z(self) -> float:
        """log Z."""
        return float(self.joint.total()[0])

    @cached_property
    def z_rounding(self) -> float:
        """The relative error that rounding may make in Z, in units of the precision."""
        return float(np.exp(min(self.joint.total_bound()[0] - self.log_z, 700.0)))

    # ------------------------------------------------------------------ structure

    def splits_agree(self, roots: Sequence[Any] | None = None) -> bool:
        """Structured-decomposable: products of two inputs or more over one scope split it in one way.

        A block over several variables leaves them together, which is another way.
        """
        splits: dict[frozenset[int], set[frozenset[frozenset[int]]]] = {}
        for layer in self.layers(roots):
            kind = type(layer).__name__
            if kind in ("Hadamard", "Kronecker") and len(layer.inputs) > 1:
                split = frozenset(frozenset(item.scope) for item in layer.inputs)
                splits.setdefault(frozenset(layer.scope), set()).add(split)
            if kind == "Input" and len(layer.variables) > 1:
                splits.setdefault(frozenset(layer.scope), set()).add(frozenset([frozenset(layer.scope)]))
        return all(len(found) == 1 for found in splits.values())

    def blocks_agree(self, roots: Sequence[Any] | None = None) -> bool:
        """Blocks over the same variables hold them in one order and one coordinate, and nothing else does.

        Then their inner products have closed forms.
        """
        kinds: dict[int, set[Any]] = {}
        for layer in self.inputs_of(roots):
            block = is_block(layer.family)
            kind = (layer.variables, blocks.transforms(_gaussians(layer.family, {})[0])) if block else None
            for v in layer.variables:
                kinds.setdefault(v, set()).add(kind)
        return all(len(found) == 1 for found in kinds.values())

    @property
    def has_blocks(self) -> bool:
        """Some input layer holds functions of several variables, or of one as of several."""
        return any(is_block(layer.family) for layer in self.inputs)

    def roots_agree(self) -> bool:
        """The same for the circuit of every root layer by itself, and for its blocks."""
        return all(self.splits_agree([root]) and self.blocks_agree([root]) for root in self.circuit.roots)

    def inputs_below(self, layer: Any) -> dict[int, set[int]]:
        """variable → the input layers over it below a layer, by their ids."""
        found: dict[int, set[int]] = {}
        for item in self.layers([layer]):
            if type(item).__name__ == "Input":
                for v in item.variables:
                    found.setdefault(v, set()).add(id(item))
        return found

    def inputs_apart(self, every: bool, roots: Sequence[Any] | None = None) -> bool:
        """(U4) with ``every``, else (U2): inputs of a sum share no input layer over any (some) variable."""
        for layer in self.layers(roots):
            if type(layer).__name__ != "Sum" or len(layer.inputs) < 2:
                continue
            below = [self.inputs_below(item) for item in layer.inputs]
            clean = [all(not a[v] & b[v] for a, b in itertools.combinations(below, 2)) for v in layer.scope]
            if not (all(clean) if every else any(clean)):
                return False
        return True

    def input_groups(self, roots: Sequence[Any] | None = None) -> list[list[Any]]:
        """Input layers over the same variables."""
        groups: dict[frozenset[int], list[Any]] = {}
        for layer in self.inputs_of(roots):
            groups.setdefault(frozenset(layer.scope), []).append(layer)
        return list(groups.values())

    def blocks_overlap(self, roots: Sequence[Any] | None = None) -> bool:
        """Some input layers have some variables in common, and others not."""
        scopes = [frozenset(group[0].scope) for group in self.input_groups(roots)]
        return any(a & b for a, b in itertools.combinations(scopes, 2))

    def input_error(self, roots: Sequence[Any] | None = None) -> float:
        """The largest deviation from (U1): inner products of functions over the same variables from δ."""
        worst = 0.0
        for group in self.input_groups(roots):
            units = np.concatenate(
                [phase * np.exp(np.minimum(log, 300)) for phase, log in self.input_units(group)], axis=1
            )
            worst = max(worst, float(np.abs(units.T @ units.conj() - np.eye(units.shape[1])).max()))
        return worst

    def input_units(self, group: Sequence[Any]) -> list[tuple[Array, Array]]:
        """Units of input layers over the same variables at all nodes, with the roots of weights.

        Phases and logarithms, (nodes, units) each, of every layer.
        """
        missing = sorted(group[0].scope)
        axes = {v: i + 1 for i, v in enumerate(missing)}
        weights = sum(np.ix_(*(self.rules[v][1] for v in missing))[i] for i in range(len(missing)))
        if weights.size > MOST_POINTS:
            raise TooLargeError(f"{weights.size} points")
        found = []
        for layer in group:
            units = self._input(layer, None, axes, self.rules)
            flat = (weights.size, units.log.shape[-1])
            found.append((units.phase.reshape(flat), units.log.reshape(flat) + weights.reshape(-1, 1) / 2))
        return found

    def sum_error(self, roots: Sequence[Any] | None = None) -> float:
        """The largest deviation from (U3): W Wᴴ from I."""
        worst = 0.0
        for layer in self.layers(roots):
            if type(layer).__name__ == "Sum":
                weight = self.matrix(layer)
                assert weight is not None
                with np.errstate(over="ignore"):
                    worst = max(worst, float(np.abs(weight @ weight.conj().T - np.eye(len(weight))).max()))
        return worst


def columns(layer: Any, x: Array) -> Array:
    """What the family of an input layer is evaluated at, of rows: (n, d) → (n,), or (n, D) of a block."""
    return x[:, list(layer.variables)] if is_block(layer.family) else x[:, layer.variables[0]]


def is_block(family: Any) -> bool:
    """Whether functions are of several variables, or of one as of several."""
    return type(family).__name__ in ("MultivariateGaussian", "OrthonormalisedBlock")


def _gaussians(family: Any, values: Mapping[str, Array]) -> tuple[Any, Mapping[str, Array]]:
    """The Gaussians that a block is made of."""
    return (family.base, {}) if type(family).__name__ == "OrthonormalisedBlock" else (family, values)


def _joined(parts: Sequence[Scaled]) -> Scaled:
    """Units of several layers one after the other."""
    if len(parts) == 1:
        return parts[0]
    shape = np.broadcast_shapes(*(part.log.shape[:-1] for part in parts))

    def join(name: str) -> Array:
        arrays = [getattr(part, name) for part in parts]
        lead = (2,) if name == "bound" else ()
        return np.concatenate([np.broadcast_to(a, (*lead, *shape, a.shape[-1])) for a in arrays], axis=-1)

    return Scaled(join("phase"), join("log"), join("bound"))


def _hadamard(a: Scaled, b: Scaled) -> Scaled:
    return Scaled(a.phase * b.phase, a.log + b.log, a.bound + b.bound)


def _kronecker(a: Scaled, b: Scaled) -> Scaled:
    def pairs(left: Array, right: Array, times: bool) -> Array:
        left, right = left[..., :, None], right[..., None, :]
        both = left * right if times else left + right
        return both.reshape(*both.shape[:-2], -1)

    return Scaled(pairs(a.phase, b.phase, True), pairs(a.log, b.log, False), pairs(a.bound, b.bound, False))
