"""From a circuit to its plan: which layers are one group, where they write, which weights are stacked.

Folds are ordered by who reads them, so that in a tree every read is a stretch of a pool. A sum over the bare
functions of one variable, W φ(x), is planned as what it is: an input layer with a weight.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from squircuit.circuits import Circuit, Input, Layer, Parameter, Sum
from squircuit.circuits.layers import factors, is_product
from squircuit.execution.plan import (
    Branch,
    Group,
    InputGroup,
    Plan,
    ProductGroup,
    Stack,
    SumGroup,
    Use,
    slots_of,
)


def make_plan(circuit: Circuit) -> Plan:
    """Group the layers of a circuit and lay them out.

    Example:
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
        reads = tuple(slots_of([self.slots[f[i]] for f in read]) for i in range(len(widths)))
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
