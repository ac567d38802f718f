"""Units of any size count in verdicts: none is zero because a product of weights is too small for a float."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import squircuit as sq
from squircuit.circuits.balance import balanced
from strategies import circuits

SIZES = (1e-130, 1e-200, 1e150)


def weight(rows, factor):
    return factor * torch.tensor(rows, dtype=torch.float64)


def products(second, factor):
    """A sum of two products over three variables, the second of weights times a factor."""
    cat = sq.Categorical(2)
    first = sq.Hadamard([sq.Input(v, cat, weight=weight([[1.0, 0.0]], 1.0)) for v in range(3)])
    other = sq.Hadamard([sq.Input(v, cat, weight=weight([second], factor)) for v in range(3)])
    return sq.Circuit(sq.Sum([first, other], weight=weight([[1.0, 1.0]], 1.0)))


@pytest.mark.parametrize("factor", SIZES)
def test_functions_that_overlap_do_so_however_small_or_large_they_are(factor):
    circuit = products([1.0, 1.0], factor)
    assert sq.is_orthogonal(circuit).holds is False
    assert sq.is_deterministic(circuit).holds is False
    assert sq.is_orthogonal(circuit, over=[0]).holds is False


@pytest.mark.parametrize("factor", SIZES)
def test_functions_that_do_not_overlap_are_orthogonal_however_small_or_large_they_are(factor):
    circuit = products([0.0, 1.0], factor)
    assert sq.is_orthogonal(circuit).holds is True
    assert sq.is_deterministic(circuit).holds is True


@given(circuits(max_variables=3), st.integers(-900, 900))
def test_balanced_units_are_multiples_of_those_before(circuit, exponent):
    """Multiply every weight by a power of two that is small enough to stay in range, and balance it again."""
    circuit = circuit.initialise(seed=1)
    weights = {layer.weight for layer in (*circuit.sums, *circuit.inputs)} - {None}
    names = [circuit.parameter_name(w) for w in weights]
    factor = 2.0 ** (exponent // max(1, len(circuit.layers)))
    scaled = circuit.with_weights({name: factor * circuit.weights[name] for name in names})
    x = torch.zeros(1, circuit.num_variables, dtype=torch.float64)
    found, plain = sq.evaluate(balanced(scaled), x)[0], sq.evaluate(scaled, x)[0]
    for got, unit in zip(found, plain, strict=True):
        ratio = (got / unit).item() if unit != 0 else 1.0
        assert (got == 0) == (unit == 0)
        assert abs(ratio.imag) <= 1e-12 * abs(ratio)
        assert ratio.real > 0
