"""From a circuit to a plan of few large operations: layers of one shape at one depth are one group.

A plan is pure data. Outputs of all layers with K units live in one *pool* of shape (N_K, K, 2, B); a group
of F layers (F *folds*) writes a contiguous stretch of a pool and reads its inputs from stretches or, where
they lie scattered, by index. Folds are ordered by who reads them, so that in a tree every read is a stretch.
Weights of a group's layers are one stacked tensor (F, K1, K2), or (1, K1, K2) where the layers are tied.
A sum over the bare functions of one variable, W φ(x), is planned as what it is: an input layer with a weight.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias, final

from torch import Tensor

from squircuit.circuits import Circuit, Input, Layer, Parameter, Sum
from squircuit.circuits.layers import factors, is_product
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
        return _slots([moved[width, place] for place in slots])

    def branch(item: Branch) -> Branch:
        return replace(item, reads=tuple(places(k, slots) for k, slots in item.factors))

    start = moved[group.units, group.writes.start]
    writes = range(start, start + len(group.writes))
    if isinstance(group, SumGroup):
        return replace(group, writes=writes, branches=tuple(branch(item) for item in group.branches))
    if isinstance(group, ProductGroup):
        return replace(group, writes=writes, branch=branch(group.branch))
    return replace(group, writes=writes)


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


def make_plan(circuit: Circuit) -> Plan:
    """Group the layers of a circuit and lay them out.

    >>> from squircuit.circuits import build
    >>> from squircuit.families import Categorical
    >>> from squircuit.regions import quad_tree
    >>> print(make_plan(build(quad_tree((4, 4)), Categorical(256), units=4)))
    group | folds | units | reads             | how         | weight
    ------+-------+-------+-------------------+-------------+----------------
    input |    16 |     4 | Categorical       | rows 0 to 3 | input0 16×4×256
    sum   |     4 |     4 | kronecker 4×4×4×4 | in place    | sum1 4×4×256
    sum   |     1 |     1 | kronecker 4×4×4×4 | in place    | sum2 1×1×256
    """
    return _Planner(circuit).plan()


@dataclass
class _Planner:
    circuit: Circuit
    inputs: dict[Layer, Input] = field(default_factory=dict)  # what is planned as an input layer
    slots: dict[Layer, int] = field(default_factory=dict)
    stacks: list[Stack] = field(default_factory=list)
    entries: dict[Parameter, tuple[int, int]] = field(default_factory=dict)  # parameter -> stack, entry
    tied: set[Parameter] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.inputs = {layer: found for layer in self.circuit.layers if (found := _as_input(layer))}

    def plan(self) -> Plan:
        groups = self._ordered(self._grouped())
        self._stack_inputs(groups)
        pools: dict[int, int] = defaultdict(int)
        starts = []
        for members in groups:
            width = members[0].units
            starts.append(pools[width])
            self.slots.update({layer: pools[width] + f for f, layer in enumerate(members)})
            pools[width] += len(members)
        made = tuple(self._group(m, range(s, s + len(m))) for m, s in zip(groups, starts, strict=True))
        roots = tuple((root.units, self.slots[root]) for root in self.circuit.roots)
        return Plan(made, dict(pools), tuple(self.stacks), roots)

    def _grouped(self) -> list[list[Layer]]:
        """Layers that are materialised, by depth and signature, inputs first."""
        self.tied = self._shared_parameters()
        depths: dict[Layer, int] = {}
        groups: dict[Hashable, list[Layer]] = defaultdict(list)
        for layer in self._materialised():
            reads = [item for branch in self._reads(layer) for item in branch]
            depths[layer] = 1 + max((depths[item] for item in reads), default=-1)
            groups[depths[layer], self._signature(layer)].append(layer)
        return [groups[key] for key in sorted(groups, key=lambda key: key[0])]  # type: ignore[index]

    def _materialised(self) -> list[Layer]:
        """All layers but those fused with the sums that alone read them: products and bare functions."""
        read = {item for layer in self.circuit.layers for items in self._reads(layer) for item in items}
        kept = read | set(self.circuit.roots)
        return [layer for layer in self.circuit.layers if isinstance(layer, Sum) or layer in kept]

    def _shared_parameters(self) -> set[Parameter]:
        uses: dict[Parameter, set[tuple[tuple[int, ...], int]]] = defaultdict(set)
        for i, layer in enumerate(self.circuit.layers):
            if isinstance(layer, Input | Sum) and layer.weight is not None:
                # blocks of rows for layers over one variable are no tie: each has its own rows
                place = (layer.variables, 0) if isinstance(layer, Input) else ((), i)
                uses[layer.weight].add(place)
        return {parameter for parameter, places in uses.items() if len(places) > 1}

    def _reads(self, layer: Layer) -> list[tuple[Layer, ...]]:
        """What a layer reads where it is materialised: for a sum, the factors of each input."""
        if layer in self.inputs:
            return []
        return [factors(item) for item in layer.inputs] if isinstance(layer, Sum) else [layer.inputs]

    def _signature(self, layer: Layer) -> Hashable:
        """Layers with equal signatures at one depth are one group."""
        if layer in self.inputs:
            return self._input_signature(self.inputs[layer])
        if not isinstance(layer, Sum):
            return layer.kind, tuple(item.units for item in layer.inputs)
        weight = layer.weight
        reads = tuple(
            (item.kind if is_product(item) else "", tuple(f.units for f in items))
            for item, items in zip(layer.inputs, self._reads(layer), strict=True)
        )
        shared = weight if weight in self.tied else None
        return "sum", layer.units, weight.is_complex, weight.constraint, reads, shared

    def _input_signature(self, layer: Input) -> Hashable:
        weight = layer.weight
        if weight is None:
            return "input", layer.family, layer.units
        shared = weight if weight in self.tied else None
        kind = weight.shape, weight.is_complex, weight.constraint
        return "input", layer.family, layer.units, kind, layer.first_row, shared

    def _ordered(self, groups: list[list[Layer]]) -> list[list[Layer]]:
        """Folds in the order in which they are read, decided from the roots downwards."""
        rank: dict[Layer, tuple[int, ...]] = {}
        ordered: list[list[Layer]] = []
        for number, members in reversed(list(enumerate(groups))):
            members = sorted(members, key=lambda layer: rank.get(layer, ()))
            ordered.append(members)
            for fold, layer in enumerate(members):
                for branch, items in enumerate(self._reads(layer)):
                    for position, item in enumerate(items):
                        rank.setdefault(item, (-number, branch, position, fold))
        return ordered[::-1]

    def _group(self, members: list[Layer], writes: range) -> Group:
        first = members[0]
        if first in self.inputs:
            return self._input_group([self.inputs[m] for m in members], writes)
        if isinstance(first, Sum):
            sums = [m for m in members if isinstance(m, Sum)]
            weight = self._use([m.weight for m in sums], "sum")
            return SumGroup(first.units, writes, weight, self._branches(sums))
        return ProductGroup(first.units, writes, self._branch(members, (0, first.units)))

    def _input_group(self, members: list[Input], writes: range) -> InputGroup:
        first = members[0]
        weights = [m.weight for m in members if m.weight is not None]
        learnt = {
            name: tuple(self.circuit.parameter_name(m.parameters[name]) for m in members)
            for name in first.parameters
        }
        use = self._use(weights, "input") if weights else None
        blocks = tuple(m.variables for m in members)
        return InputGroup(first.units, writes, blocks, first.family, use, first.first_row, learnt)

    def _use(self, parameters: Sequence[Parameter], kind: str) -> Use:
        """The stack of these parameters, made if there is none yet."""
        distinct = list(dict.fromkeys(parameters))
        if distinct[0] not in self.entries:
            self._stack(distinct, kind)
        places = [self.entries[p] for p in parameters]
        stack = places[0][0]
        size = len(self.stacks[stack].parameters)
        if size == 1 and len(parameters) > 1:
            return Use(stack, ())
        entries = tuple(entry for _, entry in places)
        return Use(stack, None if entries == tuple(range(size)) else entries)

    def _stack_inputs(self, groups: list[list[Layer]]) -> None:
        """One stack for the input weights of one shape: several groups may use different rows of them."""
        weights: dict[Hashable, dict[Parameter, None]] = defaultdict(dict)
        for layer in (self.inputs[layer] for members in groups for layer in members if layer in self.inputs):
            if layer.weight is not None:
                weight = layer.weight
                alone = weight if weight in self.tied else None
                weights[weight.shape, weight.is_complex, weight.constraint, alone][weight] = None
        for stack in weights.values():
            self._stack(list(stack), "input")

    def _stack(self, parameters: list[Parameter], kind: str) -> None:
        first = parameters[0]
        names = tuple(self.circuit.parameter_name(p) for p in parameters)
        number = len(self.stacks)
        self.entries.update({p: (number, entry) for entry, p in enumerate(parameters)})
        stack = Stack(f"{kind}{number}", names, first.shape, first.is_complex, str(first.constraint))
        self.stacks.append(stack)

    def _branches(self, sums: list[Sum]) -> tuple[Branch, ...]:
        branches, start = [], 0
        for i, item in enumerate(sums[0].inputs):
            branches.append(self._branch([s.inputs[i] for s in sums], (start, start + item.units)))
            start += item.units
        return tuple(branches)

    def _branch(self, items: Sequence[Layer], columns: tuple[int, int]) -> Branch:
        read = [factors(item) for item in items]
        kind = items[0].kind if is_product(items[0]) else "linear"
        widths = tuple(factor.units for factor in read[0])
        reads = tuple(_slots([self.slots[f[i]] for f in read]) for i in range(len(widths)))
        return Branch(kind if len(widths) > 1 else "linear", widths, reads, columns)


def _as_input(layer: Layer) -> Input | None:
    """The layer itself, or the input layer W φ(x) that a sum over the functions φ of one variable is."""
    if isinstance(layer, Input):
        return layer
    if not isinstance(layer, Sum) or len(layer.inputs) > 1:
        return None
    (bare,) = layer.inputs
    if not isinstance(bare, Input) or bare.weight is not None:
        return None
    return Input(bare.variables, bare.family, weight=layer.weight, parameters=bare.parameters)


def _slots(places: list[int]) -> Slots:
    stretch = range(places[0], places[0] + len(places))
    return stretch if list(stretch) == places else tuple(places)
