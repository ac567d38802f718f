"""Which layers a query skips, and what the others send: vectors, squares, matrices. Pure data, once a mask.

For variables Z marginalised and Y observed, a layer ℓ of K units sends upwards R = ∫ ℓ ℓᴴ dz, held as

* IDENTITY: all of its variables are in Z and the circuit is unitary, so R = I: the sub-circuit is skipped,
* VECTOR: none is in Z, so R = r rᴴ and r itself is sent,
* OPEN: a vector for each node of the one weighted variable below it, see
  :mod:`squircuit.inference.upward.quadrature`,
* SQUARES: the diagonal of R alone, ∫ |ℓ_k|² dz of every unit, where nothing else is ever asked
  (:attr:`squircuit.execution.plan.Plan.squares_suffice`),
* MATRIX: a K×K Hermitian matrix.

Variables may be WEIGHTED: squares and matrices of their input layers are functions of the nodes' weights.

This is Alg. Mar-Squared-Unitary, with the layers of a group that hold their messages in the same way
computed together.
"""

from __future__ import annotations

import math
from collections import OrderedDict, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import TypeAlias, final

import torch
from torch import Tensor

from squircuit.errors import StructureError
from squircuit.execution.plan import (
    Branch,
    Group,
    InputGroup,
    Key,
    Plan,
    ProductGroup,
    Slots,
    SumGroup,
    branches_of,
    slots_of,
)
from squircuit.regions.scope import Scope, describe


class Form(IntEnum):
    """How a message is held."""

    IDENTITY = 0
    VECTOR = 1
    OPEN = 2
    SQUARES = 3
    MATRIX = 4
    WEIGHTED = 5


Forms: TypeAlias = tuple[Form, ...]  #: of every variable's input layers, or of the factors of a product
Pattern: TypeAlias = tuple[Forms, ...]  #: of a sum's branches


@final
@dataclass(frozen=True, eq=False)
class Source:
    """The place of the messages of one factor: rows of the outputs of earlier steps."""

    form: Form
    parts: tuple[tuple[int, Slots], ...] = ()  #: (step, rows of its output)
    order: tuple[int, ...] | None = None  #: the fold's place in the joined parts, where they are shuffled
    variables: tuple[int, ...] = ()  #: the weighted variable of every fold of an OPEN message


@final
@dataclass(frozen=True, eq=False)
class Step:
    """Some folds of a group whose factors hold their messages in the same way."""

    group: Group
    folds: Slots
    form: Form
    is_weighted: bool = False  #: input layers of variables that have nodes
    sources: tuple[tuple[Source, ...], ...] = ()  #: for each branch, one a factor

    @property
    def branches(self) -> tuple[Branch, ...]:
        return branches_of(self.group)

    def operations(self) -> int:
        """Multiplications a row, about."""
        is_sum = isinstance(self.group, SumGroup)
        pairs = zip(self.branches, self.sources, strict=True)
        return len(self.folds) * sum(_operations(self.group.units, self.form, is_sum, b, s) for b, s in pairs)

    def entries(self) -> int:
        """Numbers a row and a fold in the largest intermediate result."""
        if self.form is Form.SQUARES and not isinstance(self.group, SumGroup):
            return self.group.units
        pairs = zip(self.branches, self.sources, strict=True)
        return max((self.group.units * _split(b, s)[0] for b, s in pairs), default=self.group.units**2)


@final
@dataclass(frozen=True, eq=False)
class Schedule:
    """The steps of one query in order, and where the messages of the roots are."""

    steps: tuple[Step, ...]
    roots: tuple[Source, ...]
    places: dict[Key, tuple[int, int]]  #: (width, slot) -> (step, row of its output)
    forms: dict[Key, Form]
    _indices: dict[tuple[tuple[int, ...], torch.device], Tensor] = field(default_factory=dict)

    def index(self, places: tuple[int, ...], device: torch.device) -> Tensor:
        """Places as a tensor, made once for each device."""
        key = (places, device)
        if key not in self._indices:
            with torch.inference_mode(mode=False):  # it outlives the caller's mode
                self._indices[key] = torch.tensor(places, device=device)
        return self._indices[key]

    def operations(self) -> int:
        """Multiplications a row, about."""
        return sum(step.operations() for step in self.steps)

    def entries(self) -> int:
        """Numbers a row in the largest intermediate result, a group being computed in blocks of folds."""
        return max((step.entries() for step in self.steps), default=1)


