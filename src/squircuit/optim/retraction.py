"""Back to the manifold: the nearest semi-unitary matrices to any."""

from __future__ import annotations

import torch
from torch import nn

from squircuit.errors import ParameterError
from squircuit.optim.base import is_constrained
from squircuit.optim.gram import nearest


@torch.no_grad()
def retract(model: nn.Module) -> None:
    """Replace all semi-unitary weights of a model, in place, by the nearest ones on the manifold.

    For models that an optimiser of torch's own, a landing method or a hand has taken off it: Z is 1 again,
    and the density another one, unless they were near.

    Args:
        model: e.g. a SquaredCircuit.

    Example:
        >>> import squircuit as sq
        >>> model = sq.SquaredCircuit(sq.build(sq.regions.linear(3), sq.Categorical(2), units=2))
        >>> for parameter in model.parameters():
        ...     _ = parameter.data.mul_(3)
        >>> before = model.is_normalised()
        >>> retract(model)
        >>> before, model.is_normalised()
        (False, True)
    """
    weights = {name: p for name, p in model.named_parameters() if is_constrained(p)}
    found = {name: nearest(p.detach()) for name, p in weights.items()}
    for name, value in found.items():
        if not bool(value.isfinite().all()):
            raise ParameterError(
                f"retract: the weights {name!r} are no finite numbers, so none is nearest to them. "
                "Fix: load or draw other weights."
            )
    for name, value in found.items():
        weights[name].copy_(value)
