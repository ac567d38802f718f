"""Back to the manifold: the nearest semi-unitary matrices to any."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from squircuit.errors import ParameterError
from squircuit.execution.precision import double
from squircuit.optim.base import is_constrained
from squircuit.optim.gram import distance, inverse_square_root, project

STEPS = 24
"""Of Newton–Schulz: enough for singular values down to 10⁻³."""
FAR = 1e-9
"""From the manifold, in double precision: Newton–Schulz has not got there."""
NUMBERS = 1 << 24
"""Weights that are in double precision at a time."""


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


@torch.no_grad()
def nearest(stack: Tensor, steps: int = STEPS) -> Tensor:
    """The polar factor (YYᴴ)^(-1/2) Y of matrices: (S, K1, K2).

    In double precision, some matrices at a time. Those too far for Newton–Schulz, such as averages of weights
    that went round in circles, are decomposed.

    Args:
        stack: of matrices.
        steps: of Newton–Schulz.

    Example:
        >>> nearest(torch.tensor([[[0.5, 0.0], [0.0, 0.25]]]))
        tensor([[[1., 0.],
                 [0., 1.]]])
    """
    out = torch.empty_like(stack)
    at_once = max(1, NUMBERS // max(1, stack[:1].numel()))
    for start in range(0, len(stack), at_once):
        part = slice(start, start + at_once)
        exact = double(stack[part])
        found = inverse_square_root(exact @ exact.mH, steps) @ exact
        far = ~(distance(found) <= FAR)  # NaN, where singular values were too large, is far
        if far.any() and bool(exact.isfinite().all()):
            found[far] = project(exact[far])
        out[part] = found.to(stack.dtype)
    return out
