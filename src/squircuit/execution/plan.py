"""A plan: a circuit as few large operations, where layers of one shape at one depth are one group.

A plan is pure data. Outputs of all layers with K units live in one *pool* of shape (N_K, K, 2, B); a group
of F layers (F *folds*) writes a contiguous stretch of a pool and reads its inputs from stretches or, where
they lie scattered, by index. Weights of a group's layers are one stacked tensor (F, K1, K2), or (1, K1, K2)
where the layers are tied. :func:`squircuit.execution.make_plan` makes the plan of a circuit.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias, final

from torch import Tensor

from squircuit.circuits.summary import table
from squircuit.families import Family, InputFunctions

Slots: TypeAlias = range | tuple[int, ...]  #: places in a pool: a stretch, or scattered
Key: TypeAlias = tuple[int, int]  #: a layer: its width and its place in the pool


@final
@dataclass(frozen=True)
class Stack:
    """Parameters of one shape stacked into one tensor (S, K1, K2)."""

    name: str
    parameters: tuple[str, ...]  #: names in the circuit, in the order of the stack
    shape: tuple[int, ...]  #: of one parameter
    is_complex: bool
    constraint: str


@final
@dataclass(frozen=True)
class Use:
    """The place where a group finds its weights: a stack, and the row of it for each fold.

    ``index`` None means fold f uses entry f; an empty tuple that all folds share entry 0 (tied layers).
    """

    stack: int
    index: tuple[int, ...] | None = None

    @property
    def is_tied(self) -> bool:
        return self.index == ()

    @property
    def is_whole(self) -> bool:
        """The whole stack as it is: an entry for each fold, or one for all."""
        return self.index is None or self.is_tied


@final
@dataclass(frozen=True, eq=False)
class Branch:
    """One input of a sum, fused with its product: kind and, for each factor, its width and its places."""

    kind: str  #: "kronecker", "hadamard" or "linear" (the input itself)
    widths: tuple[int, ...]
    reads: tuple[Slots, ...]
    columns: tuple[int, int]  #: of the weight

    @property
    def units(self) -> int:
        return math.prod(self.widths) if self.kind == "kronecker" else self.widths[0]

    @property
    def factors(self) -> tuple[tuple[int, Slots], ...]:
        """Width and places of each factor."""
        return tuple(zip(self.widths, self.reads, strict=True))


@final
@dataclass(frozen=True, eq=False)
class InputGroup:
    """Input layers with one family and one place in their weights."""

    units: int
    writes: range
    blocks: tuple[
        tuple[int, ...], ...
    ]  #: the variables of each fold, in the order of the family's coordinates
    family: InputFunctions
    weight: Use | None
    first_row: int
    learnt: Mapping[str, tuple[str, ...]]  #: family parameter -> name in the circuit of each fold's

    @property
    def folds(self) -> int:
        return len(self.blocks)

    @cached_property
    def variables(self) -> tuple[int, ...]:
        """The variable of each fold; StructureError where layers are over several at once."""
        if self.family.dimension > 1:
            self.family.of_one_variable()
        return tuple(variable for (variable,) in self.blocks)

    def at(self, x: Tensor, fold: int) -> Tensor:
        """The columns of one fold, as its family takes them: rows (n, d) → (n,), or (n, D) of a block."""
        return x[:, self.blocks[fold][0] if isinstance(self.family, Family) else list(self.blocks[fold])]

    @property
    def is_block(self) -> bool:
        """The functions are those of a block family, of one variable or of several."""
        return not isinstance(self.family, Family)

    @cached_property
    def columns(self) -> tuple[int, ...]:
        """The variables of all folds, one after the other."""
        return tuple(variable for block in self.blocks for variable in block)


@final
@dataclass(frozen=True, eq=False)
class SumGroup:
    """Sum layers with inputs of the same kinds and widths."""

    units: int
    writes: range
    weight: Use
    branches: tuple[Branch, ...]

    @property
    def folds(self) -> int:
        return len(self.writes)


@final
@dataclass(frozen=True, eq=False)
class ProductGroup:
    """Product layers that something else than a sum reads."""

    units: int
    writes: range
    branch: Branch

    @property
    def folds(self) -> int:
        return len(self.writes)


Group: TypeAlias = InputGroup | SumGroup | ProductGroup


@final
@dataclass(frozen=True)
class Plan:
    """The groups in order of execution, the pools they write to, the stacks of weights they use."""

    groups: tuple[Group, ...]
    pools: Mapping[int, int]  #: width K -> number of layers N_K
    stacks: tuple[Stack, ...]
    roots: tuple[Key, ...]  #: every root layer

    @property
    def input_groups(self) -> list[InputGroup]:
        """The groups of input layers, in order."""
        return [group for group in self.groups if isinstance(group, InputGroup)]

    @property
    def branches(self) -> tuple[Branch, ...]:
        """The inputs of all sums and products."""
        return tuple(branch for group in self.groups for branch in branches_of(group))

    @property
    def has_cross_terms(self) -> bool:
        """Some sum has several inputs: their inner products count unless they are orthogonal."""
        return any(isinstance(group, SumGroup) and len(group.branches) > 1 for group in self.groups)

    @cached_property
    def numbers_a_row(self) -> int:
        """How many real numbers one row takes at least: all outputs, and the largest W (a ⊗ …) between.

        Inputs over a block of D variables subtract D locations for every unit.
        """
        outputs = sum(group.folds * group.units * _coordinates(group) for group in self.groups)
        between = (_between(group) for group in self.groups if isinstance(group, SumGroup))
        planes = 2 if any(stack.is_complex for stack in self.stacks) else 1
        return planes * (outputs + max(between, default=0))

    @cached_property
    def squares_suffice(self) -> frozenset[Key]:
        """The layers of which ∫ |ℓ_k|² of every unit is enough, and no ∫ ℓ_j ℓ_k* of two units is asked.

        Roots are such, where no layer reads them; so are the factors of a product that is such, because the
        square of a product is the product of the squares. A sum asks for all inner products of its inputs.
        """
        crossed: set[Key] = set()
        for group in reversed(self.groups):
            for fold, place in enumerate(group.writes):
                if isinstance(group, SumGroup) or (group.units, place) in crossed:
                    crossed |= {(k, slots[fold]) for b in branches_of(group) for k, slots in b.factors}
        return frozenset((g.units, place) for g in self.groups for place in g.writes) - crossed

    def __str__(self) -> str:
        rows = [
            (
                type(g).__name__.removesuffix("Group").lower(),
                str(g.folds),
                str(g.units),
                *_inputs(g),
                _weight(self, g),
            )
            for g in self.groups
        ]
        return table(("group", "folds", "units", "reads", "how", "weight"), rows, right={1, 2})


def _coordinates(group: Group) -> int:
    return group.family.dimension if isinstance(group, InputGroup) else 1


def _between(group: SumGroup) -> int:
    """The numbers of W applied to the last factor of a Kronecker product, of all folds."""
    return max(group.folds * group.units * branch.units // branch.widths[-1] for branch in group.branches)


@final
@dataclass(frozen=True, eq=False)
class Crossed:
    """The part of a plan of which inner products of units are asked, see :func:`part_with_inner_products`."""

    groups: tuple[Group, ...]  #: of the whole plan
    plan: Plan  #: of these groups alone; its roots are what the rest of the whole plan asks for
    names: tuple[Key, ...]  #: of these roots in the whole plan


def part_with_inner_products(plan: Plan) -> Crossed:
    """The groups that hold sums, or layers of which not only squares are asked, and all that they read."""
    kept: list[Group] = []
    read: set[Key] = set()
    asked: dict[Key, None] = dict.fromkeys(plan.roots)
    for group in reversed(plan.groups):
        keys = {(group.units, place) for place in group.writes}
        below = [(k, place) for b in branches_of(group) for k, slots in b.factors for place in slots]
        if isinstance(group, SumGroup) or keys & read or not keys <= plan.squares_suffice:
            kept.append(group)
            read.update(below)
        else:
            asked.update(dict.fromkeys(below))
    if len(kept) == len(plan.groups):
        return Crossed(plan.groups, plan, plan.roots)
    kept.reverse()
    moved, pools = _packed(kept)
    names = tuple(key for key in asked if key in moved)
    roots = tuple((width, moved[width, place]) for width, place in names)
    return Crossed(tuple(kept), Plan(tuple(_moved(g, moved) for g in kept), pools, plan.stacks, roots), names)


def _packed(groups: Sequence[Group]) -> tuple[dict[Key, int], dict[int, int]]:
    """New places of the layers of some groups, one after the other, and the sizes of their pools."""
    moved: dict[Key, int] = {}
    pools: dict[int, int] = defaultdict(int)
    for group in groups:
        for place in group.writes:
            moved[group.units, place] = pools[group.units]
            pools[group.units] += 1
    return moved, dict(pools)


def _moved(group: Group, moved: Mapping[Key, int]) -> Group:
    """A group whose layers, and those that it reads, have other places in their pools."""

    def places(width: int, slots: Slots) -> Slots:
        return slots_of([moved[width, place] for place in slots])

    def branch(item: Branch) -> Branch:
        return replace(item, reads=tuple(places(k, slots) for k, slots in item.factors))

    start = moved[group.units, group.writes.start]
    writes = range(start, start + len(group.writes))
    if isinstance(group, SumGroup):
        return replace(group, writes=writes, branches=tuple(branch(item) for item in group.branches))
    if isinstance(group, ProductGroup):
        return replace(group, writes=writes, branch=branch(group.branch))
    return replace(group, writes=writes)


def slots_of(places: list[int]) -> Slots:
    """Places in a pool: a stretch where they are one.

    Example:
        >>> slots_of([2, 3, 4]), slots_of([2, 4])
        (range(2, 5), (2, 4))
    """
    stretch = range(places[0], places[0] + len(places))
    return stretch if list(stretch) == places else tuple(places)


def branches_of(group: Group) -> tuple[Branch, ...]:
    """The inputs of the sums or the products of a group; none of input layers."""
    if isinstance(group, InputGroup):
        return ()
    return group.branches if isinstance(group, SumGroup) else (group.branch,)


def _inputs(group: Group) -> tuple[str, str]:
    if isinstance(group, InputGroup):
        return type(group.family).__name__, f"rows {group.first_row} to {group.first_row + group.units - 1}"
    branches = branches_of(group)
    reads = " + ".join(f"{b.kind} " + "×".join(map(str, b.widths)) for b in branches)
    scattered = any(not isinstance(slots, range) for b in branches for slots in b.reads)
    return reads, "by index" if scattered else "in place"


def _weight(plan: Plan, group: Group) -> str:
    use = None if isinstance(group, ProductGroup) else group.weight
    if use is None:
        return ""
    stack = plan.stacks[use.stack]
    tied = " tied" if use.is_tied else ""
    return f"{stack.name} {len(stack.parameters)}×{'×'.join(map(str, stack.shape))}{tied}"
