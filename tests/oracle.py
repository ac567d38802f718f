"""The oracle: circuits evaluated unit by unit from Definition 1, and integrals by enumeration.

Nothing here uses the library's evaluation or its inner products; only the functions of continuous
families are taken from it, and those are checked on their own in tests/families.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch

from squircuit.circuits import Circuit, Hadamard, Input, Kronecker, Layer, Sum
from squircuit.families import Categorical, Fourier, Hermite, Legendre


def nodes(circuit: Circuit, variable: int) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights that integrate the square of any function of a variable's families exactly."""
    family = next(layer.family for layer in circuit.inputs if layer.variable == variable)
    base = getattr(family, "base", family)
    if isinstance(base, Categorical):
        return np.arange(base.size), np.ones(base.size)
    if isinstance(base, Fourier):  # the midpoint rule is exact for trigonometric polynomials
        n = 4 * base.size
        start = base.centre - base.period / 2
        return start + (np.arange(n) + 0.5) * base.period / n, np.full(n, base.period / n)
    if isinstance(base, Hermite):  # the trapezoid rule is spectrally accurate on the whole line
        x = base.loc + base.scale * np.arange(-9, 9, 0.25)
        return x, np.full(len(x), 0.25 * base.scale)
    assert isinstance(base, Legendre)
    x, w = np.polynomial.legendre.leggauss(12)
    return (base.low + base.high) / 2 + x * (base.high - base.low) / 2, w * (base.high - base.low) / 2


def small(circuit: Circuit, limit: int = 4096) -> bool:
    """Few enough states to enumerate."""
    return math.prod(len(nodes(circuit, v)[0]) for v in circuit.scope) <= limit


def assignments(circuit: Circuit, variables) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n, d) that run through all values of ``variables`` (others 0), and their weights (n,)."""
    variables = sorted(variables)
    axes = [nodes(circuit, v) for v in variables]
    rows = np.zeros((math.prod(len(x) for x, _ in axes), circuit.num_variables))
    weights = np.ones(len(rows))
    for i, combination in enumerate(itertools.product(*(list(zip(x, w, strict=True)) for x, w in axes))):
        for v, (x, w) in zip(variables, combination, strict=True):
            rows[i, v] = x
            weights[i] *= w
    return rows, weights


def units(circuit: Circuit, layer: Layer, rows: np.ndarray, known: dict) -> list[np.ndarray]:
    """The value of every unit of a layer at every row, straight from the definition."""
    if layer not in known:
        known[layer] = _units(circuit, layer, rows, known)
    return known[layer]


def _units(circuit, layer, rows, known):
    inputs = [units(circuit, item, rows, known) for item in layer.inputs]
    match layer:
        case Input():
            return _input(circuit, layer, rows[:, layer.variable])
        case Sum():
            flat = [u for item in inputs for u in item]
            weight = circuit.weights[circuit.parameter_name(layer.weight)].numpy()
            return [sum(w * u for w, u in zip(row, flat, strict=True)) for row in weight]
        case Hadamard():
            return [math.prod(parts[1:], start=parts[0]) for parts in zip(*inputs, strict=True)]
        case Kronecker():
            return [math.prod(parts[1:], start=parts[0]) for parts in itertools.product(*inputs)]
    raise AssertionError(layer)


def _input(circuit, layer, column):
    if isinstance(layer.family, Categorical):
        functions = [(column == k).astype(float) for k in range(layer.family.size)]
    else:
        values = {n: circuit.weights[circuit.parameter_name(p)] for n, p in layer.parameters.items()}
        functions = list(layer.family.evaluate(torch.tensor(column), values).numpy().T)
    if layer.weight is None:
        return functions
    weight = circuit.weights[circuit.parameter_name(layer.weight)].numpy()
    weight = weight[layer.first_row : layer.first_row + layer.units]
    return [sum(w * f for w, f in zip(row, functions, strict=True)) for row in weight]


def amplitudes(circuit: Circuit, rows: np.ndarray) -> np.ndarray:
    """c_r at every row: (n, R) complex."""
    known: dict = {}
    values = [u for root in circuit.roots for u in units(circuit, root, rows, known)]
    return np.stack(values, axis=1).astype(complex)


def density(circuit: Circuit, rows: np.ndarray) -> np.ndarray:
    """Σ_r π_r |c_r|² at every row: (n,)."""
    weights = circuit.root_weights
    count = circuit.num_roots
    pi = (
        np.full(count, 1 / count)
        if weights is None
        else circuit.weights[circuit.parameter_name(weights)].numpy()
    )
    return (np.abs(amplitudes(circuit, rows)) ** 2) @ pi


def partition(circuit: Circuit) -> float:
    """Z by enumeration."""
    rows, weights = assignments(circuit, circuit.scope)
    return float(density(circuit, rows) @ weights)


def marginal(circuit: Circuit, rows: np.ndarray, over) -> np.ndarray:
    """∫ Σ_r π_r |c_r(y, z)|² dz by enumeration of z, for every row's y: (n,)."""
    points, weights = assignments(circuit, over)
    columns = sorted(over)
    totals = []
    for row in rows:
        filled = np.tile(row, (len(points), 1))
        filled[:, columns] = points[:, columns]
        totals.append(density(circuit, filled) @ weights)
    return np.array(totals)


def some_rows(circuit: Circuit, count: int = 6, seed: int = 0) -> np.ndarray:
    """A few valid rows."""
    random = np.random.default_rng(seed)
    rows = np.zeros((count, circuit.num_variables))
    for v in circuit.scope:
        rows[:, v] = random.choice(nodes(circuit, v)[0], count)
    return rows


def subsets(variables):
    """Every subset of a set."""
    items = sorted(variables)
    return [set(c) for size in range(len(items) + 1) for c in itertools.combinations(items, size)]
