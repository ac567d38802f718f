"""A circuit compiled for queries: as it is, or with the layers of some of its parts joined into trees."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import torch
from torch import Tensor

from squircuit.circuits import Circuit
from squircuit.execution.inputs import FamilyValues
from squircuit.execution.network import Network
from squircuit.execution.plan import Group, InputGroup, Plan, SumGroup
from squircuit.execution.planner import make_plan
from squircuit.execution.precision import double
from squircuit.inference.compile.joined_tree import JoinedCircuit
from squircuit.inference.compile.schedule import Form, Schedule, Schedules, below_alternatives
from squircuit.reference.data import require_valid


@final
@dataclass(frozen=True, eq=False)
class Snapshot:
    """A circuit ready for queries: |c|² of single-input sums, or of sums whose cross terms vanish (U1, U4).

    Args:
        circuit: its structure: variables, domains, names.
        network: of the plan; it finds the weights of a group.
        schedules: of the plan, remembered from query to query.
        stacks: the weights in the order of the plan, all complex where the circuit is.
        root_shares: π, the shares of the root units, (R,).
        components: how many of the R root units belong to each of the circuits that are mixed.
        family_values: learnable parameters of a group's families.
        is_normalised: (U1)–(U3) hold: the message of a marginalised layer is the identity.
        log_scales: for each of the circuits that are mixed, the logarithm of the factor that its values lack.
    """

    circuit: Circuit
    network: Network
    schedules: Schedules
    stacks: list[Tensor]
    root_shares: Tensor
    components: tuple[int, ...]
    family_values: FamilyValues
    is_normalised: bool
    log_scales: tuple[Tensor | float, ...] = ()

    @property
    def plan(self) -> Plan:
        return self.network.plan

    @property
    def real(self) -> torch.dtype:
        """float32 or float64, the precision that queries compute in."""
        return self.root_shares.dtype

    @property
    def dtype(self) -> torch.dtype:
        """The type of messages: complex where the circuit is."""
        return self.real.to_complex() if self.circuit.is_complex else self.real

    @property
    def device(self) -> torch.device:
        return self.root_shares.device

    def detached(self) -> Snapshot:
        """The same snapshot without gradients of the weights."""
        return self._mapped(constant)

    def doubled(self) -> Snapshot:
        """The same snapshot in double precision."""
        return self._mapped(double)

    def _mapped(self, change: Callable[[Tensor], Tensor]) -> Snapshot:
        def family_values(group: InputGroup) -> Mapping[str, Tensor]:
            return {name: change(value) for name, value in self.family_values(group).items()}

        stacks = [change(stack) for stack in self.stacks]
        return replace(self, stacks=stacks, root_shares=change(self.root_shares), family_values=family_values)

    def schedule(self, missing: Tensor, weighted: frozenset[int] = frozenset()) -> Schedule:
        """The steps of a query for rows (n, d) that lack some variables.

        Weighted variables are matrices, or open where sums have several inputs: there the last variable that
        is missing below a sum sees their interference.
        """
        absent = Form.IDENTITY if self.is_normalised else Form.MATRIX
        all_missing, some_missing = missing.all(dim=0).tolist(), missing.any(dim=0).tolist()
        weighted_form = Form.OPEN if self.has_alternatives else Form.WEIGHTED
        return self.schedules(
            tuple(
                weighted_form if v in weighted else absent if all_of else Form.MATRIX if some else Form.VECTOR
                for v, (all_of, some) in enumerate(zip(all_missing, some_missing, strict=True))
            )
        )

    @cached_property
    def inputs(self) -> Mapping[int, list[tuple[InputGroup, int]]]:
        """The input layers over every variable: group and fold."""
        found: dict[int, list[tuple[InputGroup, int]]] = {}
        for group in self.plan.groups:
            if isinstance(group, InputGroup):
                for fold, block in enumerate(group.blocks):
                    for variable in block:
                        found.setdefault(variable, []).append((group, fold))
        return found

    def is_in_block(self, variable: int) -> bool:
        """Some input layer over the variable is over a block, whose integrals have no nodes."""
        return any(group.is_block for group, _ in self.inputs[variable])

    def is_alone(self, variable: int) -> bool:
        """Some input layer is over this variable by itself."""
        return any(not group.is_block for group, _ in self.inputs[variable])

    def require_single_alternatives(self, missing: Tensor) -> None:
        """Refuse sums of several inputs with a block below them of which something is missing, (d,).

        What interferes is drawn last, one variable of all inputs together.
        """
        if not any(group.is_block for group in self.plan.input_groups):
            return
        lacks = missing.tolist()
        for group in self.plan.groups:
            if isinstance(group, SumGroup) and len(group.branches) > 1:
                scope = {v for place in group.writes for v in self.schedules.scopes[group.units, place]}
                for variable in sorted(scope):
                    if lacks[variable] and self.is_in_block(variable):
                        raise below_alternatives((variable,))

    def has_one_block(self, variables: tuple[int, ...]) -> bool:
        """All input layers over these variables are over all of them, in this order."""
        return all(group.blocks[fold] == variables for v in variables for group, fold in self.inputs[v])

    def has_units_alone(self, variable: int) -> bool:
        """Whether input layers over a variable are asked for squares of units alone, not inner products."""
        suffices = self.plan.squares_suffice
        return all((group.units, group.writes[fold]) in suffices for group, fold in self.inputs[variable])

    @property
    def is_tree_of_sums(self) -> bool:
        """Sums of one input each, down to input layers over single variables, whose inner products count."""
        suffice = self.plan.squares_suffice

        def fits(group: Group) -> bool:
            if isinstance(group, InputGroup):
                return not (group.is_block or any((group.units, place) in suffice for place in group.writes))
            return isinstance(group, SumGroup) and len(group.branches) == 1

        return all(fits(group) for group in self.plan.groups)

    @property
    def has_alternatives(self) -> bool:
        """Some sum has several inputs; their cross terms vanish while a variable below is marginalised."""
        return any(isinstance(group, SumGroup) and len(group.branches) > 1 for group in self.plan.groups)


@final
class CompiledStructure:
    """A circuit's structure as it answers queries, decided before any work; weights make it a snapshot.

    Args:
        structure: without the values of what is learnt.
        network: of its plan.
        joins: of each root layer, whether the layers below it are to be joined, see
            :meth:`squircuit.inference.normalisation.Normalisation.joined_roots`.
    """

    def __init__(self, structure: Circuit, network: Network, joins: list[bool]) -> None:
        require_valid(structure)
        self.components = tuple(root.units for root in structure.roots)
        self.joined_circuit = JoinedCircuit(structure, joins) if any(joins) else None
        self.structure = structure if self.joined_circuit is None else self.joined_circuit.structure
        self.network = network if self.joined_circuit is None else Network(make_plan(self.structure))
        self.schedules = Schedules(self.network.plan)

    def direct(
        self,
        stacks: list[Tensor],
        root_shares: Tensor,
        family_values: FamilyValues,
        is_normalised: bool,
    ) -> Snapshot:
        """The circuit as it is, with these weights."""
        place = self.structure, self.network, self.schedules
        return Snapshot(*place, stacks, root_shares, self.components, family_values, is_normalised)

    def joined(self, circuit: Circuit, root_shares: Tensor) -> Snapshot:
        """The joined circuit, with the weights that belong to the circuit's."""
        assert self.joined_circuit is not None
        weights, log_scales = self.joined_circuit.weights(circuit)
        real = root_shares.dtype
        dtype = real.to_complex() if self.structure.is_complex else real
        stacks = [torch.stack([weights[n].to(dtype) for n in s.parameters]) for s in self.network.plan.stacks]

        def family_values(group: InputGroup) -> Mapping[str, Tensor]:
            return {role: torch.stack([weights[n] for n in names]) for role, names in group.learnt.items()}

        return replace(self.direct(stacks, root_shares, family_values, False), log_scales=log_scales)


def constant(value: Tensor) -> Tensor:
    """A tensor without gradient that may take part in those of others, even if made in inference mode."""
    return value.detach().clone() if value.is_inference() else value.detach()