@final
class Schedules:
    """Schedules of one plan, the latest ones remembered."""

    def __init__(self, plan: Plan, remembered: int = 64) -> None:
        self.plan, self.remembered = plan, remembered
        self._known: OrderedDict[Forms, Schedule] = OrderedDict()

    @cached_property
    def layers(self) -> Mapping[Key, tuple[Group, int]]:
        """The group and the fold of every layer."""
        return {(g.units, place): (g, fold) for g in self.plan.groups for fold, place in enumerate(g.writes)}

    @cached_property
    def scopes(self) -> Mapping[Key, Scope]:
        """The variables of every layer."""
        found: dict[Key, Scope] = {}
        for key, (group, fold) in self.layers.items():
            if isinstance(group, InputGroup):
                found[key] = frozenset(group.blocks[fold])
            else:
                branch = group.branches[0] if isinstance(group, SumGroup) else group.branch
                reads = zip(branch.widths, branch.reads, strict=True)
                found[key] = frozenset().union(*(found[k, slots[fold]] for k, slots in reads))
        return found

    def __call__(self, forms: Forms) -> Schedule:
        if forms not in self._known:
            self._known[forms] = _Scheduler(self.plan, forms).schedule()
            if len(self._known) > self.remembered:
                self._known.popitem(last=False)
        self._known.move_to_end(forms)
        return self._known[forms]


@dataclass
class _Scheduler:
    plan: Plan
    variables: Forms
    steps: list[Step] = field(default_factory=list)
    forms: dict[Key, Form] = field(default_factory=dict)
    open_variable: dict[Key, int] = field(default_factory=dict)
    hiding: set[Key] = field(default_factory=set)  #: layers above an input layer all of which is missing
    cut: dict[Key, tuple[int, ...]] = field(default_factory=dict)  #: or above a block of which a part is
    places: dict[Key, tuple[int, int]] = field(default_factory=dict)

    def schedule(self) -> Schedule:
        for group in self.plan.groups:
            for (form, is_weighted, _), folds in self._patterns(group).items():
                if form is not Form.IDENTITY:
                    self._add(group, form, is_weighted, slots_of(folds))
        roots = tuple(self._source(width, [place]) for width, place in self.plan.roots)
        return Schedule(tuple(self.steps), roots, self.places, self.forms)

    def _patterns(self, group: Group) -> dict[tuple[Form, bool, Pattern], list[int]]:
        """The folds of a group by the form of their message and of their factors'."""
        found: dict[tuple[Form, bool, Pattern], list[int]] = defaultdict(list)
        pattern: Pattern
        for fold in range(group.folds):
            key = (group.units, group.writes[fold])
            if isinstance(group, InputGroup):
                (form, is_weighted), pattern = self._input(key, group, group.blocks[fold]), ()
            else:
                (form, pattern), is_weighted = self._inner(key, group, fold), False
            self.forms[key] = form
            found[form, is_weighted, pattern].append(fold)
        return found

    def _input(self, key: Key, group: InputGroup, variables: tuple[int, ...]) -> tuple[Form, bool]:
        """The form of an input layer, and whether the weights of nodes count in it."""
        forms = {self.variables[v] for v in variables}
        self.open_variable[key] = variables[0]
        if forms.isdisjoint({Form.VECTOR, Form.OPEN}):  # functions that are weighted need not be orthogonal
            self.hiding.add(key)
        elif len(forms) > 1:
            self.cut[key] = variables
        if forms == {Form.IDENTITY}:
            return Form.IDENTITY, False
        is_weighted = not forms.isdisjoint({Form.OPEN, Form.WEIGHTED})
        if key in self.plan.squares_suffice:
            return Form.SQUARES, is_weighted
        if group.is_block and Form.OPEN in forms:
            raise below_alternatives(variables)
        if len(forms) > 1 or forms == {Form.WEIGHTED}:
            return Form.MATRIX, is_weighted
        return forms.pop(), False

    def _inner(self, key: Key, group: SumGroup | ProductGroup, fold: int) -> tuple[Form, Pattern]:
        reads = [[(k, slots[fold]) for k, slots in branch.factors] for branch in branches_of(group)]
        self._require_vanishing(key, reads)
        pattern = tuple(tuple(self.forms[item] for item in items) for items in reads)
        form = combined(pattern[0])
        if key in self.plan.squares_suffice:
            form = _squared(form, isinstance(group, SumGroup))
        if form is Form.OPEN:
            item = next(item for item in reads[0] if self.forms[item] is Form.OPEN)
            self.open_variable[key] = self.open_variable[item]
        return form, pattern

    def _require_vanishing(self, key: Key, reads: list[list[Key]]) -> None:
        """Refuse cross terms of a sum's inputs: they vanish below an input layer all of which is missing.

        Of a block of which a part is shown the functions are not orthogonal.
        """
        blocks = [self.cut[item] for items in reads for item in items if item in self.cut]
        is_hiding = all(not self.hiding.isdisjoint(items) for items in reads)
        if len(reads) > 1 and blocks and not is_hiding:
            raise below_alternatives(blocks[0])
        if is_hiding or (len(reads) == 1 and not self.hiding.isdisjoint(reads[0])):
            self.hiding.add(key)
        if blocks:
            self.cut[key] = blocks[0]

    def _add(self, group: Group, form: Form, is_weighted: bool, folds: Slots) -> None:
        sources = tuple(
            tuple(self._source(k, [slots[f] for f in folds]) for k, slots in branch.factors)
            for branch in branches_of(group)
        )
        for row, fold in enumerate(folds):
            self.places[group.units, group.writes[fold]] = (len(self.steps), row)
        self.steps.append(Step(group, folds, form, is_weighted, sources))

    def _source(self, width: int, slots: list[int]) -> Source:
        """The rows of earlier outputs that hold these layers' messages."""
        form = self.forms[width, slots[0]]
        if form is Form.IDENTITY:
            return Source(form)
        parts: dict[int, list[int]] = defaultdict(list)
        members: dict[int, list[int]] = defaultdict(list)
        for position, slot in enumerate(slots):
            step, row = self.places[width, slot]
            parts[step].append(row)
            members[step].append(position)
        joined = [position for positions in members.values() for position in positions]
        order = None if joined == sorted(joined) else tuple(joined.index(i) for i in range(len(joined)))
        is_open = form is Form.OPEN
        variables = tuple(self.open_variable[width, slot] for slot in slots) if is_open else ()
        return Source(form, tuple((step, slots_of(rows)) for step, rows in parts.items()), order, variables)


