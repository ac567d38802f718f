"""Circuits of which the layers over one scope are joined, with weights of any size."""

import math

import numpy as np
import pytest
import torch

import oracle
import squircuit as sq

CAT = sq.Categorical(3)
ROWS = np.array([[a, b] for a in range(3) for b in range(3)])


def chain(low, high, is_complex=True):
    """Two sums of several inputs, one above the other over one variable, beside a second variable.

    Args:
        low, high: factors of their weights, so that all values are low · high of those with 1 and 1.
    """
    generator = torch.Generator().manual_seed(5)

    def weight(rows, columns, factor):
        dtype = torch.complex128 if is_complex else torch.float64
        value = factor * torch.randn(rows, columns, dtype=dtype, generator=generator)
        return sq.Parameter((rows, columns), "free", is_complex, value=value)

    inputs = [sq.Input(0, CAT, 2, weight(2, 3, low)) for _ in range(3)]
    first = sq.Sum(inputs[:2], weight=weight(2, 4, high))
    second = sq.Sum(inputs[1:], weight=weight(2, 4, high))
    third = sq.Sum([first, second], weight=weight(2, 4, 1.0))
    return sq.Circuit(sq.Sum(sq.Kronecker([third, sq.Input(1, CAT)]), weight=weight(2, 6, 1.0)))


@pytest.mark.parametrize("is_complex", [True, False])
@pytest.mark.parametrize(("low", "high"), [(1e-130, 1e-130), (1e120, 1e120), (1e-140, 1e100), (3.0, 7.0)])
def test_products_of_weights_beyond_the_range_of_floats_change_no_density(low, high, is_complex):
    plain = chain(1.0, 1.0, is_complex)
    p = oracle.density(plain, ROWS) / oracle.partition(plain)
    model = sq.SquaredCircuit(chain(low, high, is_complex), dtype=torch.float64).eval()
    log_z = math.log(oracle.partition(plain)) + 2 * (math.log(low) + math.log(high))
    assert model.log_partition().item() == pytest.approx(log_z, rel=1e-12)
    assert np.allclose(model.log_prob(ROWS).exp().detach(), p, rtol=1e-10)
    first = model.log_prob(ROWS[::3], missing=[False, True]).exp().detach()
    assert np.allclose(first, p.reshape(3, 3).sum(axis=1), rtol=1e-10)
    assert np.allclose(model.marginals().values[1][0], p.reshape(3, 3).sum(axis=0), rtol=1e-10)


def test_parts_of_a_mixture_keep_their_shares_whatever_the_sizes_of_their_weights():
    plain = sq.Circuit([chain(1.0, 1.0).roots[0], chain(3.0, 1.0).roots[0]])
    shares = np.array([oracle.partition(chain(1.0, 1.0)), oracle.partition(chain(3.0, 1.0))])
    scaled = sq.Circuit([chain(1e-130, 1e-100).roots[0], chain(3e-130, 1e-100).roots[0]])
    for circuit in (plain, scaled):
        model = sq.SquaredCircuit(circuit, dtype=torch.complex128).eval()
        assert np.allclose(model.component_log_weights().exp().detach(), shares / shares.sum(), rtol=1e-10)


def test_the_gradient_is_that_of_the_weights_that_are_joined_also_through_zeros():
    circuit = chain(1.0, 1.0, is_complex=False)
    model = sq.SquaredCircuit(circuit, dtype=torch.float64).eval()
    weight = next(p for p in model.parameters() if p.shape[-2:] == (2, 4))
    with torch.no_grad():
        weight[0, 0, 1] = 0.0
    model.log_prob(ROWS[:2], missing=[False, True]).sum().backward()
    slope = weight.grad[0, 0, 1].item()

    def moved(step):
        with torch.no_grad():
            weight[0, 0, 1] = step
        now = model.circuit()
        p = oracle.density(now, ROWS).reshape(3, 3).sum(axis=1)
        return 2 * math.log(p[0] / oracle.partition(now))

    assert slope == pytest.approx((moved(1e-6) - moved(-1e-6)) / 2e-6, rel=1e-6, abs=1e-8)
    assert abs(slope) > 1e-3
