"""Sums over the functions of one variable are planned as input layers, and nothing else changes."""

import pytest
import torch

import oracle
import squircuit as sq
from squircuit.circuits import Circuit, Hadamard, Input, Parameter, Sum
from squircuit.execution.plan import InputGroup, SumGroup
from squircuit.execution.planner import make_plan

BITS = sq.Categorical(2)


def bare(variable: int) -> Input:
    return Input(variable, BITS)


def shared_functions() -> Circuit:
    """The functions of x0 are read by a sum and by a product."""
    functions = bare(0)
    left = Hadamard([functions, Sum(bare(1), units=2)])
    right = Hadamard([Sum(functions, units=2), bare(1)])
    return Circuit(Sum([left, right], weight=Parameter((1, 4), constraint="free")))


def one_weight_everywhere() -> Circuit:
    weight = Parameter((2, 2), constraint="semi-unitary", name="one")
    return Circuit(Sum(Hadamard([Sum(bare(v), weight=weight) for v in range(3)]), units=1))


CIRCUITS = {
    "tree": sq.build(sq.regions.balanced_tree(3), BITS, 2, input_sums=True, mixing=False),
    "tied": sq.build(sq.regions.balanced_tree(3), BITS, 2, input_sums=True, mixing=False, tie="inputs"),
    "free": sq.build(sq.regions.linear(3), BITS, 2, "hadamard", unitary=False, input_sums=True, mixing=False),
    "shared functions": shared_functions(),
    "one weight": one_weight_everywhere(),
    "one variable": Circuit(Sum(bare(0), units=1)),
    "two roots": Circuit(Sum(bare(0), units=2)),
}


@pytest.mark.parametrize("name", CIRCUITS)
def test_sums_over_bare_functions_are_planned_as_inputs_and_the_density_is_that_of_the_reference(name):
    circuit = CIRCUITS[name]
    model = sq.SquaredCircuit(circuit, seed=1, dtype=torch.complex128)
    sums = [group for group in model.plan.groups if isinstance(group, SumGroup)]
    widths = {branch.kind for group in sums for branch in group.branches}
    assert "linear" not in widths
    rows, _ = oracle.assignments(circuit, range(circuit.num_variables))
    exact = torch.as_tensor(oracle.density(model.circuit(), rows))
    torch.testing.assert_close(model.log_prob(torch.as_tensor(rows)).exp(), exact / exact.sum())
    torch.testing.assert_close(model.log_partition().exp(), exact.sum())


def test_functions_that_something_else_reads_are_planned_beside_the_sum():
    groups = [group for group in make_plan(shared_functions()).groups if isinstance(group, InputGroup)]
    assert sorted((group.weight is None, group.folds) for group in groups) == [(False, 2), (True, 2)]


def test_sums_over_functions_with_a_weight_of_their_own_stay_sums():
    circuit = sq.build(sq.regions.balanced_tree(3), sq.Categorical(5), 2, input_sums=True)
    assert [type(group) for group in make_plan(circuit).groups][:2] == [InputGroup, SumGroup]
