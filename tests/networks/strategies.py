"""Random networks as plain numpy arrays, and their dense tensors by loops and einsum: the oracle."""

from __future__ import annotations

import itertools

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import squircuit as sq


def law(*strategies):
    """``given``, without a limit in time: the first call of a routine of torch may take long."""
    return lambda test: settings(deadline=None)(given(*strategies)(test))


def array(rng, shape, is_complex):
    values = rng.normal(size=shape)
    return values + 1j * rng.normal(size=shape) if is_complex else values


@st.composite
def mps_arrays(draw, min_d=1, max_d=6):
    """Sites (R_left, v, R_right) with different dimensions everywhere, real or complex."""
    d = draw(st.integers(min_d, max_d))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    is_complex = draw(st.booleans())
    bonds = [1, *draw(st.lists(st.integers(1, 3), min_size=d - 1, max_size=d - 1)), 1]
    dims = draw(st.lists(st.integers(1, 3), min_size=d, max_size=d))
    return [array(rng, (bonds[j], dims[j], bonds[j + 1]), is_complex) for j in range(d)]


def mps_dense(sites):
    """The tensor (v_0, …, v_{d-1}) of a chain: one matrix product for every assignment."""
    sites = [np.asarray(site) for site in sites]
    dims = [site.shape[1] for site in sites]
    dense = np.zeros(dims, dtype=complex)
    for states in itertools.product(*map(range, dims)):
        row = np.ones((1, 1), dtype=complex)
        for site, state in zip(sites, states, strict=True):
            row = row @ site[:, state, :]
        dense[states] = row[0, 0]
    return dense


@st.composite
def ttn_arrays(draw, max_d=6):
    """Factors, tensors and children of a random binary tree; about half are the complete one of the paper."""
    d = draw(st.integers(1, max_d))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    is_complex = draw(st.booleans())
    children = None if draw(st.booleans()) else random_pairs(rng, d)
    pairs = [(2 * n + 1, 2 * n + 2) for n in range(d - 1)] if children is None else children
    ups = [1, *(int(r) for r in rng.integers(1, 4, size=2 * d - 2))]
    factors = [array(rng, (ups[d - 1 + j], int(rng.integers(1, 4))), is_complex) for j in range(d)]
    tensors = [array(rng, (ups[n], ups[a], ups[b]), is_complex) for n, (a, b) in enumerate(pairs)]
    return factors, tensors, children


def random_pairs(rng, d):
    """Grow a binary tree from the root: split a random leaf until there are d, numbered as in the paper."""
    inner = d - 1
    pairs, leaves = [], [("root", None)]
    for n in range(inner):
        owner = leaves.pop(int(rng.integers(len(leaves))))
        if owner[0] != "root":
            pairs[owner[0]][owner[1]] = n
        pairs.append([None, None])
        leaves += [(n, 0), (n, 1)]
    variables = rng.permutation(d)
    for (n, side), variable in zip(leaves, variables, strict=True):
        if n != "root":
            pairs[n][side] = inner + int(variable)
    return [tuple(pair) for pair in pairs]


def ttn_dense(factors, tensors, children):
    """The tensor (v_0, …, v_{d-1}) of a binary tree by one einsum over all bonds at once."""
    d = len(factors)
    inner = d - 1
    pairs = [(2 * n + 1, 2 * n + 2) for n in range(inner)] if children is None else children
    operands = []
    for n, (a, b) in enumerate(pairs):
        operands += [np.asarray(tensors[n]).reshape(-1, *np.shape(tensors[n])[-2:]), [n, a, b]]
    for j in range(d):
        operands += [np.asarray(factors[j]), [inner + j, 2 * d + j]]
    return np.einsum(*operands, [0, *range(2 * d, 3 * d)], optimize=True)[0]


def assignments(dims):
    return np.array(list(itertools.product(*map(range, dims))))


def amplitudes(circuit, dims):
    """The values of a one-root circuit over categorical variables as a tensor (v_0, …, v_{d-1})."""
    values = sq.evaluate(circuit, torch.as_tensor(assignments(dims)))
    assert values.shape[1] == 1
    return values.numpy().reshape(dims)


def assert_close(a, b, tolerance=1e-10):
    a, b = np.asarray(a), np.asarray(b)
    assert a.shape == b.shape
    assert np.abs(a - b).max() <= tolerance * max(1.0, np.abs(b).max())
