"""Spread numbers: they are rounded to what they were, and their density knows the resolution."""

import math

import numpy as np
import pytest
import torch

import squircuit as sq
from squircuit.data.resolution import cell_ends, spread


def prices(count=400):
    rng = np.random.default_rng(0)
    price = np.where(rng.random(count) < 0.4, 0.0, rng.gamma(2.0, 30.0, count)).round(1)
    price[::9] = np.nan
    return sq.data.table(
        {"price": price, "colour": rng.integers(3, size=count), "real": rng.normal(size=count)}
    )


def test_spread_numbers_are_rounded_to_what_they_were():
    table = prices()
    moved = spread(table.cells, table.schema, 0)
    assert table.columns[0].step == 0.1
    assert np.array_equal(table.columns[0].rounded(moved.x[:, 0]), table.rows[:, 0], equal_nan=True)
    assert (moved.x[:, 0] != table.rows[:, 0]).mean() > 0.8


def test_columns_without_a_step_gaps_and_weights_stay():
    table = prices()
    moved = spread(table.cells, table.schema, 0)
    assert np.array_equal(moved.x[:, 1:], table.rows[:, 1:])
    assert np.array_equal(moved.missing, table.missing)
    assert np.array_equal(np.isnan(moved.x), np.isnan(table.rows))


def test_spread_numbers_are_even_in_their_cells_and_the_seed_decides():
    table = sq.data.table({"whole": np.repeat(np.arange(0.0, 900.0, 30.0), 100)}, {"whole": "continuous"})
    step = table.columns[0].step
    first, again, other = (spread(table.cells, table.schema, seed).x for seed in (0, 0, 1))
    offsets = np.sort((first - table.rows).ravel() / step)
    assert np.abs(offsets - np.linspace(-0.5, 0.5, len(offsets))).max() < 0.03
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_cells_of_common_values_have_ends():
    values = np.concatenate([np.full(30, 0.5), np.full(10, 0.6), [7.1], [np.nan]])
    assert cell_ends(values, 0.1) == pytest.approx([0.45, 0.55, 0.65])
    assert len(cell_ends(values, 0.0)) == 0


def test_the_map_of_a_spread_spike_ends_where_its_cell_does():
    rng = np.random.default_rng(1)
    values = np.concatenate([np.zeros(600), rng.integers(50, 5000, 400)])
    moved = values + rng.random(1000) - 0.5
    from_cells = sq.Monotone.fit(moved, 64, ends=cell_ends(moved, 1.0))
    assert {-0.5, 0.5} <= set(from_cells.knots)
    normal = sq.Monotone.fit(moved, 64)
    share = [
        math.erf(from_cells.forward(torch.tensor(x, dtype=torch.float64))[0].item() / math.sqrt(2)) / 2
        for x in (-0.5, 0.5)
    ]
    assert share[1] - share[0] == pytest.approx(0.6, abs=0.01)
    assert 0.5 not in normal.knots
