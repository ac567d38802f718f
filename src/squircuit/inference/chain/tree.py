"""The layers below one root as a tree, and the order in which a walk through it meets the variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import final

from torch import Tensor

from squircuit.execution.plan import Branch, InputGroup, Key, SumGroup, branches_of
from squircuit.inference.compile.compiled_circuit import Snapshot
from squircuit.inference.upward.input_layers import layer_weight
from squircuit.regions.scope import Scope


@final
@dataclass(frozen=True, eq=False)
class Node:
    """One layer of the tree.

    Args:
        key: of the layer.
        above: the layer that reads it; None of the root.
        kind: "input", or how the factors are joined: "kronecker", "hadamard", "linear".
        below: the factors.
        weight: of a sum, (K, columns); None of products and inputs.
    """

    key: Key
    above: Key | None
    kind: str
    below: tuple[Key, ...] = ()
    weight: Tensor | None = None

    @property
    def widths(self) -> list[int]:
        """Units of each factor."""
        return [width for width, _ in self.below]


@final
class Tree:
    """The layers below a root, none of which is a sum of several inputs or an input over a block.

    Args:
        snapshot: of the model.
        number: of the root layer.

    Attributes:
        nodes: every layer, each after the one that reads it.
        leaf: variable → its input layer.
        order: the variables as a walk that finishes one factor before the next meets them.
    """

    nodes: Mapping[Key, Node]

    def __init__(self, snapshot: Snapshot, number: int) -> None:
        self.snapshot, self.number = snapshot, number
        self.root = snapshot.plan.roots[number]
        self.nodes, self.leaf = {}, {}
        waiting: list[tuple[Key, Key | None]] = [(self.root, None)]
        while waiting:
            key, above = waiting.pop()
            self.nodes[key] = node = self._node(key, above)
            waiting += [(factor, key) for factor in reversed(node.below)]
            if node.kind == "input":
                self.leaf[self._variable(key)] = key
        self.order = tuple(self.leaf)

    @cached_property
    def scopes(self) -> frozenset[Scope]:
        """The sets of variables that the tree keeps together."""
        known = self.snapshot.schedules.scopes
        return frozenset(known[key] for key in self.nodes)

    def path(self, variable: int) -> list[Key]:
        """The layers from the root to the input layer of a variable."""
        found, key = [], self.leaf.get(variable)
        while key is not None:
            found.append(key)
            key = self.nodes[key].above
        return found[::-1]

    def _node(self, key: Key, above: Key | None) -> Node:
        group, fold = self.snapshot.schedules.layers[key]
        if isinstance(group, InputGroup):
            return Node(key, above, "input")
        (branch,) = branches_of(group)
        weight = layer_weight(self.snapshot, group.weight, fold) if isinstance(group, SumGroup) else None
        return Node(key, above, branch.kind, _factors(branch, fold), weight)

    def _variable(self, key: Key) -> int:
        group, fold = self.snapshot.schedules.layers[key]
        assert isinstance(group, InputGroup)
        return group.variables[fold]


def has_trees(snapshot: Snapshot) -> bool:
    """Whether the layers below every root are such a tree."""
    groups = snapshot.plan.groups
    is_tree = all(len(branches_of(group)) <= 1 for group in groups)
    return is_tree and not any(group.is_block for group in snapshot.plan.input_groups)


def _factors(branch: Branch, fold: int) -> tuple[Key, ...]:
    return tuple((width, slots[fold]) for width, slots in branch.factors)
