"""The manifold of semi-unitary matrices: which weights live there, and the way back to it."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from squircuit.circuits import Constraint
from squircuit.circuits.semi_unitary import NUMBERS, distance
from squircuit.errors import ParameterError
from squircuit.execution.precision import double
from squircuit.optim.gram import inverse_square_root

MANY = 24
"""Steps of Newton–Schulz that are enough for singular values down to 10⁻³."""
FEW = 3
"""Steps that are enough for singular values within 10⁻³ of 1: weights that a feasible method has left."""
FAR = 1e-9
"""A distance from the manifold, in double precision, that says that Newton–Schulz has not got there."""


def is_constrained(parameter: Tensor) -> bool:
    """The parameter says that its rows are orthonormal."""
    return getattr(parameter, "constraint", None) == Constraint.SEMI_UNITARY


def project(x: Tensor) -> Tensor:
    """The nearest semi-unitary matrices to any X of full rank, by SVD in double precision."""
    u, _, vh = torch.linalg.svd(double(x), full_matrices=False)
    projected: Tensor = (u @ vh).to(x.dtype)
    return projected


@torch.no_grad()
def nearest(stack: Tensor, steps: int = MANY) -> Tensor:
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
        # one look after all steps in place of one a step: on a GPU each would wait for the device
        far = ~(distance(found) <= FAR)  # NaN, where singular values were too large, is far
        if far.any() and bool(exact.isfinite().all()):
            found[far] = project(exact[far])
        out[part] = found.to(stack.dtype)
    return out


def retracted(
    model: nn.Module, weights: Mapping[str, Tensor] | None = None, steps: int = MANY
) -> dict[str, Tensor]:
    """Copies of all weights by name, semi-unitary ones replaced by the nearest ones on the manifold.

    Single precision leaves each weight a little short of the manifold, all on the same side, and log Z adds
    that up: 10⁻³ where one matrix serves hundreds of layers. What this leaves is the rounding of its result.

    Args:
        model: which says which weights are semi-unitary.
        weights: by the names of the model's; default its own.
        steps: of Newton–Schulz; `FEW` are enough for weights that are almost there.
    """
    own = dict(model.named_parameters())
    given = {name: value.detach() for name, value in (own if weights is None else weights).items()}
    return {n: nearest(given[n], steps) if is_constrained(own[n]) else given[n].clone() for n in own}


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
