"""A prototype in one file, ``prototype.py`` with Circuit and LandingPC, in the folder that is given."""

from __future__ import annotations

from typing import Any

import prototype
from torch import Tensor

from peers.training import Training, UnsupportedError
from setups import Setup


def make(setup: Setup) -> Training:
    if setup.kind != "unitary-kronecker" or setup.inputs != "learnt":
        raise UnsupportedError("the prototype has unitary Kronecker circuits with learnt inputs only")
    model: Any = prototype.Circuit(setup.side, setup.side, setup.units, setup.levels, setup.device)

    def loss(x: Tensor) -> Tensor:
        return -model(x).mean()  # type: ignore[no-any-return]

    return Training(loss, prototype.LandingPC(model.parameters(), lr=0.05))
