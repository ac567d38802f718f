"""Columns that are seen as one: nothing is lost, and the circuit is the density of single columns."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

import squircuit as sq
from squircuit.data import Rows
from squircuit.learning.joint_states import groups_of, joined, split_rows
from squircuit.learning.members import GaussianMixture


def days(count=500, seed=0):
    """A day off is a function of two columns, and a season almost one of a month."""
    rng = np.random.default_rng(seed)
    day, holiday, month = (
        rng.integers(7, size=count),
        rng.integers(2, size=count),
        rng.integers(12, size=count),
    )
    return {
        "day": day,
        "holiday": holiday,
        "off": ((day > 4) | (holiday == 1)).astype(int),
        "month": month,
        "coin": rng.integers(2, size=count),
        "warm": rng.normal(size=count) + month,
        "season": (month + (rng.random(count) < 0.1)) // 3 % 4,
    }


def test_columns_that_depend_on_each_other_make_groups():
    assert groups_of(sq.data.table(days()), 512) == ((0, 1, 2), (3, 6))


def test_a_group_has_no_more_states_than_it_may():
    table = sq.data.table(days())
    assert groups_of(table, 20) == ((1, 2),)  # 4 states; with the day it would have 28, the months 48
    assert groups_of(table, 0) == ()


def test_columns_with_gaps_and_independent_ones_stay_alone():
    frame = days() | {"off": np.where(np.arange(500) % 50 == 0, np.nan, days()["off"])}
    assert groups_of(sq.data.table(frame), 512) == ((3, 6),)
    assert groups_of(sq.data.table(days()), 512) == groups_of(sq.data.table(days(seed=1)), 512)


def test_each_combination_has_a_number_of_its_own():
    every = torch.tensor(list(itertools.product(range(3), range(2), range(4))), dtype=torch.float64)
    found = joined(Rows(every), ((0, 2),), {0: 3, 2: 4})
    numbers = {(a, c): n for (a, _, c), n in zip(every.tolist(), found.x[:, 0].tolist(), strict=True)}
    assert sorted(numbers.values()) == list(range(12))
    assert torch.equal(found.x[:, 1], every[:, 1])
    assert not found.x[:, 2].any()


def test_a_combination_of_which_a_part_is_missing_is_missing():
    gaps = torch.tensor([[False, False, True], [True, False, True], [False, True, False]])
    rows = Rows(torch.zeros(3, 3, dtype=torch.float64), gaps)
    found = joined(rows, ((0, 2),), {0: 3, 2: 4})
    assert found.missing.tolist() == [[True, False, False], [True, False, False], [False, True, False]]
    assert split_rows(rows, ((0, 2),)).tolist() == [True, False, False]


@pytest.fixture(scope="module")
def member():
    return GaussianMixture(3, knots=16, joint=64).fit(sq.data.table(days()), None, 0, torch.device("cpu"))


def test_the_circuit_of_groups_is_normalised_over_all_states(member):
    model = member.model()
    sizes = [column.size for column in member.schema.columns]
    states = [range(size) if size else [0] for size in sizes]
    rows = torch.tensor(list(itertools.product(*states)), dtype=torch.float64)
    total = model.log_prob(rows, missing=[size == 0 for size in sizes]).exp().sum().item()
    assert total == pytest.approx(1, abs=1e-9)
    assert model.log_partition().item() == pytest.approx(0, abs=1e-9)


def test_member_and_circuit_agree_on_rows_that_show_parts_of_groups(member):
    cells = sq.data.table(days()).cells.take(slice(12))
    gaps = np.random.default_rng(2).random(cells.x.shape) < 0.3
    rows = replace(cells, gaps=gaps)
    found = member.model().log_prob(cells.x, gaps)
    torch.testing.assert_close(member.log_prob(rows), found, atol=1e-8, rtol=1e-8)


def test_a_part_of_a_group_is_the_sum_over_the_others(member):
    row = torch.tensor(sq.data.table(days()).rows[:1])
    hidden = [False, True, True, False, False, False, False]
    every = row.repeat(4, 1)
    every[:, 1:3] = torch.tensor(list(itertools.product(range(2), range(2))))
    model = member.model()
    assert model.log_prob(row, missing=hidden).item() == pytest.approx(
        model.log_prob(every).logsumexp(0).item(), abs=1e-9
    )


def test_samples_keep_what_is_a_function_of_others(member):
    drawn = member.model().sample(2000, seed=0)
    off = (drawn[:, 0] > 4) | (drawn[:, 1] == 1)
    assert (off == (drawn[:, 2] == 1)).double().mean() > 0.98
