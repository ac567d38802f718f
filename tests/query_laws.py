"""What the laws of queries share: the classes of models, and the oracle's answers."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import assume
from hypothesis import strategies as st

import oracle
import squircuit as sq
from oracle import small
from strategies import Shape, circuits

KINDS = {
    "unitary": Shape(structured=True, alternatives=(1,)),
    "unitary with alternatives": Shape(structured=True, alternatives=(1, 2)),
    "not structured": Shape(structured=False, alternatives=(1, 2)),
    "baseline": Shape(unitary=False, alternatives=(1,)),
    "baseline with alternatives": Shape(unitary=False, share_inputs=True, alternatives=(1, 2, 3)),
    "free sums, not structured": Shape(structured=False, free_sums=True, alternatives=(1, 2)),
    "continuous": Shape(continuous=True, structured=False, alternatives=(1, 2)),
}
DISCRETE = [name for name in KINDS if name != "continuous"]


@st.composite
def models(draw, name, max_variables=4, limit=3000, dtype=torch.complex128):
    """A circuit of a kind with a model of it."""
    circuit = draw(circuits(KINDS[name], max_variables=max_variables))
    assume(small(circuit, limit))
    assume(oracle.partition(circuit) > 1e-6)
    return circuit, sq.SquaredCircuit(circuit, dtype=dtype)


def random_mask(circuit, rows, seed):
    return np.random.default_rng(seed).random((rows, circuit.num_variables)) < 0.5


def log_marginals(circuit, rows, masks):
    """log p of what each row shows, by enumeration of what it lacks."""
    z = oracle.partition(circuit)
    found = [
        oracle.marginal(circuit, row[None], lacking(circuit, mask))[0] / z
        for row, mask in zip(rows, masks, strict=True)
    ]
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(found, 0))


def lacking(circuit, mask):
    return {v for v in circuit.scope if mask[v]}


def close(found, expected, tolerance=1e-7):
    """Equal where the expected value is not tiny; there both are tiny."""
    found, expected = np.asarray(found), np.asarray(expected)
    return np.allclose(np.exp(found), np.exp(expected), atol=1e-9, rtol=tolerance) and np.allclose(
        found[expected > -15], expected[expected > -15], atol=tolerance
    )
