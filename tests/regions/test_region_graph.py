"""Laws of region graphs: what is refused, what is derived, and the JSON form."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from squircuit.errors import FormatError, StructureError
from squircuit.regions import (
    Region,
    RegionGraph,
    balanced_tree,
    chow_liu,
    linear,
    patch_splits,
    quad_tree,
    random_tree,
)


def region(variables, *partitions):
    return Region(frozenset(variables), partitions)


LEAVES = [region({0}), region({1}), region({2})]
BUILT = [
    linear(1),
    linear(9, order=[3, 1, 4, 0, 5, 8, 2, 6, 7]),
    balanced_tree(11),
    random_tree(7, seed=3, repetitions=4),
    quad_tree((5, 6)),
    patch_splits((9, 8), min_side=4),
    chow_liu(np.random.default_rng(0).integers(3, size=(50, 8))),
    chow_liu(np.random.default_rng(1).normal(size=(50, 8)), arity=None),
]


def diamond():
    """{0,1} and {1,2} overlap, the leaves are shared, and the root is split in two ways."""
    return RegionGraph(
        (*LEAVES, region({0, 1}, (0, 1)), region({1, 2}, (1, 2)), region({0, 1, 2}, (3, 2), (0, 4)))
    )


INVALID = {
    "no regions": ([], "a region graph", "there are none"),
    "a leaf of two variables": ([region({0, 1})], "fully split", "exactly one variable, this one holds 2"),
    "a leaf without variables": ([region(())], "fully split", "this one holds 0"),
    "an only child": ([region({0}), region({0}, (0,))], "fully split", "it has 1 children"),
    "a split into nothing": ([region((), ())], "fully split", "it has 0 children"),
    "children that overlap": (
        [*LEAVES, region({0, 1}, (0, 1)), region({1, 2}, (1, 2)), region({0, 1, 2}, (3, 4))],
        "decomposable",
        "share the variables {1}",
    ),
    "a child named twice": (
        [*LEAVES[:2], region({0, 1}, (0, 1, 1))],
        "decomposable",
        "share the variables {1}",
    ),
    "a variable lost": ([*LEAVES, region({0, 1, 2}, (0, 1))], "smooth", "lack the variables {2}"),
    "a variable added": ([*LEAVES, region({0, 1}, (0, 1, 2))], "smooth", "add the variables {2}"),
    "a second partition that loses a variable": (
        [*LEAVES, region({0, 1, 2}, (0, 1, 2), (0, 2))],
        "smooth",
        "lack the variables {1}",
    ),
    "a region that is its own child": ([*LEAVES[:2], region({0, 1}, (0, 2))], "acyclic", "child 2"),
    "a child listed later": ([region({0}), region({0, 1}, (0, 2)), region({1})], "acyclic", "child 2"),
    "a child that does not exist": (
        [*LEAVES[:2], region({0, 1}, (0, 5))],
        "connected",
        "there are 3 regions",
    ),
    "a negative child": ([*LEAVES[:2], region({0, 1}, (0, -2))], "connected", "child -2 does not exist"),
    "a region that nobody uses": ([*LEAVES, region({0, 1}, (0, 1))], "connected", "no other region"),
    "variables with a gap": (
        [region({0}), region({2}), region({0, 2}, (0, 1))],
        "complete",
        "must be 0 to 1",
    ),
    "a variable that is negative": ([region({-1})], "complete", "must be 0 to 0"),
}


@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_graph_is_refused_with_its_property_and_reason(name):
    regions, missing_property, reason = INVALID[name]
    with pytest.raises(StructureError) as caught:
        RegionGraph(tuple(regions))
    assert caught.value.property == missing_property
    assert reason in caught.value.reason
    assert caught.value.fix


def test_the_error_names_the_region_and_the_partition_at_fault():
    with pytest.raises(StructureError, match=r"region 3 \{0,1,2\}, partition 1"):
        RegionGraph((*LEAVES, region({0, 1, 2}, (0, 1, 2), (0, 2))))


def test_a_single_leaf_is_a_graph():
    graph = RegionGraph((region({0}),))
    assert (graph.num_variables, graph.depth, graph.leaves, graph.arity_counts()) == (1, 0, (0,), {})


def test_lists_sets_and_numpy_integers_give_the_same_graph_as_tuples():
    loose = RegionGraph([Region({np.int64(0)}), Region([1]), Region({0, 1}, [[np.int32(0), 1]])])
    assert loose == linear(2)
    assert hash(loose) == hash(linear(2))


def test_variables_that_are_not_integers_are_refused():
    with pytest.raises(TypeError):
        Region({0.5})


def test_heights_count_the_splits_on_the_longest_way_down():
    assert diamond().heights() == (0, 0, 0, 1, 1, 2)
    assert linear(4).heights() == (0, 0, 1, 0, 2, 0, 3)


def test_arities_are_counted_over_all_alternatives():
    three_way = RegionGraph((*LEAVES, region({0, 1}, (0, 1)), region({0, 1, 2}, (0, 1, 2), (3, 2))))
    assert three_way.arity_counts() == {2: 2, 3: 1}


def test_a_graph_is_structured_unless_equal_scopes_split_differently():
    assert not diamond().is_structured
    assert RegionGraph((*LEAVES, region({0, 1, 2}, (0, 1, 2), (2, 1, 0)))).is_structured
    twins = (*LEAVES, region({0, 1}, (0, 1)), region({0, 1}, (1, 0)), region({0, 1, 2}, (3, 2), (4, 2)))
    assert RegionGraph(twins).is_structured


def test_equal_scopes_that_split_differently_in_different_regions_are_not_structured():
    def split(first, pair, all_three):  # {0,1,2} as first ∪ pair, where pair is the index of a region of two
        return region(all_three, (first, pair))

    pairs = [region({0, 1}, (0, 1)), region({0, 2}, (0, 2))]
    triples = [split(2, 4, {0, 1, 2}), split(1, 5, {0, 1, 2})]
    top = region({0, 1, 2, 3}, (6, 3), (7, 3))
    assert not RegionGraph((*LEAVES, region({3}), *pairs, *triples, top)).is_structured


def test_the_summary_counts_variables_regions_and_depth():
    assert str(quad_tree((2, 2))) == repr(quad_tree((2, 2))) == "RegionGraph(4 variables, 5 regions, depth 1)"


def test_the_root_is_the_last_region():
    graph = diamond()
    assert graph.root is graph.regions[-1]


@pytest.mark.parametrize("graph", [*BUILT, diamond()], ids=str)
def test_reading_what_was_written_gives_the_same_graph(graph):
    text = graph.to_json()
    assert RegionGraph.from_json(text) == graph
    assert json.loads(text)["version"] == 1


def test_a_very_deep_graph_needs_no_recursion():
    graph = linear(1500)
    assert graph.depth == 1499
    assert RegionGraph.from_json(graph.to_json()) == graph


def document(regions, **changes):
    return json.dumps({"format": "squircuit.region_graph", "version": 1, "regions": regions} | changes)


MALFORMED = {
    "no JSON": ("{", "not JSON text"),
    "nested too deeply": ("[" * 100_000, "not JSON text"),
    "no text": (None, "not JSON text"),
    "a list": ("[]", "expected an object"),
    "another format": (document([0], format="other"), "expected an object"),
    "another version": (document([0], version=2), "version 2 is unknown"),
    "no version": ('{"format": "squircuit.region_graph"}', "version None is unknown"),
    "a version that is no number": (document([0], version=True), "version True is unknown"),
    "regions that are no list": (document({"0": 1}), '"regions" must be a list'),
    "no regions": (document([]), "there are none"),
    "a region that is a string": (document([0, "1"]), "region 1 must be"),
    "a region that is a fraction": (document([0.5]), "region 0 must be"),
    "a region that is true": (document([True]), "region 0 must be"),
    "a region without partitions": (document([0, 1, []]), "region 2 must be"),
    "a partition without children": (document([0, 1, [[]]]), "region 2 must be"),
    "a partition that is a number": (document([0, 1, [0, 1]]), "region 2 must be"),
    "a child that is a string": (document([0, 1, [[0, "1"]]]), "region 2 must be"),
    "a child out of range": (document([0, 1, [[0, 9]]]), "child 9 does not exist"),
    "a negative child": (document([0, 1, [[0, -2]]]), "child -2 does not exist"),
    "a cycle": (document([0, [[0, 2]], [[0, 1]]]), "child 2 does not come before"),
    "a dangling region": (document([0, 1, 2, [[0, 1]]]), "no other region"),
    "children that overlap": (document([0, 1, [[0, 1]], [[2, 1]]]), "share the variables {1}"),
    "alternatives of different scope": (document([0, 1, 2, [[0, 1], [1, 2]]]), "lack the variables {0}"),
    "variables with a gap": (document([0, 7, [[0, 1]]]), "must be 0 to 1"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_document_that_is_no_graph_is_refused_with_the_reason(name):
    text, reason = MALFORMED[name]
    with pytest.raises(FormatError) as caught:
        RegionGraph.from_json(text)
    assert reason in str(caught.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 4) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=12,
)


@given(json_values)
def test_any_json_is_either_a_graph_or_a_format_error(value):
    try:
        graph = RegionGraph.from_json(document(value))
    except FormatError:
        return
    assert json.loads(graph.to_json())["regions"] == value


@pytest.mark.parametrize("graph", BUILT, ids=str)
def test_every_region_of_a_built_graph_is_the_union_of_its_parts(graph):
    for number, node in enumerate(graph.regions):
        for partition in node.partitions:
            together = Counter(v for child in partition for v in graph.regions[child].scope)
            assert together == Counter(node.scope)
            assert max(partition) < number
