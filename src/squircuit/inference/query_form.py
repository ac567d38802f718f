"""How a circuit answers queries: as it is, or with the layers of some of its parts joined into trees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import final

import torch
from torch import Tensor

from squircuit.circuits import Circuit
from squircuit.execution.inputs import FamilyValues
from squircuit.execution.network import Network
from squircuit.execution.plan import InputGroup, make_plan
from squircuit.inference.joining import Joining
from squircuit.inference.schedule import Schedules
from squircuit.inference.snapshot import Snapshot
from squircuit.reference.data import require_valid


@final
class QueryForm:
    """How a circuit answers queries, decided before any work.

    Args:
        structure: without the values of what is learnt.
        network: of its plan.
        joins: of each root layer, whether the layers below it are to be joined, see
            :meth:`squircuit.inference.normalisation.Normalisation.joined_roots`.
    """

    def __init__(self, structure: Circuit, network: Network, joins: list[bool]) -> None:
        require_valid(structure)
        self.components = tuple(root.units for root in structure.roots)
        self.joining = Joining(structure, joins) if any(joins) else None
        self.structure = structure if self.joining is None else self.joining.structure
        self.network = network if self.joining is None else Network(make_plan(self.structure))
        self.schedules = Schedules(self.network.plan)

    def direct(
        self,
        stacks: list[Tensor],
        mixture: Tensor,
        family_values: FamilyValues,
        is_normalised: bool,
    ) -> Snapshot:
        """The circuit as it is, with these weights."""
        place = self.structure, self.network, self.schedules
        return Snapshot(*place, stacks, mixture, self.components, family_values, is_normalised)

    def joined(self, circuit: Circuit, mixture: Tensor) -> Snapshot:
        """The joined circuit, with the weights that belong to the circuit's."""
        assert self.joining is not None
        weights, log_scales = self.joining.weights(circuit)
        dtype = mixture.dtype.to_complex() if self.structure.is_complex else mixture.dtype
        stacks = [torch.stack([weights[n].to(dtype) for n in s.parameters]) for s in self.network.plan.stacks]

        def family_values(group: InputGroup) -> Mapping[str, Tensor]:
            return {role: torch.stack([weights[n] for n in names]) for role, names in group.learnt.items()}

        return replace(self.direct(stacks, mixture, family_values, False), log_scales=log_scales)
