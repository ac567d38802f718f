"""pogo-torch: our model, trained by that package's optimiser (``pip install pogo-torch``)."""

from __future__ import annotations

from pogo import POGO
from pogo.base import VectorAdam

from peers import ours
from peers.training import Training, UnsupportedError
from setups import Setup


def make(setup: Setup) -> Training:
    if not setup.is_unitary:
        raise UnsupportedError("pogo-torch is for unitary models")
    model = ours.build(setup)
    return Training(ours.loss(model), POGO(list(model.parameters()), VectorAdam(), lr=0.05))
