"""Laws of the builders that need no data: what they split, how deep, and what they refuse."""

from __future__ import annotations

from collections import Counter
from math import ceil, log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from squircuit.errors import ParameterError
from squircuit.regions import balanced_tree, linear, patch_splits, quad_tree, random_tree

sides = st.integers(1, 9)
sizes = st.integers(1, 40)


def leaves_per_variable(graph):
    return Counter(variable for leaf in graph.leaves for variable in graph.regions[leaf].scope)


def uses(graph):
    """How often each region is a child."""
    return Counter(child for region in graph.regions for child in region.children())


def rectangle(scope, width):
    """The rows and columns that a set of pixels spans."""
    rows, columns = {v // width for v in scope}, {v % width for v in scope}
    assert len(scope) == len(rows) * len(columns), "not a rectangle"
    assert max(rows) - min(rows) + 1 == len(rows)
    assert max(columns) - min(columns) + 1 == len(columns)
    return min(rows), min(columns), len(rows), len(columns)


def assert_is_a_tree_with_one_leaf_each(graph, d):
    assert leaves_per_variable(graph) == Counter(range(d))
    assert all(count == 1 for count in uses(graph).values())
    assert all(len(region.partitions) <= 1 for region in graph.regions)
    assert graph.is_structured


def test_the_quad_tree_of_28_by_28_has_259_four_way_and_6_two_way_regions():
    graph = quad_tree((28, 28))
    assert graph.arity_counts() == {2: 6, 4: 259}
    assert (graph.num_variables, len(graph.regions), graph.depth) == (784, 784 + 259 + 6, 5)
    assert len(graph.root.partitions[0]) == 4


def test_the_quad_tree_of_28_by_28_passes_one_region_through_two_levels():
    """The corner block of the 7×7 level is a child two levels above itself."""
    graph = quad_tree((28, 28))
    heights = graph.heights()
    jumps = [
        (heights[number], heights[child])
        for number, region in enumerate(graph.regions)
        for child in region.children()
        if heights[number] - heights[child] > 1
    ]
    assert jumps == [(4, 2)]


def test_the_quad_tree_of_32_by_32_has_341_four_way_regions():
    assert quad_tree((32, 32)).arity_counts() == {4: 341}


@given(sides, sides)
def test_a_quad_tree_of_any_shape_is_a_tree_of_rectangles(height, width):
    graph = quad_tree((height, width))
    assert_is_a_tree_with_one_leaf_each(graph, height * width)
    assert graph.depth == ceil(log2(max(height, width)))
    for region in graph.regions:
        rectangle(region.scope, width)


@given(sides, sides)
def test_the_parts_of_a_quad_tree_block_are_in_row_by_row_order(height, width):
    graph = quad_tree((height, width))
    for region in graph.regions:
        for partition in region.partitions:
            corners = [rectangle(graph.regions[child].scope, width)[:2] for child in partition]
            assert corners == sorted(corners)


@given(sides, sides)
def test_a_quad_tree_in_halves_has_the_regions_of_one_in_quarters_and_halves_of_them(height, width):
    graph = quad_tree((height, width), parts=2)
    assert_is_a_tree_with_one_leaf_each(graph, height * width)
    assert set(graph.arity_counts()) <= {2}
    whole, halved = (
        {region.scope for region in each.regions} for each in (quad_tree((height, width)), graph)
    )
    assert whole <= halved
    for region in graph.regions:
        rectangle(region.scope, width)
        for partition in region.partitions:
            corners = [rectangle(graph.regions[child].scope, width)[:2] for child in partition]
            assert corners == sorted(corners)


orders = st.text("hv", min_size=2, max_size=6).filter(lambda order: len(set(order)) == 2)
shifts = st.integers(0, 40)


@given(sides, sides, orders, shifts)
def test_halves_of_any_order_and_shift_are_a_tree_of_rectangles(height, width, order, shift):
    graph = quad_tree((height, width), parts=2, order=f"{order}+{shift}")
    assert_is_a_tree_with_one_leaf_each(graph, height * width)
    for region in graph.regions:
        rectangle(region.scope, width)


@given(sides, sides, orders)
def test_halves_of_the_order_with_letters_exchanged_are_those_of_the_transposed_image(height, width, order):
    exchanged = order.translate(str.maketrans("hv", "vh"))
    transposed = quad_tree((width, height), parts=2, order=exchanged)
    scopes = {region.scope for region in quad_tree((height, width), parts=2, order=order).regions}
    assert scopes == {
        frozenset(v % height * width + v // height for v in region.scope) for region in transposed.regions
    }


@given(sides, sides, orders, shifts)
def test_a_shifted_tree_is_what_is_left_of_the_tree_of_an_image_with_a_margin(height, width, order, shift):
    full = width + shift
    inside = {
        frozenset(
            (v // full - shift) * width + v % full - shift for v in region.scope if _is_inside(v, full, shift)
        )
        for region in quad_tree((height + shift, full), parts=2, order=order).regions
    }
    found = {region.scope for region in quad_tree((height, width), parts=2, order=f"{order}+{shift}").regions}
    assert found == inside - {frozenset()}


def _is_inside(variable, width, margin):
    return variable // width >= margin and variable % width >= margin


def test_the_letters_of_an_order_say_how_blocks_grow_from_the_pixels_up():
    graph = quad_tree((8, 8), parts=2, order="vvhvhh")
    sizes = {rectangle(region.scope, 8)[2:] for region in graph.regions}
    assert sizes == {(1, 1), (2, 1), (4, 1), (4, 2), (8, 2), (8, 4), (8, 8)}


def test_a_quad_tree_in_halves_joins_channels_one_after_the_other():
    assert quad_tree((1, 2, 3), parts=2).arity_counts() == {2: 5}


def test_patch_splits_of_28_by_28_have_six_leaves_for_each_pixel():
    graph = patch_splits((28, 28))
    assert leaves_per_variable(graph) == dict.fromkeys(range(784), 6)
    assert not graph.is_structured


@given(sides, sides, st.integers(2, 5))
def test_patch_splits_share_no_region(height, width, min_side):
    counts = uses(patch_splits((height, width), min_side))
    assert all(count == 1 for count in counts.values())


def ways_to_reach_a_pixel(height, width, min_side):
    """The number of ways to cut a patch down to small ones, counted on sides that are powers of two."""
    if min(height, width) < min_side:
        return 1
    return ways_to_reach_a_pixel(height // 2, width, min_side) + ways_to_reach_a_pixel(
        height, width // 2, min_side
    )


@given(st.integers(0, 3), st.integers(0, 3), st.integers(2, 5))
def test_each_way_to_cut_down_to_a_small_patch_has_a_leaf_of_its_own(a, b, min_side):
    graph = patch_splits((2**a, 2**b), min_side)
    expected = ways_to_reach_a_pixel(2**a, 2**b, min_side)
    assert leaves_per_variable(graph) == dict.fromkeys(range(2 ** (a + b)), expected)


@given(sides, sides, st.integers(2, 5))
def test_only_large_patches_are_cut_both_across_and_along(height, width, min_side):
    graph = patch_splits((height, width), min_side)
    for region in graph.regions:
        _, _, rows, columns = rectangle(region.scope, width)
        if min(rows, columns) < min_side:
            assert len(region.partitions) <= 1
            continue
        parts = [[rectangle(graph.regions[c].scope, width)[2:] for c in p] for p in region.partitions]
        across = [(ceil(rows / 2), columns), (rows // 2, columns)]
        along = [(rows, ceil(columns / 2)), (rows, columns // 2)]
        assert parts == [across, along]


def test_a_small_image_is_a_quad_tree_under_patch_splits():
    assert patch_splits((7, 28)) == quad_tree((7, 28))


@given(sizes)
def test_the_linear_graph_adds_one_variable_at_a_time(d):
    graph = linear(d)
    assert_is_a_tree_with_one_leaf_each(graph, d)
    assert {region.scope for region in graph.regions if len(region.scope) > 1} == {
        frozenset(range(length)) for length in range(2, d + 1)
    }


@given(st.permutations(range(6)))
def test_the_linear_graph_follows_the_given_order(order):
    inner = [region.scope for region in linear(6, order).regions if not region.is_leaf]
    assert inner == [frozenset(order[:length]) for length in range(2, 7)]


def test_the_order_may_be_a_numpy_array():
    assert linear(3, order=np.array([2, 0, 1])) == linear(3, order=[2, 0, 1])


@given(sizes)
def test_the_balanced_tree_is_as_low_as_a_binary_tree_can_be(d):
    graph = balanced_tree(d)
    assert_is_a_tree_with_one_leaf_each(graph, d)
    assert graph.depth == ceil(log2(d))
    for region in graph.regions:
        assert sorted(region.scope) == list(range(min(region.scope), max(region.scope) + 1))


@given(sizes, st.integers(0, 2**40))
def test_one_random_tree_is_a_balanced_binary_tree(d, seed):
    graph = random_tree(d, seed)
    assert_is_a_tree_with_one_leaf_each(graph, d)
    assert graph.depth == ceil(log2(d))


@given(st.integers(2, 12), st.integers(1, 5))
def test_repetitions_are_alternatives_of_the_root_that_share_nothing(d, repetitions):
    graph = random_tree(d, repetitions=repetitions)
    assert len(graph.root.partitions) == repetitions
    assert all(len(region.partitions) <= 1 for region in graph.regions[:-1])
    assert all(count == 1 for count in uses(graph).values())
    assert leaves_per_variable(graph) == dict.fromkeys(range(d), repetitions)


def test_a_random_tree_depends_on_its_seed_alone():
    assert random_tree(20, seed=5, repetitions=2) == random_tree(20, seed=5, repetitions=2)
    assert random_tree(20, seed=5) != random_tree(20, seed=6)


def test_repetitions_differ_from_each_other():
    graph = random_tree(20, repetitions=2)
    first, second = ({graph.regions[c].scope for c in partition} for partition in graph.root.partitions)
    assert first != second
    assert not graph.is_structured


REFUSED = {
    "quad_tree: shape must be two positive integers, got (0, 3)": lambda: quad_tree((0, 3)),
    "quad_tree: parts must be 2 or 4, got 3": lambda: quad_tree((4, 4), parts=3),
    "quad_tree: order must be a text of both letters h and v, got 'vv'": lambda: quad_tree(
        (4, 4), 2, order="vv"
    ),
    "quad_tree: order must be a text of both letters h and v, got 'hx'": lambda: quad_tree(
        (4, 4), 2, order="hx"
    ),
    "quad_tree: order must be a text of both letters h and v, got None": lambda: quad_tree(
        (4, 4), 2, order=None
    ),
    "quad_tree: order must be a text of both letters h and v, got 'vh+x'": lambda: quad_tree(
        (4, 4), 2, order="vh+x"
    ),
    "quad_tree: order must be a text of both letters h and v, got 'vh+'": lambda: quad_tree(
        (4, 4), 2, order="vh+"
    ),
    "quad_tree: order='hv+1' is that of halves. Fix: pass parts=2": lambda: quad_tree((4, 4), order="hv+1"),
    "quad_tree: order='vh' is that of halves. Fix: pass parts=2": lambda: quad_tree((4, 4), order="vh"),
    "quad_tree: shape must be two positive integers, got (3,)": lambda: quad_tree((3,)),
    "quad_tree: shape must be two positive integers, got (2.0, 2)": lambda: quad_tree((2.0, 2)),
    "quad_tree: shape must be two positive integers, got 28": lambda: quad_tree(28),
    "quad_tree: shape must be two positive integers, got '28'": lambda: quad_tree("28"),
    "patch_splits: shape must be two positive integers, got (3, -1)": lambda: patch_splits((3, -1)),
    "patch_splits: min_side must be an integer of at least 2, got 1": lambda: patch_splits(
        (4, 4), min_side=1
    ),
    "linear: d must be an integer of at least 1, got 0": lambda: linear(0),
    "linear: d must be an integer of at least 1, got True": lambda: linear(True),
    "linear: order must be a permutation of 0, …, 2, got [0, 1]": lambda: linear(3, order=[0, 1]),
    "linear: order must be a permutation of 0, …, 1, got [1, 1]": lambda: linear(2, order=[1, 1]),
    "linear: order must be a permutation of 0, …, 1, got [0.0, 1.0]": lambda: linear(2, order=[0.0, 1.0]),
    "balanced_tree: d must be an integer of at least 1, got -1": lambda: balanced_tree(-1),
    "balanced_tree: d must be an integer of at least 1, got '3'": lambda: balanced_tree("3"),
    "random_tree: d must be an integer of at least 1, got None": lambda: random_tree(None),
    "random_tree: seed must be an integer of at least 0, got -1": lambda: random_tree(3, seed=-1),
    "random_tree: repetitions must be an integer of at least 1, got 0": lambda: random_tree(3, repetitions=0),
    "random_tree: one variable cannot be split": lambda: random_tree(1, repetitions=2),
}


@pytest.mark.parametrize("message", REFUSED)
def test_a_bad_argument_is_refused_with_its_name_and_value(message):
    with pytest.raises(ParameterError) as caught:
        REFUSED[message]()
    assert str(caught.value).startswith(message)


@given(sides, sides, st.integers(1, 4))
def test_a_quad_tree_with_channels_is_one_of_pixels_whose_channels_are_joined(height, width, channels):
    flat, graph = quad_tree((height, width)), quad_tree((height, width, channels))
    assert_is_a_tree_with_one_leaf_each(graph, height * width * channels)
    pixels = {frozenset(channels * v + c for v in r.scope for c in range(channels)) for r in flat.regions}
    assert {region.scope for region in graph.regions if len(region.scope) >= channels} == pixels


@pytest.mark.parametrize(("order", "pixels"), [("cvh", 1), ("vch", 2), ("vhcvh", 4), ("vhvhc", 16)])
@pytest.mark.parametrize("channels", [2, 3])
def test_channels_are_planes_of_one_tree_up_to_the_block_where_they_are_joined(order, pixels, channels):
    flat, graph = quad_tree((4, 4), 2, order.replace("c", "")), quad_tree((4, 4, channels), 2, order)
    assert_is_a_tree_with_one_leaf_each(graph, 16 * channels)
    blocks = {region.scope for region in flat.regions}
    planes, whole = set(), set()
    for scope in (region.scope for region in graph.regions):
        found = {v % channels for v in scope}
        place = frozenset(v // channels for v in scope)
        assert len(scope) == len(found) * len(place)
        if len(found) == 1:
            planes.add((place, *found))
        elif len(found) == channels:
            whole.add(place)
    assert planes == {(block, c) for block in blocks if len(block) <= pixels for c in range(channels)}
    assert whole == {block for block in blocks if len(block) >= pixels}


def test_an_order_joins_channels_once_at_most():
    with pytest.raises(ParameterError, match="joins channels, once"):
        quad_tree((4, 4, 3), 2, "vchc")


@pytest.mark.parametrize("shape", [(3, 32, 32), (2, 2, 0), (2, 2, 1.0)])
def test_a_third_side_is_a_small_number_of_channels(shape):
    with pytest.raises(ParameterError, match="that of the channels, from 1 to 4"):
        quad_tree(shape)
