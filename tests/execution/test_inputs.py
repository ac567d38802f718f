"""Families that differ in place are evaluated together, with the values that each has by itself."""

from __future__ import annotations

import pytest
import torch

import squircuit as sq
from squircuit.execution.inputs import LocationScaleInputs
from squircuit.execution.plan import InputGroup
from squircuit.execution.planner import make_plan

FAMILIES = [
    sq.Hermite(9, loc=-3.0, scale=0.1),
    sq.Hermite(9, loc=1e3, scale=20.0),
    sq.Hermite(5),
    sq.Hermite(9, learnable=True),
    sq.Categorical(3),
]


@pytest.fixture
def circuit() -> sq.Circuit:
    return sq.build(sq.regions.balanced_tree(5), FAMILIES, units=3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_functions_of_placed_families_are_those_of_each_family_also_far_away_and_where_nan(circuit, dtype):
    groups = [group for group in make_plan(circuit).groups if isinstance(group, InputGroup)]
    offsets = torch.tensor([0.0, 0.3, -2.0, 60.0, 1e30, float("nan")], dtype=dtype)
    columns = [
        torch.stack([getattr(FAMILIES[v], "loc", 0.0) + offsets for v in group.variables]) for group in groups
    ]
    found = LocationScaleInputs(groups).functions(columns, dtype)
    together = {groups[number].family for number in found}
    assert together == set(FAMILIES[:2])  # the others have no company, or a place that is learnt
    for number, (values, scales) in found.items():
        expected = groups[number].family.evaluate(columns[number])
        torch.testing.assert_close(values * scales.exp().nan_to_num()[..., None], expected)


def test_densities_of_placed_columns_are_those_of_the_reference(circuit):
    model = sq.SquaredCircuit(circuit, seed=0, dtype=torch.complex128)
    rows = torch.tensor([[-3.05, 1010.0, 0.2, -0.1, 2.0], [-2.9, 980.0, -1.0, 0.4, 0.0]], dtype=torch.float64)
    exact = sq.evaluate(model.circuit(), rows).abs().square() @ model.circuit().root_shares
    torch.testing.assert_close(model.log_prob(rows).exp(), exact)
