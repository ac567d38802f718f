"""squircuit: Polar for unitary models, Adam and log Z in every step for the others."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

import squircuit as sq
from peers.training import Training, UnsupportedError
from setups import Setup
from squircuit.circuits.initial import draw


def make(setup: Setup) -> Training:
    model = build(setup)
    # free weights, those of the models that are not unitary, get Adam from the same optimiser
    return Training(loss(model), sq.optim.Polar(model.parameters(), lr=0.05, free_lr=0.01))


def make_landing(setup: Setup) -> Training:
    """The same with the paper's optimiser."""
    if not setup.is_unitary:
        raise UnsupportedError("LandingPC is for unitary models")
    model = build(setup)
    return Training(loss(model), sq.optim.LandingPC(model.parameters(), lr=0.05))


def build(setup: Setup) -> sq.SquaredCircuit:
    circuit = setup.circuit()
    return sq.SquaredCircuit(circuit.with_weights(first_weights(circuit))).to(setup.device)


def first_weights(circuit: sq.Circuit) -> dict[str, Tensor]:
    """One draw for each shape: hundreds of millions of numbers would take longer than all that is timed."""
    generator = torch.Generator().manual_seed(0)
    drawn: dict[object, Tensor] = {}
    found: dict[str, Tensor] = {}
    for name, parameter in circuit.parameters.items():
        kind = parameter.shape, parameter.constraint
        if parameter.value is None and kind not in drawn:
            drawn[kind] = draw(parameter, generator, torch.complex64)
        found[name] = drawn[kind] if parameter.value is None else parameter.value
    return found


def loss(model: sq.SquaredCircuit) -> Callable[[Tensor], Tensor]:
    def step_loss(x: Tensor) -> Tensor:
        with model.training_step(on_manifold=True):  # as `fit` does with these optimisers
            return -model.log_prob(x).mean()

    return step_loss
