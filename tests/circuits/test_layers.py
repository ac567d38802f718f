"""Layers and circuits by hand: shapes, scopes, names, ties, and one clear error for each mistake."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import squircuit as sq
from squircuit.circuits.initial import draw

X = sq.Categorical(3)


def test_a_circuit_is_written_down_in_a_few_lines():
    x, y = sq.Input(0, X, units=2), sq.Input(1, X)
    circuit = sq.Circuit(sq.Sum(sq.Kronecker([x, y]), units=2))
    assert circuit.scope == {0, 1}
    assert [layer.units for layer in circuit.layers] == [2, 3, 6, 2]
    assert list(circuit.parameters) == ["input0.weight", "sum3.weight"]
    assert circuit.num_roots == 2


def test_kronecker_layers_multiply_widths_of_any_arity():
    inputs = [sq.Input(v, X, units=v + 1) for v in range(3)]
    assert sq.Kronecker(inputs).units == 6


def test_layers_and_parameters_cannot_be_changed():
    layer = sq.Input(0, X)
    with pytest.raises(AttributeError):
        layer.units = 5
    with pytest.raises(AttributeError):
        sq.Parameter((2, 2)).shape = (3, 3)


def test_layers_that_hold_one_parameter_are_tied_and_count_once():
    shared = sq.Parameter((2, 3), name="shared")
    x, y = sq.Input(0, X, weight=shared), sq.Input(1, X, weight=shared)
    circuit = sq.Circuit(sq.Sum(sq.Hadamard([x, y])))
    assert list(circuit.parameters) == ["shared", "sum3.weight"]
    assert circuit.num_parameters() == 2 * (6 + 2)
    assert circuit.num_weights("input") == 6


def test_the_same_seed_gives_the_same_weights_in_every_precision():
    circuit = sq.Circuit(sq.Sum(sq.Input(0, X, units=2)))
    double, single = circuit.initialise(seed=3), circuit.initialise(seed=3, dtype=torch.complex64)
    assert single.weights["sum1.weight"].dtype == torch.complex64
    for name, value in double.weights.items():
        assert torch.equal(value.to(torch.complex64), single.weights[name])
    assert not torch.equal(circuit.initialise(seed=4).weights["sum1.weight"], double.weights["sum1.weight"])


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 3), (2, 3)])
@pytest.mark.parametrize("is_complex", [True, False])
def test_semi_unitary_weights_are_drawn_without_a_favourite_sign_or_phase(shape, is_complex):
    """W and UW are equally likely for every unitary U: entries have mean 0, and |tr|² that of Haar."""
    parameter, generator = sq.Parameter(shape, is_complex=is_complex), torch.Generator().manual_seed(0)
    drawn = torch.stack([draw(parameter, generator, torch.complex128) for _ in range(2000)])
    assert (drawn.mean(dim=0).abs() < 4.5 / math.sqrt(2000 * shape[1])).all()
    squares = drawn.diagonal(dim1=1, dim2=2).sum(dim=1).abs().square()
    assert squares.mean().item() == pytest.approx(shape[0] / shape[1], abs=0.15)


def test_real_circuits_have_real_weights_and_half_the_parameters():
    build = lambda flag: sq.build(sq.regions.linear(3), X, 2, is_complex=flag)  # noqa: E731
    assert build(True).num_parameters() == 2 * build(False).num_parameters()
    assert all(not value.is_complex() for value in build(False).initialise().weights.values())


def test_properties_and_values_work_in_single_precision():
    circuit = sq.build(sq.regions.linear(3), X, 2).initialise(dtype=torch.complex64)
    assert sq.is_unitary(circuit)
    assert sq.partition(circuit) == pytest.approx(1, abs=1e-5)


def test_deep_circuits_do_not_reach_the_recursion_limit():
    circuit = sq.build(sq.regions.linear(1200), sq.Categorical(2), 2).initialise(seed=0)
    assert sq.partition(circuit) == pytest.approx(1, abs=1e-9)
    assert sq.is_unitary(circuit)
    assert len(sq.Circuit.from_json(circuit.to_json()).layers) == len(circuit.layers)


def test_arrays_and_numbers_of_numpy_are_welcome():
    circuit = sq.Circuit(sq.Sum(sq.Input(np.int64(0), X), weight=np.array([[0.6, 0.8, 0.0]])))
    assert sq.evaluate(circuit, np.array([[0], [1]])[::-1]).real.flatten().tolist() == [0.8, 0.6]
    assert sq.Sum(sq.Input(0, X), weight=[[1.0, 2.0, 3.0]]).units == 1


def test_a_circuit_cannot_be_changed():
    weight = torch.ones(1, 3)
    circuit = sq.Circuit(sq.Sum(sq.Input(0, X), weight=weight))
    with pytest.raises(AttributeError, match="cannot be changed"):
        circuit.roots = ()
    weight.mul_(2)
    assert sq.partition(circuit) == pytest.approx(3)


def test_the_precision_of_a_complex_circuit_may_be_named_by_a_real_type():
    circuit = sq.Circuit(sq.Sum(sq.Input(0, X, units=2))).initialise(dtype=torch.float64)
    assert sq.is_unitary(circuit)
    assert circuit.weights["sum1.weight"].dtype == torch.complex128


MISTAKES = {
    "root layer .or a list of them., got 'a'": lambda: sq.Circuit("a"),
    "root_weights must be a Parameter": lambda: sq.Circuit(sq.Input(0, X), root_weights=torch.ones(3) / 3),
    "constraint must be one of": lambda: sq.Parameter((2, 2), "unitary"),
    "a parameter's shape is a tuple": lambda: sq.Parameter(3),
    "a whole number, got 2.5": lambda: sq.Sum(sq.Input(0, X), units=2.5),
    "a whole number, got True": lambda: sq.Input(0, X, units=True),
    "array of numbers, got 'a'": lambda: sq.Sum(sq.Input(0, X), weight="a"),
    "seed must be": lambda: sq.Circuit(sq.Input(0, X)).initialise(seed="a"),
    "dtype must be": lambda: sq.Circuit(sq.Input(0, X)).initialise(dtype=torch.int64),
    "mapping of names": lambda: sq.Circuit(sq.Input(0, X)).with_weights([1]),
    "must be a RegionGraph": lambda: sq.build(3, X, 2),
    "must be a family such as": lambda: sq.build(sq.regions.linear(2), sq.Categorical, 2),
    "not decomposable": lambda: sq.Circuit(sq.Kronecker([sq.Input(0, X), sq.Input(0, X)])),
    r"depend on \{1\}": lambda: sq.Circuit(
        sq.Hadamard([sq.Hadamard([sq.Input(0, X), sq.Input(1, X)]), sq.Input(1, X)])
    ),
    "not smooth": lambda: sq.Circuit(sq.Sum([sq.Input(0, X), sq.Input(1, X)])),
    "different numbers of units": lambda: sq.Hadamard([sq.Input(0, X, 1), sq.Input(1, X, 2)]),
    "has 2 columns, its inputs have": lambda: sq.Sum([sq.Input(0, X)], weight=torch.eye(2)),
    "4 orthonormal functions do not fit in a basis of 3": lambda: sq.Input(0, X, units=4),
    "4 units cannot have orthonormal rows over 3": lambda: sq.Sum(sq.Input(0, X), units=4),
    "cannot have orthonormal rows": lambda: sq.Parameter((3, 2)),
    "units must be ≥ 1": lambda: sq.Sum(sq.Input(0, X), units=-1),
    "variable must be an integer": lambda: sq.Input(-1, X),
    "is not a family": lambda: sq.Input(0, 3),
    "has no inputs": lambda: sq.Kronecker([]),
    "is not a layer": lambda: sq.Sum([3]),
    "weight has 2 columns, but the family has 3": lambda: sq.Input(0, X, weight=torch.ones(1, 2)),
    "rows 2 to 4 are not in a weight of 3 rows": lambda: sq.Input(0, X, 3, torch.eye(3), first_row=2),
    "must be a matrix": lambda: sq.Sum(sq.Input(0, X), weight=torch.ones(3)),
    "units=2, but its weight has 1 rows": lambda: sq.Sum(sq.Input(0, X), 2, weight=torch.ones(1, 3)),
    "NaN or infinity": lambda: sq.Sum(sq.Input(0, X), weight=torch.tensor([[1.0, math.nan, 0.0]])),
    "two parameters are called 'w'": lambda: sq.Circuit(
        sq.Sum(
            sq.Sum(sq.Input(0, X), weight=sq.Parameter((2, 3), name="w")),
            weight=sq.Parameter((1, 2), name="w"),
        )
    ),
    "is fixed but has no value": lambda: sq.Parameter((1, 1), "fixed"),
    "has the domains": lambda: sq.Circuit(sq.Sum([sq.Input(0, X), sq.Input(0, sq.Categorical(2))])),
    "at least one root": lambda: sq.Circuit([]),
    "root layers have the scopes": lambda: sq.Circuit([sq.Input(0, X), sq.Input(1, X)]),
    "root_weights must be a simplex": lambda: sq.Circuit(sq.Input(0, X), root_weights=sq.Parameter((3, 3))),
    "must be ≥ 0 and sum to 1": lambda: sq.Parameter((2,), "simplex", False, value=torch.tensor([0.5, 0.6])),
    "has parameters \\['shift'\\], not": lambda: sq.Input(
        0, sq.Fourier(3, 1.0, learnable=True), parameters={"scale": sq.Parameter((), "free", False)}
    ),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_a_mistake_in_a_circuit_gets_one_clear_error(message):
    with pytest.raises(sq.SquircuitError, match=message):
        MISTAKES[message]()


WEIGHTS = {
    "no values yet": lambda c: sq.evaluate(c, [[0, 0]]),
    "no parameter is called": lambda c: c.with_weights({"sum9": torch.ones(1, 9)}),
    r"has shape \(1, 9\), got \(1, 4\)": lambda c: c.with_weights({"sum3.weight": torch.ones(1, 4)}),
    "holds NaN or infinity": lambda c: c.with_weights({"sum3.weight": torch.full((1, 9), math.inf)}),
    "only layers of kind": lambda c: c.num_parameters("kronecker"),
}


@pytest.mark.parametrize("message", WEIGHTS)
def test_wrong_weights_get_one_clear_error(message):
    circuit = sq.Circuit(sq.Sum(sq.Kronecker([sq.Input(0, X), sq.Input(1, X)])))
    with pytest.raises(sq.ParameterError, match=message):
        WEIGHTS[message](circuit)


def test_complex_values_for_a_real_parameter_are_refused():
    circuit = sq.Circuit(sq.Sum(sq.Input(0, X), weight=sq.Parameter((1, 3), is_complex=False)))
    with pytest.raises(sq.ParameterError, match="is real"):
        circuit.with_weights({"sum1.weight": torch.ones(1, 3, dtype=torch.complex64)})


DATA = {
    r"shape \(n, 2\), rows being samples; got \(2,\)": [0, 1],
    r"got \(1, 3\)": [[0, 1, 2]],
    "row 1, column 0: 3 is not in the domain, integers 0 to 2": [[0, 0], [3, 0]],
    "row 0, column 1: -1 is not": [[0, -1]],
    "row 0, column 0: 0.5 is not": [[0.5, 0]],
    "row 0, column 0: nan is not": [[math.nan, 0]],
    "must be integers or floats": torch.ones(1, 2, dtype=torch.complex64),
    "row 0, column 0: 'a' is not a number": [["a", "b"]],
    "no data": None,
}


@pytest.mark.parametrize("message", DATA)
def test_wrong_data_gets_one_error_that_names_the_place_and_the_domain(message):
    circuit = sq.build(sq.regions.linear(2), X, 2).initialise()
    with pytest.raises(sq.DataError, match=message):
        sq.evaluate(circuit, DATA[message])


def test_infinite_values_are_refused_and_values_outside_a_continuous_domain_have_density_zero():
    circuit = sq.build(sq.regions.linear(1), sq.Legendre(3, 0.0, 1.0), 2).initialise()
    assert sq.evaluate(circuit, [[2.0]]).abs().item() == 0
    with pytest.raises(sq.DataError, match="inf is not"):
        sq.evaluate(circuit, [[math.inf]])


def test_unknown_variables_to_integrate_are_named():
    circuit = sq.build(sq.regions.linear(2), X, 2).initialise()
    with pytest.raises(sq.ParameterError, match=r"unknown variables \{7\}"):
        sq.marginal(circuit, [[0, 0]], over=[7])


class Maximum(sq.Layer):
    def __init__(self, inputs):
        self._set(inputs=tuple(inputs), scope=frozenset().union(*(i.scope for i in inputs)), units=2)


@pytest.mark.parametrize("validate", [True, False])
def test_a_layer_of_another_kind_is_refused_since_algorithms_would_pass_it_over(validate):
    layer = Maximum([sq.Input(0, X, units=2), sq.Input(1, X, units=2)])
    for root in (layer, sq.Sum(layer, units=1)):
        with pytest.raises(
            sq.ParameterError, match=r"maximum layer over \{0,1\}: Maximum is not a kind.*Fix"
        ):
            sq.Circuit(root, validate=validate)


# ------------------------------------------------------------------ blocks of several variables


def test_a_block_keeps_the_order_of_its_variables():
    layer = sq.Input((5, 0, 2), sq.MultivariateGaussian(4, 3))
    assert layer.variables == (5, 0, 2)
    assert layer.scope == {0, 2, 5}
    assert layer.units == 4
    assert layer.columns(torch.arange(6)[None]).tolist() == [[5, 0, 2]]
    with pytest.raises(sq.StructureError, match=r"over one variable.*Fix|3 variables at once"):
        _ = layer.variable


def test_a_block_of_one_variable_is_a_layer_over_that_variable():
    layer = sq.Input(3, sq.MultivariateGaussian(4, 1))
    assert (layer.variable, layer.variables, layer.scope) == (3, (3,), {3})
    assert layer.columns(torch.zeros(7, 4)).shape == (7, 1)


@pytest.mark.parametrize(
    ("variables", "family", "match"),
    [
        ((0, 0), sq.MultivariateGaussian(1, 2), "distinct"),
        ((), sq.MultivariateGaussian(1, 2), "distinct"),
        ((0, 1, 2), sq.MultivariateGaussian(1, 2), r"functions of 2 variables.*Fix: pass 2"),
        (0, sq.MultivariateGaussian(1, 2), r"functions of 2 variables"),
        ((0, 1), sq.Categorical(2), r"Categorical has functions of 1 variable\. Fix"),
        ((0, -1), sq.MultivariateGaussian(1, 2), "integer from 0"),
    ],
)
def test_wrong_variables_of_a_block_are_named(variables, family, match):
    with pytest.raises(sq.ParameterError, match=match) as error:
        sq.Input(variables, family)
    assert "Fix: " in str(error.value)


def test_circuits_of_blocks_know_all_domains_and_refuse_overlapping_factors():
    block = sq.Input((0, 2), sq.MultivariateGaussian(2, 2))
    circuit = sq.Circuit(sq.Hadamard([block, sq.Input(1, sq.Categorical(3), units=2)]))
    assert circuit.domains == {0: sq.families.Line(), 1: sq.families.Finite(3), 2: sq.families.Line()}
    assert circuit.num_variables == 3
    with pytest.raises(sq.StructureError, match="decomposable"):
        sq.Circuit(sq.Hadamard([block, sq.Input((1, 2), sq.MultivariateGaussian(2, 2))]))
    with pytest.raises(sq.StructureError, match=r"variable 2 has the domains"):
        sq.Circuit(sq.Sum([block, sq.Hadamard([sq.Input(0, sq.Hermite(2)), sq.Input(2, sq.Categorical(2))])]))


def test_circuits_of_blocks_come_back_from_json_with_shared_parameters():
    means = torch.tensor([[0.0, 1.0], [2.0, 3.0]], dtype=torch.float64)
    first = sq.Input((0, 2), sq.MultivariateGaussian(2, 2), parameters={"loc": means})
    second = sq.Input((1, 3), first.family, parameters=first.parameters)
    circuit = sq.Circuit(sq.Hadamard([first, second]))
    again = sq.Circuit.from_json(circuit.to_json(weights=True))
    assert [layer.variables for layer in again.inputs] == [(0, 2), (1, 3)]
    assert again.inputs[0].parameters["loc"] is again.inputs[1].parameters["loc"]
    assert torch.equal(again.value(again.inputs[0].parameters["loc"]), means)
    assert "x0 x2" in circuit.draw()
    assert "MultivariateGaussian" in circuit.summary()
