"""A walk through one tree: variables are fixed one by one, and what depends on them is renewed.

When x_v is fixed, the messages of the layers above v change and nothing else. On the way to the next variable
the environments of the layers above both are as they were; those further down are computed from them and
from the messages beside the path. So a step takes as many layers as lie between the two in the tree: two in
the mean where the order is that of the tree, O(log D) in any order if the tree is balanced.
"""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from squircuit.execution.plan import InputGroup, Key
from squircuit.inference.chain.algebra import Message, environment, masses, message
from squircuit.inference.chain.tree import Tree
from squircuit.inference.sampling.draws import InputDraws


@final
class Walk:
    """The conditionals of one tree for a batch of rows.

    Args:
        tree: of the layers.
        tables: values of input layers at the states of their variables.
        nothing: the messages of layers of which nothing is observed, see :func:`unobserved`.

    Attributes:
        computed: how many messages and environments have been computed.
    """

    def __init__(self, tree: Tree, tables: InputDraws, nothing: dict[Key, Message]) -> None:
        self.tree, self._tables = tree, tables
        self._nothing, self._messages = nothing, dict(nothing)
        snapshot = tree.snapshot
        shares = torch.split(snapshot.root_shares, list(snapshot.components))[tree.number]
        self._path: list[tuple[Key, Tensor]] = [(tree.root, shares.unsqueeze(0))]
        self.computed = 0

    def masses(self, variable: int) -> Tensor:
        """p(x_v = s | what is fixed) of every state s, up to a factor a row: (B or 1, S)."""
        wanted = self.tree.path(variable)
        known = sum(key == held for key, (held, _) in zip(wanted, self._path, strict=False))
        del self._path[known:]
        for key in wanted[known:]:
            self._descend(key)
        return masses(self._path[-1][1], self._table(wanted[-1]))

    def fix(self, variable: int, x: Tensor, shown: Tensor | None) -> None:
        """Fix the value of a variable, (B,) of states, in the rows that show it, (B,); None: in all."""
        *above, leaf = self.tree.path(variable)
        values = self._table(leaf).index_select(1, x).T
        size = values.abs().amax(dim=1, keepdim=True)
        values = values / torch.where(size > 0, size, 1.0)
        self._messages[leaf] = values if shown is None else self._with_gaps(leaf, values, shown)
        for key in above:
            self._messages.pop(key, None)

    def _with_gaps(self, leaf: Key, values: Tensor, shown: Tensor) -> Tensor:
        """Matrices, (B, K, K): in rows that lack the variable what its layer sends of nothing observed."""
        known = values.unsqueeze(2) * values.unsqueeze(1).conj()
        nothing = self._nothing[leaf]
        if nothing is None:
            nothing = torch.eye(values.shape[1], dtype=values.dtype, device=values.device).unsqueeze(0)
        return torch.where(shown[:, None, None], known, nothing)

    def _table(self, leaf: Key) -> Tensor:
        return leaf_table(self.tree, self._tables, leaf)

    def _descend(self, key: Key) -> None:
        """One layer further down the path: the environment of a factor of its last layer."""
        above, own = self._path[-1]
        node = self.tree.nodes[above]
        below = [None if factor == key else self._message(factor) for factor in node.below]
        self._path.append((key, environment(node, own, below, node.below.index(key))))
        self.computed += 1

    def _message(self, key: Key) -> Message:
        """The message of a layer, and of those below it that have changed."""
        waiting = [key]
        while key not in self._messages:
            node = self.tree.nodes[waiting[-1]]
            changed = [factor for factor in node.below if factor not in self._messages]
            if changed:
                waiting += changed
            else:
                self._renew(waiting.pop())
        return self._messages[key]

    def _renew(self, key: Key) -> None:
        node = self.tree.nodes[key]
        self._messages[key] = found = message(node, [self._messages[factor] for factor in node.below])
        self.computed += 1
        if found is not None and found.ndim == 2:  # all below is fixed, and is not asked for again
            for factor in node.below:
                self._messages[factor] = None


def unobserved(tree: Tree, tables: InputDraws) -> dict[Key, Message]:
    """The messages of all layers where nothing is observed: identities, or matrices that all rows share."""
    found: dict[Key, Message] = dict.fromkeys(tree.nodes)
    if tree.snapshot.is_normalised:
        return found
    for key, node in reversed(list(tree.nodes.items())):
        if node.kind == "input":
            table = leaf_table(tree, tables, key)
            found[key] = (table @ table.mH).unsqueeze(0)
        else:
            found[key] = message(node, [found[factor] for factor in node.below])
    return found


def leaf_table(tree: Tree, tables: InputDraws, leaf: Key) -> Tensor:
    """The values of an input layer at the states of its variable: (K, S)."""
    group, fold = tree.snapshot.schedules.layers[leaf]
    assert isinstance(group, InputGroup)
    return tables.table(group, fold)
