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
from squircuit.families import (
    Categorical,
    Fourier,
    Hermite,
    Legendre,
    MultivariateGaussian,
    OrthonormalisedBlock,
)


def nodes(circuit: Circuit, variable: int) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights that integrate the square of any function of a variable's families exactly."""
    family = next(layer.family for layer in circuit.inputs if variable in layer.scope)
    base = getattr(family, "base", family)
    if isinstance(base, MultivariateGaussian):  # with standard deviations from ½ to 1½ around −2 to 2
        return np.arange(-12, 12.2, 0.4), np.full(61, 0.4)
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
            return _input(circuit, layer, rows[:, list(layer.variables)])
        case Sum():
            flat = [u for item in inputs for u in item]
            weight = circuit.weights[circuit.parameter_name(layer.weight)].numpy()
            return [sum(w * u for w, u in zip(row, flat, strict=True)) for row in weight]
        case Hadamard():
            return [math.prod(parts[1:], start=parts[0]) for parts in zip(*inputs, strict=True)]
        case Kronecker():
            return [math.prod(parts[1:], start=parts[0]) for parts in itertools.product(*inputs)]
    raise AssertionError(layer)


def _input(circuit, layer, columns):
    values = {n: circuit.weights[circuit.parameter_name(p)] for n, p in layer.parameters.items()}
    if isinstance(layer.family, Categorical):
        functions = [(columns[:, 0] == k).astype(float) for k in range(layer.family.size)]
    elif isinstance(layer.family, MultivariateGaussian):
        functions = gaussians(layer.family, values, columns)
    elif isinstance(layer.family, OrthonormalisedBlock):
        functions = _orthonormalised(layer.family.base, columns)
    else:
        functions = list(layer.family.evaluate(torch.tensor(columns[:, 0]), values).numpy().T)
    if layer.weight is None:
        return functions
    weight = circuit.weights[circuit.parameter_name(layer.weight)].numpy()
    weight = weight[layer.first_row : layer.first_row + layer.units]
    return [sum(w * f for w, f in zip(row, functions, strict=True)) for row in weight]


def gaussians(family, values, columns) -> list[np.ndarray]:
    """√N(x; μ_k, Σ_k) of every k, from the parameters by their definition."""
    return [np.sqrt(_normal(columns, m, c)) for m, c in zip(*moments(family, values), strict=True)]


def moments(family, values) -> tuple[np.ndarray, np.ndarray]:
    """Means (n, D) and covariances (n, D, D) of Gaussians."""
    if not values:  # those of a family that keeps its numbers
        whole = MultivariateGaussian(family.size, family.dimension, family.covariance, family.rank)
        shapes = {name: value.shape for name, value in whole.parameters().items()}
        pairs = zip(shapes.items(), family.start, strict=True)
        values = {
            name: torch.tensor(flat, dtype=torch.float64).reshape(shape) for (name, shape), flat in pairs
        }
    arrays = {name: value.detach().double().numpy() for name, value in values.items()}
    if family.covariance == "diagonal":
        covariances = np.stack([np.diag(np.exp(2 * row)) for row in arrays["log_scale"]])
    elif family.covariance == "low-rank":
        loading = arrays["loading"]
        covariances = loading @ loading.transpose(0, 2, 1)
        covariances = covariances + np.stack([np.diag(np.exp(2 * row)) for row in arrays["log_scale"]])
    else:
        raw = np.broadcast_to(arrays["factor"], (family.size, family.dimension, family.dimension))
        lower = [np.tril(each, -1) + np.diag(np.exp(np.diag(each))) for each in raw]
        covariances = np.stack([each @ each.T for each in lower])
    return arrays["loc"], covariances


def _normal(x, mean, covariance):
    apart = x - mean
    distance = np.einsum("ni,ij,nj->n", apart, np.linalg.inv(covariance), apart)
    return np.exp(-distance / 2) / np.sqrt(np.linalg.det(2 * np.pi * covariance))


def _orthonormalised(base, columns) -> list[np.ndarray]:
    """G^(−½) f with G_jk = (8π)^(D/2) |Σ_j|^¼ |Σ_k|^¼ N(μ_j − μ_k; 0, 2Σ_j + 2Σ_k)."""
    means, covariances = moments(base, {})
    sizes = (8 * np.pi) ** (base.dimension / 4) * np.linalg.det(covariances) ** 0.25
    gram = np.zeros((base.size, base.size))
    for j, k in itertools.product(range(base.size), repeat=2):
        overlap = _normal(means[None, j] - means[k], 0, 2 * covariances[j] + 2 * covariances[k])[0]
        gram[j, k] = sizes[j] * sizes[k] * overlap
    values, vectors = np.linalg.eigh(gram)
    return list((vectors / np.sqrt(values)) @ vectors.T @ np.stack(gaussians(base, {}, columns)))


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
    filled = np.repeat(rows, len(points), axis=0)  # each row beside all points, at once
    filled[:, columns] = np.tile(points[:, columns], (len(rows), 1))
    return density(circuit, filled).reshape(len(rows), len(points)) @ weights


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
