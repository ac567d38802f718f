"""Laws of the graph learnt from data: information by hand, the tree it came from, and what is refused."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from math import log

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from squircuit.errors import DataError, ParameterError
from squircuit.regions import chow_liu, linear
from squircuit.regions.chow_liu import mutual_information


def information_by_hand(left, right):
    """Σ p(a,b) log p(a,b) / (p(a) p(b)) over the rows where both are known."""
    rows = [(a, b) for a, b in zip(left, right, strict=True) if a == a and b == b]  # NaN differs from itself
    joint, lefts, rights = Counter(rows), Counter(a for a, _ in rows), Counter(b for _, b in rows)
    n = len(rows)
    return sum(c / n * log(c * n / (lefts[a] * rights[b])) for (a, b), c in joint.items())


def sample_tree(parents, n, seed, flip=0.15):
    """Binary rows from a tree: each variable copies its parent (-1: none) and is sometimes flipped."""
    rng = np.random.default_rng(seed)
    columns = []
    for parent in parents:
        noise = rng.random(n) < (0.5 if parent < 0 else flip)
        columns.append(noise if parent < 0 else columns[parent] ^ noise)
    return np.stack(columns, axis=1).astype(np.int64)


def is_connected(scope, edges):
    reached, frontier = set(), [min(scope)]
    while frontier:
        node = frontier.pop()
        reached.add(node)
        frontier += [o for e in edges if node in e for o in e if o in scope and o not in reached]
    return reached == set(scope)


parent_lists = st.integers(2, 9).flatmap(
    lambda d: st.tuples(*(st.integers(min(0, i - 1), i - 1) for i in range(d)))
)


@settings(deadline=None, max_examples=50)
@given(parent_lists, st.integers(0, 100))
def test_every_region_is_connected_in_the_tree_that_generated_the_data(parents, seed):
    graph = chow_liu(sample_tree([-1, *parents[1:]], 4000, seed), arity=None)
    edges = {frozenset({i, parent}) for i, parent in enumerate(parents) if i > 0}
    assert all(is_connected(region.scope, edges) for region in graph.regions)
    for region in graph.regions:
        for partition in region.partitions:
            assert Counter(len(graph.regions[child].scope) for child in partition)[1] >= 1


def test_a_chain_is_rooted_at_its_middle():
    graph = chow_liu(sample_tree([-1, 0, 1, 2, 3, 4, 5], 5000, seed=0), arity=None)
    parts = {graph.regions[child].scope for child in graph.root.partitions[0]}
    assert parts == {frozenset({0, 1, 2}), frozenset({3}), frozenset({4, 5, 6})}


@given(
    arrays(
        np.float64,
        st.tuples(st.integers(2, 30), st.integers(1, 4)),
        elements=st.sampled_from([0, 1, 2, np.nan]),
    )
)
def test_mutual_information_is_what_counting_by_hand_gives_with_values_missing(table):
    information = mutual_information(table)
    for i, j in combinations(range(table.shape[1]), 2):
        np.testing.assert_allclose(
            information[i, j], information_by_hand(table[:, i], table[:, j]), atol=1e-12
        )
    np.testing.assert_allclose(information, information.T, atol=1e-12)


def test_many_values_are_cut_into_bins_of_equal_counts():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 1600))
    y = x + y
    in_bins = [np.argsort(np.argsort(values)) // 100 for values in (x, y)]
    expected = information_by_hand(*in_bins)
    assert mutual_information(np.stack([x, y], axis=1), bins=16)[0, 1] == pytest.approx(expected)


def test_a_value_that_fills_most_of_a_column_has_a_bin_of_its_own():
    """As the black border of images does: whether a pixel is black must not be lost in binning."""
    grey = np.concatenate([np.zeros(900), np.arange(1, 101)])
    table = np.stack([grey, grey == 0], axis=1)
    assert mutual_information(table, bins=16)[0, 1] == pytest.approx(
        information_by_hand(grey == 0, grey == 0)
    )


def test_information_does_not_depend_on_the_names_of_the_categories():
    table = sample_tree([-1, 0, 1], 500, seed=1)
    np.testing.assert_allclose(mutual_information(table * 1000 - 7), mutual_information(table), atol=1e-12)


def test_a_constant_column_carries_no_information_and_is_still_placed():
    table = sample_tree([-1, 0, 1], 500, seed=1)
    table[:, 1] = 5
    assert not mutual_information(table)[1].any()
    assert chow_liu(table).num_variables == 3


def test_columns_that_are_never_known_together_carry_no_information():
    table = np.array([[0, np.nan], [1, np.nan], [np.nan, 0], [np.nan, 1]])
    assert mutual_information(table)[0, 1] == 0
    assert chow_liu(table).arity_counts() == {2: 1}


def test_a_table_without_any_known_value_still_gives_a_graph():
    assert chow_liu(np.full((3, 4), np.nan)).num_variables == 4


@given(st.integers(1, 12), st.sampled_from([2, 3, 4]), st.integers(0, 50))
def test_no_split_has_more_parts_than_the_arity(d, arity, seed):
    table = np.random.default_rng(seed).integers(3, size=(30, d))
    graph = chow_liu(table, arity=arity)
    assert max(graph.arity_counts(), default=2) <= arity
    assert graph.is_structured
    assert len(graph.leaves) == d


def test_a_star_is_split_in_a_balanced_way():
    table = sample_tree([-1, *[0] * 15], 5000, seed=0)
    assert chow_liu(table, arity=None).arity_counts() == {16: 1}
    assert chow_liu(table, arity=2).depth == 4
    assert chow_liu(table, arity=4).depth == 2


def test_lists_tensors_and_booleans_are_tables_too():
    table = sample_tree([-1, 0, 0, 1], 200, seed=2)
    graph = chow_liu(table)
    assert chow_liu(table.tolist()) == graph
    assert chow_liu(torch.from_numpy(table)) == graph
    assert chow_liu(table.astype(bool)) == graph


def test_one_column_is_one_leaf():
    assert chow_liu([[0], [1]]) == linear(1)


REFUSED_DATA = {
    "got shape (3,)": [1, 2, 3],
    "got shape (0, 2)": np.zeros((0, 2)),
    "got shape (3, 0)": np.zeros((3, 0)),
    "got shape (1, 2)": [[1, 2]],
    "row 1, column 0 of data is inf": [[0.0, 1.0], [np.inf, 2.0]],
    "row 0, column 1 of data is -inf": [[0.0, -np.inf], [1.0, 2.0]],
    "got dtype <U1": [["a", "b"], ["c", "d"]],
    "got dtype complex128": np.ones((2, 2), dtype=complex),
    "got dtype object": np.array([[1, None], [2, 3]]),
    "not a table of numbers": [[1, 2], [3]],
}


@pytest.mark.parametrize("message", REFUSED_DATA)
def test_data_that_is_no_table_of_numbers_is_refused_with_the_reason(message):
    with pytest.raises(DataError) as caught:
        chow_liu(REFUSED_DATA[message])
    assert message in str(caught.value)


def test_a_resampled_tree_is_that_of_rows_drawn_with_replacement():
    table = np.random.default_rng(0).integers(3, size=(60, 7))
    trees = [chow_liu(table, resample=seed) for seed in range(6)]
    for seed, tree in enumerate(trees):
        drawn = [int(row) for row in np.random.default_rng(seed).integers(60, size=60)]
        assert tree == chow_liu(np.array([table[row] for row in drawn]))
    assert len({str(sorted(map(sorted, (region.scope for region in tree.regions)))) for tree in trees}) > 1
    assert chow_liu(table.tolist(), resample=3) == trees[3]


@pytest.mark.parametrize(
    "arguments",
    [{"arity": 1}, {"arity": 2.0}, {"bins": 1}, {"bins": None}, {"resample": -1}, {"resample": 1.5}],
    ids=str,
)
def test_a_bad_argument_is_refused_with_its_name(arguments):
    (name,) = arguments
    with pytest.raises(ParameterError, match=f"chow_liu: {name} must be an integer"):
        chow_liu([[0, 1], [1, 0]], **arguments)
