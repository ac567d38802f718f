"""squircuit: Polar for unitary models, Adam and log Z in every step for the others."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

import squircuit as sq
from peers.training import Training, UnsupportedError
from setups import Setup


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
    return sq.SquaredCircuit(setup.circuit()).to(setup.device)


def loss(model: sq.SquaredCircuit) -> Callable[[Tensor], Tensor]:
    return lambda x: -model.log_prob(x).mean()