def combined(factors: tuple[Form, ...]) -> Form:
    """The form of a product (and of a sum of products) from those of its factors.

    >>> combined((Form.VECTOR, Form.IDENTITY)).name, combined((Form.VECTOR, Form.OPEN)).name
    ('MATRIX', 'OPEN')
    """
    if len(set(factors)) == 1 and (factors[0] is not Form.OPEN or len(factors) == 1):
        return factors[0]
    others = [form for form in factors if form is not Form.VECTOR]
    return Form.OPEN if others == [Form.OPEN] else Form.MATRIX


def _squared(form: Form, is_sum: bool) -> Form:
    """The form of a layer whose squares suffice; a sum of vectors stays one, and is squared by its reader."""
    if form is Form.IDENTITY or (is_sum and form in (Form.VECTOR, Form.OPEN)):
        return form
    return Form.SQUARES


def below_alternatives(variables: tuple[int, ...]) -> StructureError:
    """The error to raise where the interference of a sum's inputs would have to be seen by a whole block."""
    return StructureError(
        "over single variables",
        f"{describe(frozenset(variables))}",
        "its input layer is over a block below a sum of several inputs, whose interference the last missing "
        "variable sees alone",
        "give such sums inputs over single variables, or one input layer that has all functions of the block",
    )


def _split(branch: Branch, sources: tuple[Source, ...]) -> tuple[int, int]:
    """Columns that stay open and columns that are contracted with vectors."""
    if branch.kind != "kronecker":
        return branch.widths[0], 1
    widths = list(zip(branch.widths, sources, strict=True))
    closed = math.prod(k for k, source in widths if source.form is Form.VECTOR)
    return branch.units // closed, closed


def _operations(units: int, form: Form, is_sum: bool, branch: Branch, sources: tuple[Source, ...]) -> int:
    if form in (Form.VECTOR, Form.OPEN):
        return units * branch.units
    if form is Form.SQUARES and not is_sum:
        return units
    left, closed = _split(branch, sources)
    modes = [k for k, s in zip(branch.widths, sources, strict=True) if s.form in (Form.OPEN, Form.MATRIX)]
    return (
        units * left * ((closed if closed > 1 else 0) + sum(modes) + (1 if form is Form.SQUARES else units))
    )
