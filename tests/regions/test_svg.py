"""Laws of the drawings: well-formed, complete, without overlaps."""

from __future__ import annotations

from itertools import combinations, pairwise
from xml.etree import ElementTree

import pytest

from squircuit.errors import ParameterError
from squircuit.regions import balanced_tree, linear, patch_splits, quad_tree, random_tree
from squircuit.regions.svg import Node, draw_graph

SVG = "{http://www.w3.org/2000/svg}"
GRAPHS = [
    linear(1),
    linear(12),
    balanced_tree(9),
    quad_tree((3, 5)),
    random_tree(5, repetitions=3),
    patch_splits((4, 4), min_side=2),
]


def groups(svg, kind):
    return [group for group in ElementTree.fromstring(svg).iter(f"{SVG}g") if group.get("class") == kind]


def boxes(svg):
    """The left, top, right and bottom of every box and circle."""
    root = ElementTree.fromstring(svg)
    for shape in [r for r in root.iter(f"{SVG}rect") if r.get("class") != "card"]:
        x, y, w, h = (float(shape.get(name)) for name in ("x", "y", "width", "height"))
        yield x, y, x + w, y + h
    for shape in root.iter(f"{SVG}circle"):
        x, y, r = (float(shape.get(name)) for name in ("cx", "cy", "r"))
        yield x - r, y - r, x + r, y + r


@pytest.mark.parametrize("graph", [*GRAPHS, quad_tree((28, 28)), linear(784)], ids=str)
def test_a_drawing_has_one_box_for_each_region_one_circle_for_each_partition_and_all_edges(graph):
    svg = graph.draw()
    root = ElementTree.fromstring(svg)
    partitions = sum(graph.arity_counts().values())
    children = sum(arity * count for arity, count in graph.arity_counts().items())
    assert len(groups(svg, "leaf")) == len(graph.leaves)
    assert len(groups(svg, "region")) == len(graph.regions) - len(graph.leaves)
    assert len(groups(svg, "partition")) == len(list(root.iter(f"{SVG}circle"))) == partitions
    assert len(list(root.iter(f"{SVG}rect"))) == 1 + len(graph.regions)
    assert len(list(root.iter(f"{SVG}path"))) == partitions + children


@pytest.mark.parametrize("graph", GRAPHS, ids=str)
def test_no_two_shapes_overlap_and_all_lie_on_the_card(graph):
    svg = graph.draw()
    _, _, width, height = map(float, ElementTree.fromstring(svg).get("viewBox").split())
    shapes = list(boxes(svg))
    assert all(
        0 <= left < right <= width and 0 <= top < bottom <= height for left, top, right, bottom in shapes
    )
    for (l1, t1, r1, b1), (l2, t2, r2, b2) in combinations(shapes, 2):
        assert r1 <= l2 or r2 <= l1 or b1 <= t2 or b2 <= t1


def test_nodes_above_the_same_inputs_are_pushed_apart():
    inputs = [Node(name, "input", (), 0) for name in ("x1", "x2")]
    svg = draw_graph([*inputs, *(Node(f"sum {i}", "sum", (0, 1), 1) for i in range(4))])
    shapes = sorted(shape for shape in boxes(svg) if shape[1] < 40)
    assert len(shapes) == 4
    assert all(after[0] - before[2] >= 10 for before, after in pairwise(shapes))


def test_the_root_is_on_top_and_the_leaves_are_at_the_bottom():
    svg = quad_tree((3, 3)).draw()
    tops = {
        kind: [float(g.find(f"{SVG}rect").get("y")) for g in groups(svg, kind)] for kind in ("leaf", "region")
    }
    assert len(set(tops["leaf"])) == 1
    assert max(tops["region"]) < tops["leaf"][0]
    assert tops["region"].count(min(tops["region"])) == 1


def test_the_leaves_of_a_tree_are_ordered_so_that_siblings_are_neighbours():
    leaves = groups(quad_tree((4, 4)).draw(), "leaf")
    by_x = sorted(leaves, key=lambda g: float(g.find(f"{SVG}rect").get("x")))
    labels = [g.find(f"{SVG}text").text for g in by_x]
    assert labels == [f"{{{v}}}" for v in (0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15)]


def test_labels_are_escaped_and_the_tooltip_holds_the_full_one():
    label = "a < b & " + "c" * 100
    (group,) = groups(draw_graph([Node(label, "input", (), 0)]), "input")
    assert group.find(f"{SVG}title").text == label
    text = group.find(f"{SVG}text").text
    assert text.startswith("a < b & c")
    assert text.endswith("…")
    assert len(text) < 40


def test_the_palette_colours_its_kinds_and_others_are_grey():
    svg = draw_graph([Node("one", "mine", (), 0), Node("two", "other", (), 0)], palette={"mine": "#ff0000"})
    assert groups(svg, "mine")[0].find(f"{SVG}rect").get("stroke") == "#ff0000"
    assert groups(svg, "other")[0].find(f"{SVG}rect").get("stroke") == "#64748b"


def test_a_drawing_of_nothing_is_an_empty_card():
    assert len(list(ElementTree.fromstring(draw_graph([])).iter(f"{SVG}rect"))) == 1


def test_notebooks_show_the_drawing():
    assert linear(3)._repr_svg_() == linear(3).draw()


@pytest.mark.parametrize(
    "nodes",
    [
        [Node("up", "sum", (1,), 1), Node("x", "input", (), 0)],
        [Node("x", "input", (), 0), Node("up", "sum", (0,), 0)],
        [Node("x", "input", (-1,), 1)],
    ],
    ids=["input listed later", "input on the same level", "negative input"],
)
def test_nodes_out_of_order_are_refused(nodes):
    with pytest.raises(ParameterError, match="must come before it and on a lower level"):
        draw_graph(nodes)
