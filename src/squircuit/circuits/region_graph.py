"""The region graph of a circuit: how it splits its variables, without its layers' sizes."""

from __future__ import annotations

from squircuit.circuits.circuit import Circuit
from squircuit.circuits.layers import Input, Layer, Sum
from squircuit.errors import StructureError
from squircuit.regions import RegionGraph
from squircuit.regions.region_graph import Builder


def region_graph(circuit: Circuit) -> RegionGraph:
    """A leaf for every input layer, a region for every sum, a partition for every product.

    It is what :func:`squircuit.build` was given, but for the order of the regions; a product that is no input
    of a sum is a region, too.

    Example:
        >>> from squircuit.circuits import build
        >>> from squircuit.families import Categorical
        >>> from squircuit.regions import quad_tree
        >>> region_graph(build(quad_tree((28, 28)), Categorical(8), units=2))
        RegionGraph(784 variables, 1049 regions, depth 5)
        >>> quad_tree((28, 28))
        RegionGraph(784 variables, 1049 regions, depth 5)
    """
    if len(circuit.roots) > 1:
        raise StructureError(
            "one region graph", "roots", f"there are {len(circuit.roots)}", "draw the circuit"
        )
    skeleton = _Skeleton()
    for layer in circuit.layers:
        if isinstance(layer, Input):
            skeleton.region(layer)
        elif isinstance(layer, Sum):
            skeleton.add_sum(layer)
    skeleton.region(circuit.roots[0])
    return skeleton.builder.finish()


class _Skeleton:
    """The regions made so far, by layer."""

    def __init__(self) -> None:
        self.builder = Builder()
        self._regions: dict[Layer, int] = {}
        self._ways: dict[int, list[tuple[int, ...]]] = {}

    def region(self, layer: Layer) -> int:
        """The region of a layer whose inputs have one, made where it is missing."""
        if layer not in self._regions:
            if isinstance(layer, Input):
                self._regions[layer] = self.builder.leaf(layer.variable)
            else:
                self._add(layer, [self._partition(layer)])
        return self._regions[layer]

    def add_sum(self, layer: Sum) -> None:
        """A region that is split as the inputs of the sum are; of one region alone, that region."""
        known = [self._regions[item] for item in layer.inputs if item in self._regions]
        if known and len(layer.inputs) == 1:
            self._regions[layer] = known[0]
            return
        self._add(layer, [way for item in layer.inputs for way in self._ways_of(item)])

    def _ways_of(self, layer: Layer) -> list[tuple[int, ...]]:
        if isinstance(layer, Sum):
            return self._ways[self._regions[layer]]
        return [self._partition(layer)]

    def _partition(self, product: Layer) -> tuple[int, ...]:
        return tuple(self.region(item) for item in product.inputs)

    def _add(self, layer: Layer, ways: list[tuple[int, ...]]) -> None:
        region = self.builder.split(*ways)
        self._regions[layer], self._ways[region] = region, ways
