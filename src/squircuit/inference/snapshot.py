"""What a query needs of a model: its plan, its present weights, and whether they are normalised."""

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
from squircuit.execution.plan import InputGroup, Plan, SumGroup
from squircuit.execution.precision import double
from squircuit.inference.schedule import Schedules


@final
@dataclass(frozen=True, eq=False)
class Snapshot:
    """A circuit ready for queries: |c|² of single-input sums, or of sums whose cross terms vanish (U1, U4).

    Args:
        circuit: its structure: variables, domains, names.
        network: of the plan; it finds the weights of a group.
        schedules: of the plan, remembered from query to query.
        stacks: the weights in the order of the plan, all complex where the circuit is.
        mixture: π, (R,).
        components: how many of the R root units belong to each of the circuits that are mixed.
        family_values: learnable parameters of a group's families.
        is_normalised: (U1)–(U3) hold: the message of a marginalised layer is the identity.
        log_scales: for each of the circuits that are mixed, the logarithm of the factor that its values lack.
    """

    circuit: Circuit
    network: Network
    schedules: Schedules
    stacks: list[Tensor]
    mixture: Tensor
    components: tuple[int, ...]
    family_values: FamilyValues
    is_normalised: bool
    log_scales: tuple[Tensor | float, ...] = ()

    @property
    def plan(self) -> Plan:
        return self.network.plan

    @property
    def dtype(self) -> torch.dtype:
        """Of messages: complex where the circuit is."""
        real = self.mixture.dtype
        return real.to_complex() if self.circuit.is_complex else real

    @property
    def device(self) -> torch.device:
        return self.mixture.device

    def detached(self) -> Snapshot:
        """The same without gradients of the weights."""
        return self._mapped(constant)

    def doubled(self) -> Snapshot:
        """The same in double precision."""
        return self._mapped(double)

    def _mapped(self, change: Callable[[Tensor], Tensor]) -> Snapshot:
        def family_values(group: InputGroup) -> Mapping[str, Tensor]:
            return {name: change(value) for name, value in self.family_values(group).items()}

        stacks = [change(stack) for stack in self.stacks]
        return replace(self, stacks=stacks, mixture=change(self.mixture), family_values=family_values)

    @cached_property
    def inputs(self) -> Mapping[int, list[tuple[InputGroup, int]]]:
        """The input layers over every variable: group and fold."""
        found: dict[int, list[tuple[InputGroup, int]]] = {}
        for group in self.plan.groups:
            if isinstance(group, InputGroup):
                for fold, variable in enumerate(group.variables):
                    found.setdefault(variable, []).append((group, fold))
        return found

    @property
    def has_alternatives(self) -> bool:
        """Some sum has several inputs; their cross terms vanish while a variable below is marginalised."""
        return any(isinstance(group, SumGroup) and len(group.branches) > 1 for group in self.plan.groups)


def constant(value: Tensor) -> Tensor:
    """A tensor without gradient that may take part in those of others, even if made in inference mode."""
    return value.detach().clone() if value.is_inference() else value.detach()
