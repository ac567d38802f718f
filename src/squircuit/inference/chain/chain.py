"""The conditionals p(x_i | x_<i) of a model, one variable after the other, for a batch of rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import final

import torch
from torch import Tensor

from squircuit.execution.precision import tf32
from squircuit.inference.chain.tree import Tree, has_trees
from squircuit.inference.chain.walk import Walk, unobserved
from squircuit.inference.compile.compiled_circuit import Snapshot
from squircuit.inference.evidence import Evidence
from squircuit.inference.likelihood import log_integrals
from squircuit.inference.marginals import marginals
from squircuit.inference.sampling.draws import InputDraws


@final
class Chain:
    """What the conditionals of a discrete model need, whatever the rows.

    A circuit whose sums have one input each is a tree, and a conditional takes O(log D) layers. In any other
    the tables of all variables are computed for each conditional, which takes O(D).

    Args:
        snapshot: of the model.

    Attributes:
        is_tree: every part of the mixture is a tree.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot.detached()
        self.is_tree = has_trees(snapshot)
        self._tables = InputDraws(self.snapshot)

    @property
    def parts(self) -> int:
        """How many circuits are mixed."""
        return len(self.snapshot.components)

    @cached_property
    def trees(self) -> list[Tree]:
        """That of each of them."""
        return [Tree(self.snapshot, number) for number in range(self.parts)]

    @cached_property
    @tf32(False)
    def log_shares(self) -> Tensor:
        """log p(m) of each of them: (M,) float64."""
        return torch.log_softmax(log_integrals(self.snapshot.doubled()).double(), dim=0)

    def order(self, parts: Sequence[int]) -> tuple[int, ...]:
        """The variables in the order of the tree of the first of some parts."""
        return self.trees[parts[0]].order if self.is_tree else tuple(sorted(self.snapshot.circuit.scope))

    def start(self, parts: Sequence[int], rows: int) -> Conditionals | Swept:
        """The conditionals of a batch of rows under some of the circuits that are mixed."""
        return Conditionals(self, parts) if self.is_tree else Swept(self, rows)

    @cached_property
    def _nothing(self) -> list[dict[tuple[int, int], Tensor | None]]:
        return [unobserved(tree, self._tables) for tree in self.trees]

    def walk(self, part: int) -> Walk:
        """A walk through the tree of one of them."""
        return Walk(self.trees[part], self._tables, self._nothing[part])


@final
class Conditionals:
    """Σ_m p(m | x_<i) p_m(x_i | x_<i), each tree being walked by itself.

    Args:
        chain: of the model.
        parts: the circuits that are mixed.
    """

    def __init__(self, chain: Chain, parts: Sequence[int]) -> None:
        self._walks = [chain.walk(part) for part in parts]
        self._shares = torch.softmax(chain.log_shares[list(parts)], dim=0).unsqueeze(0)  # (B or 1, M)
        self._tables: list[Tensor] = []

    @property
    def computed(self) -> int:
        """How many messages and environments have been computed."""
        return sum(walk.computed for walk in self._walks)

    @tf32(False)
    @torch.no_grad()
    def probabilities(self, variable: int) -> Tensor:
        """p(x_v | what is fixed) of every state: (B or 1, S) float64; all equal where that is impossible."""
        self._tables = [_normalised(walk.masses(variable).double()) for walk in self._walks]
        mixed = torch.stack([s * t for s, t in zip(self._shares.T.unsqueeze(2), self._tables, strict=True)])
        total = mixed.sum(dim=0)
        possible = total.sum(dim=1, keepdim=True) > 0  # of NaN, too, this is false
        return torch.where(possible, total, 1.0)

    @tf32(False)
    @torch.no_grad()
    def fix(self, variable: int, x: Tensor, shown: Tensor | None = None) -> None:
        """Fix a variable, the one whose probabilities were asked for last.

        Args:
            variable: its number.
            x: (B,) of states.
            shown: (B,), the rows that show it; the others lack it for good. None: all do.
        """
        if len(self._walks) > 1:
            seen = [t.expand(len(x), -1).gather(1, x.unsqueeze(1)) for t in self._tables]
            shares = _normalised(self._shares * torch.cat(seen, dim=1))
            self._shares = shares if shown is None else torch.where(shown.unsqueeze(1), shares, self._shares)
        for walk in self._walks:
            walk.fix(variable, x, shown)


@final
class Swept:
    """The same of a circuit that is no tree, by tables of all variables for each conditional.

    Args:
        chain: of the model.
        rows: of the batch.
    """

    def __init__(self, chain: Chain, rows: int) -> None:
        self._snapshot = chain.snapshot
        d = self._snapshot.circuit.num_variables
        self._x = torch.zeros(rows, d, dtype=torch.int64, device=self._snapshot.device)
        self._missing = torch.ones_like(self._x, dtype=torch.bool)

    def probabilities(self, variable: int) -> Tensor:
        """p(x_v | what is fixed) of every state: (B, S) float64."""
        found = marginals(self._snapshot, Evidence(self._x, self._missing))
        return found.values[variable].double()

    def fix(self, variable: int, x: Tensor, shown: Tensor | None = None) -> None:
        """Fix the value of a variable, (B,) of states, in the rows that show it, (B,); None: in all."""
        self._x[:, variable] = x
        self._missing[:, variable] = False if shown is None else ~shown


def _normalised(masses: Tensor) -> Tensor:
    total = masses.sum(dim=1, keepdim=True)
    return torch.where(total > 0, masses / total, 0.0)
