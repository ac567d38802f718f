"""Circuits as JSON: exact round trips, and clear errors for damaged text."""

from __future__ import annotations

import json

import pytest
import torch
from hypothesis import given

import oracle
import squircuit as sq
from squircuit.regions import patch_splits, quad_tree
from strategies import Shape, circuits, max_error


@given(circuit=circuits(Shape(unitary=False, share_inputs=True, structured=False, continuous=True)))
def test_json_with_weights_is_an_exact_round_trip(circuit):
    back = sq.Circuit.from_json(circuit.to_json(weights=True))
    assert list(back.parameters) == list(circuit.parameters)
    for name, value in circuit.weights.items():
        assert torch.equal(back.weights[name], value)
    rows = oracle.some_rows(circuit)
    assert max_error(oracle.density(back, rows), oracle.density(circuit, rows)) == 0


@pytest.mark.parametrize("regions", [quad_tree((5, 3)), patch_splits((4, 4), min_side=2)])
@pytest.mark.parametrize("tie", [None, 1])
def test_json_without_weights_keeps_structure_ties_and_constraints(regions, tie):
    circuit = sq.build(regions, sq.Categorical(12), 2, roots=2, tie=tie, root_weights="learnable")
    back = sq.Circuit.from_json(circuit.to_json())
    assert back.summary() == circuit.summary()
    assert not back.has_weights
    names = [p.constraint for p in back.parameters.values()]
    assert names == [p.constraint for p in circuit.parameters.values()]


def test_fixed_values_and_initial_shifts_belong_to_the_structure():
    family = sq.Fourier(3, period=1.0, shift=0.25, learnable=True)
    fixed = sq.Parameter((1, 3), "fixed", False, value=torch.tensor([[1.0, 0.0, 2.0]]))
    back = sq.Circuit.from_json(sq.Circuit(sq.Sum(sq.Input(0, family), weight=fixed)).to_json())
    assert back.weights["sum1.weight"].tolist() == [[1.0, 0.0, 2.0]]
    assert back.weights["input0.shift"].item() == 0.25


def damaged(change) -> str:
    circuit = sq.build(sq.regions.linear(2), sq.Categorical(2), 2)
    document = json.loads(circuit.to_json())
    change(document)
    return json.dumps(document)


def set_key(*path_and_value):
    *path, last, value = path_and_value

    def change(document):
        for key in path:
            document = document[key]
        document[last] = value

    return change


DAMAGE = {
    "cycle": set_key("layers", 2, "inputs", [0, 3]),
    "missing": set_key("roots", [17]),
    "dangling": lambda d: d["layers"].append(d["layers"][0]),
    "unknown kind 'tucker'": set_key("layers", 2, "kind", "tucker"),
    "parameter 'nobody', which is not listed": set_key("layers", 3, "weight", "nobody"),
    "not a circuit": set_key("format", "other"),
    "version 9": set_key("version", 9),
    "damaged circuit": lambda d: d.pop("layers"),
    "not decomposable": set_key("layers", 1, "variable", 0),
    "Categoricl": set_key("layers", 0, "family", "family", "Categoricl"),
}


@pytest.mark.parametrize("message", DAMAGE)
def test_damaged_text_gets_one_clear_error(message):
    with pytest.raises((sq.FormatError, sq.StructureError), match=message):
        sq.Circuit.from_json(damaged(DAMAGE[message]))


@pytest.mark.parametrize("text", ["", "{", "[]", "3"])
def test_text_that_is_no_circuit_is_refused(text):
    with pytest.raises(sq.FormatError):
        sq.Circuit.from_json(text)


def test_the_summary_counts_what_the_circuit_has():
    circuit = sq.build(quad_tree((28, 28)), sq.Categorical(256), units=8)
    assert "20,133,888 real parameters" in circuit.summary()
    assert repr(circuit) == "Circuit(784 variables, 1314 layers, 1 root units, 20,133,888 parameters)"


def test_initial_values_of_vector_parameters_and_the_flag_of_validation_are_kept():
    circuit = sq.build(sq.regions.linear(1), sq.Gaussian(3), 3, unitary=False, mixing=False)
    back = sq.Circuit.from_json(circuit.to_json())
    assert torch.equal(back.parameters["x0.loc"].value, circuit.parameters["x0.loc"].value)
    uneven = sq.Circuit(
        sq.Sum([sq.Input(0, sq.Categorical(2)), sq.Input(1, sq.Categorical(2))]), validate=False
    )
    assert not sq.Circuit.from_json(uneven.to_json()).validated


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["parameters"][0].update(value={"dtype": "float64", "data": [1.0]}),
        lambda d: d["parameters"][0].update(value={"dtype": "int64", "data": [1]}),
    ],
)
def test_damaged_values_are_refused(change):
    with pytest.raises(sq.FormatError, match="damaged"):
        sq.Circuit.from_json(damaged(change))


@pytest.mark.parametrize("text", [None, {}, "[" * 100_000])
def test_what_is_no_text_of_a_circuit_is_refused(text):
    with pytest.raises(sq.FormatError):
        sq.Circuit.from_json(text)
