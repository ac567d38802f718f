"""Families that differ in place are evaluated together, with the values that each has by itself."""

from __future__ import annotations

import pytest
import torch

import squircuit as sq
from squircuit.execution.inputs import FunctionsTogether
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
    found = FunctionsTogether(groups).functions(columns, dtype)
    together = {groups[number].family for number in found}
    assert together == set(FAMILIES[:2])  # the others have no company, or a place that is learnt
    for number, (values, scales) in found.items():
        expected = groups[number].family.evaluate(columns[number])
        torch.testing.assert_close(values * scales.exp().nan_to_num()[..., None], expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_functions_behind_maps_are_those_of_each_family_also_far_away_and_where_nan(dtype):
    draw = torch.Generator().manual_seed(0)
    samples = [
        torch.randn(n, generator=draw).double().mul(s).exp() for n, s in ((50, 0.1), (400, 1), (2000, 2))
    ]
    families = [sq.Transformed(sq.Hermite(7), sq.Monotone.fit(sample)) for sample in samples]
    inside = sq.Transformed(sq.Legendre(7, 0.0, 1.0), sq.Monotone((0.0, 3.0), (0.0, 1.0), (0.5, 0.2), None))
    circuit = sq.build(sq.regions.balanced_tree(5), [*families, inside, sq.Categorical(3)], units=3)
    groups = [group for group in make_plan(circuit).groups if isinstance(group, InputGroup)]
    points = torch.tensor([-1e30, -5.0, 0.1, 1.0, 2.5, 80.0, 1e30, torch.inf, torch.nan], dtype=dtype)
    columns = [points.expand(group.folds, -1).clone().requires_grad_() for group in groups]
    found = FunctionsTogether(groups).functions(columns, torch.float64)
    assert {groups[number].family for number in found} == set(families)
    for number, (values, scales) in found.items():
        expected = groups[number].family.evaluate_scaled(columns[number], dtype=torch.float64)
        torch.testing.assert_close(values, expected[0], rtol=1e-12, atol=0)
        seen = points.isfinite()
        torch.testing.assert_close(scales[:, seen], expected[1][:, seen])
        slopes = [
            torch.autograd.grad(v.sum(), columns[number], retain_graph=True)[0] for v in (values, expected[0])
        ]
        torch.testing.assert_close(*slopes)


def test_densities_of_placed_columns_are_those_of_the_reference(circuit):
    model = sq.SquaredCircuit(circuit, seed=0, dtype=torch.complex128)
    rows = torch.tensor([[-3.05, 1010.0, 0.2, -0.1, 2.0], [-2.9, 980.0, -1.0, 0.4, 0.0]], dtype=torch.float64)
    exact = sq.evaluate(model.circuit(), rows).abs().square() @ model.circuit().root_shares
    torch.testing.assert_close(model.log_prob(rows).exp(), exact)
