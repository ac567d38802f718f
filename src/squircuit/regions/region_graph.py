"""Region graphs: a hierarchy of scopes and the ways in which each is split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from squircuit.errors import FormatError, StructureError
from squircuit.regions._checks import check_graph, check_order, read_document, write_document
from squircuit.regions.scope import Region, Scope, describe
from squircuit.regions.svg import Node, draw_graph

__all__ = ["Builder", "Region", "RegionGraph"]


@dataclass(frozen=True, repr=False)
class RegionGraph:
    """A hierarchical partitioning of the variables: the skeleton of a circuit.

    Every region with several variables says how it is split into disjoint regions, perhaps in
    several alternative ways. A circuit built on a region graph has a product for every partition,
    and is smooth and decomposable because the graph is checked here. See the appendix "Image
    Distribution Estimation", "Building structured-decomposable circuit architectures", of the paper.

    Args:
        regions: children before parents; the last one is the root. Leaves hold one variable each,
            and the root holds the variables 0, …, d-1.

    Raises:
        StructureError: with the region at fault, the reason and a fix.

    Example:
        >>> first, second = Region(frozenset({0})), Region(frozenset({1}))
        >>> RegionGraph((first, second, Region(frozenset({0, 1}), ((0, 1),))))
        RegionGraph(2 variables, 3 regions, depth 1)
    """

    regions: tuple[Region, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "regions", tuple(self.regions))
        check_graph(self.regions)

    def __repr__(self) -> str:
        return f"RegionGraph({self.num_variables} variables, {len(self.regions)} regions, depth {self.depth})"

    @property
    def root(self) -> Region:
        """The region of all variables, the last one."""
        return self.regions[-1]

    @property
    def num_variables(self) -> int:
        """The number of variables, d."""
        return len(self.root.scope)

    @property
    def leaves(self) -> tuple[int, ...]:
        """The indices of the leaf regions, one variable each; a variable may have several."""
        return tuple(number for number, region in enumerate(self.regions) if region.is_leaf)

    @property
    def depth(self) -> int:
        """The height of the root: the number of splits on the longest way down."""
        return self.heights()[-1]

    def heights(self) -> tuple[int, ...]:
        """The height of each region: 0 for leaves, otherwise one more than its highest child."""
        heights: list[int] = []
        for region in self.regions:  # children come first, so no recursion is needed
            heights.append(1 + max((heights[child] for child in region.children()), default=-1))
        return tuple(heights)

    def arity_counts(self) -> dict[int, int]:
        """How many partitions split a region into two, three, … parts, by arity.

        Example:
            >>> from squircuit.regions import quad_tree
            >>> quad_tree((28, 28)).arity_counts()
            {2: 6, 4: 259}
        """
        arities = Counter(len(partition) for region in self.regions for partition in region.partitions)
        return dict(sorted(arities.items()))

    @property
    def is_structured(self) -> bool:
        """Whether regions of equal scope all split the same way.

        Circuits on such a graph are structured-decomposable, whatever their layers.
        """
        ways: dict[Scope, frozenset[Scope]] = {}
        for region in self.regions:
            for partition in region.partitions:
                way = frozenset(self.regions[child].scope for child in partition)
                if ways.setdefault(region.scope, way) != way:
                    return False
        return True

    def to_json(self) -> str:
        """Write the graph as JSON text: the variable of each leaf, the partitions of each other region.

        Example:
            >>> from squircuit.regions import linear
            >>> linear(2).to_json()
            '{"format": "squircuit.region_graph", "version": 1, "regions": [0, 1, [[0, 1]]]}'
        """
        return write_document(
            min(region.scope) if region.is_leaf else region.partitions for region in self.regions
        )

    @classmethod
    def from_json(cls, text: str) -> RegionGraph:
        """Read a graph from the text that `to_json` wrote.

        Raises:
            FormatError: if the text is not such a document, or not of a valid graph.

        Example:
            >>> from squircuit.regions import linear
            >>> RegionGraph.from_json(linear(5).to_json()) == linear(5)
            True
        """
        entries = read_document(text)
        try:
            return _assemble(entries)
        except StructureError as error:
            raise FormatError(f"region graph: {error}") from error

    def draw(self, names: Sequence[str] | None = None) -> str:
        """Draw the graph as SVG text: a box for each region, a small × for each partition.

        Args:
            names: of the variables, which leaves get, such as ``model.schema.names``.

        Example:
            >>> from squircuit.regions import linear
            >>> linear(3).draw()[:4]
            '<svg'
        """
        return draw_graph(_drawing_nodes(self, names))

    def _repr_svg_(self) -> str:  # notebooks show the drawing
        return self.draw()


class Builder:
    """Collects regions from the leaves up; the builders of this folder are written with it.

    Example:
        >>> builder = Builder()
        >>> root = builder.split([builder.leaf(0), builder.leaf(1)])
        >>> builder.finish()
        RegionGraph(2 variables, 3 regions, depth 1)
    """

    def __init__(self) -> None:
        self._regions: list[Region] = []

    def leaf(self, variable: int) -> int:
        """Add a leaf for one variable, and return its index."""
        return self._add(Region(frozenset({variable})))

    def split(self, *partitions: Sequence[int]) -> int:
        """Add a region that is split into regions added before, in one or several ways."""
        scope = frozenset[int]().union(*(self._regions[child].scope for child in partitions[0]))
        return self._add(Region(scope, tuple(tuple(children) for children in partitions)))

    def size(self, region: int) -> int:
        """The number of variables of a region added before."""
        return len(self._regions[region].scope)

    def finish(self) -> RegionGraph:
        """The graph, whose root is the region that was added last."""
        return RegionGraph(tuple(self._regions))

    def _add(self, region: Region) -> int:
        self._regions.append(region)
        return len(self._regions) - 1


def _assemble(entries: Sequence[int | Sequence[Sequence[int]]]) -> RegionGraph:
    """The graph of a JSON document: scopes are not stored, they follow from the leaves."""
    builder = Builder()
    for number, entry in enumerate(entries):
        if isinstance(entry, int):
            builder.leaf(entry)
        else:
            check_order(f"region {number}", number, (c for part in entry for c in part), len(entries))
            builder.split(*entry)
    return builder.finish()


def _drawing_nodes(graph: RegionGraph, names: Sequence[str] | None = None) -> list[Node]:
    """A node for each region and one for each of its partitions, half a level below it."""
    nodes: list[Node] = []
    position: list[int] = []  # of each region among the nodes
    for region, height in zip(graph.regions, graph.heights(), strict=True):
        first = len(nodes)
        for partition in region.partitions:
            inputs = tuple(position[child] for child in partition)
            nodes.append(Node("×", "partition", inputs, level=2 * height - 1))
        kind = "leaf" if region.is_leaf else "region"
        position.append(len(nodes))
        label = names[min(region.scope)] if names and region.is_leaf else _box_label(region.scope)
        nodes.append(Node(label, kind, tuple(range(first, len(nodes))), 2 * height))
    return nodes


def _box_label(scope: Scope) -> str:
    """The description of a scope, its remark on a second line to keep boxes narrow."""
    return describe(scope).replace(" (", "\n").rstrip(")")
