"""Training steps of squircuit's models, for the harness in step.py."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

import squircuit as sq
from squircuit.execution.graph import CapturedStep

Step = Callable[[Tensor], Tensor]


def make(kind: str, units: int, side: int, device: str, graph: bool, batch: Tensor) -> Step:
    """A training step of ``unitary-kronecker``, ``unitary-hadamard`` or ``squared-hadamard``."""
    family, product = kind.split("-")
    unitary = family == "unitary"
    circuit = sq.build(
        sq.regions.quad_tree((side, side)),
        sq.Categorical(256),
        units,
        product,
        unitary=unitary,  # type: ignore[arg-type]
    )
    model = sq.SquaredCircuit(circuit).to(device)
    if unitary:
        optimiser: torch.optim.Optimizer = sq.optim.Polar(model.parameters(), lr=0.05)
    else:
        optimiser = torch.optim.Adam(model.parameters(), lr=0.01, capturable=graph)

    def step(x: Tensor) -> Tensor:
        optimiser.zero_grad(set_to_none=True)
        loss = -model.log_density(x).mean()
        if not unitary:
            loss = loss + model.log_partition(double=False)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        return loss.detach()

    return CapturedStep(step, batch) if graph else step
