"""Which circuits answer queries, and how: as they are, or as one tree of sums."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor

from squircuit.circuits import Circuit
from squircuit.circuits.mixture import separated
from squircuit.errors import StructureError
from squircuit.execution.network import Network
from squircuit.execution.partition import FamilyValues
from squircuit.execution.plan import InputGroup, make_plan
from squircuit.inference.joining import Joining
from squircuit.inference.schedule import Schedules
from squircuit.inference.snapshot import Snapshot
from squircuit.properties import Verdict, is_structured_decomposable, satisfies_u1, satisfies_u4
from squircuit.reference.data import require_valid


def needs_joining(structure: Circuit, always: bool = False) -> bool:
    """Whether sums with several inputs have cross terms, so that layers over one scope are to be joined.

    False: no sum has several inputs, or their cross terms vanish while a variable is marginalised (U1, U4).
    True: they count, and the circuit is structured-decomposable. Otherwise marginals are not tractable.

    Args:
        structure: without the values of what is learnt: what is declared has to hold after training, too.
        always: cross terms count even if (U1) and (U4) hold.
    """
    require_valid(structure)
    if all(len(layer.inputs) == 1 for layer in structure.sums):
        return False
    parts = separated(structure)  # no query has products of different roots
    if not always and all(satisfies_u1(part) and satisfies_u4(part) for part in parts):
        return False
    u1, u4 = satisfies_u1(structure), satisfies_u4(structure)
    structured = is_structured_decomposable(structure)
    if structured:
        return True
    cause = (
        "functions of several variables bring back" if u1 and u4 else f"without {_failed(u1, u4)} sums have"
    )
    reason = f"{structured.reason}, and {cause} cross terms"
    raise StructureError(
        "structured-decomposable",
        structured.where,
        reason,
        "split each scope in one way, or give all inputs of a sum orthogonal inputs of their own (U1, U4)",
    )


def _failed(u1: Verdict, u4: Verdict) -> str:
    return " and ".join(verdict.name for verdict in (u1, u4) if not verdict)


@final
class QueryForm:
    """How a circuit answers queries, decided from its structure before any work.

    Args:
        structure: without the values of what is learnt.
        network: of its plan.
        joined: see ``always`` of :func:`needs_joining`.
    """

    def __init__(self, structure: Circuit, network: Network, joined: bool = False) -> None:
        self.components = tuple(root.units for root in structure.roots)
        self.joining = Joining(structure) if needs_joining(structure, joined) else None
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
        weights = self.joining.weights(circuit)
        stacks = [torch.stack([weights[n] for n in s.parameters]) for s in self.network.plan.stacks]

        def family_values(group: InputGroup) -> Mapping[str, Tensor]:
            return {role: torch.stack([weights[n] for n in names]) for role, names in group.learnt.items()}

        return self.direct(stacks, mixture, family_values, False)
