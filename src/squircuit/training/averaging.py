"""A moving average of the weights, brought back to the manifold for evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import final

import torch
from torch import Tensor, nn

from squircuit.execution.precision import double
from squircuit.optim.base import is_constrained
from squircuit.optim.bundle import real_view
from squircuit.optim.gram import distance, inverse_square_root, project

STEPS, NEAR = 24, 3
"""Of Newton–Schulz: enough for singular values down to 10⁻³, or for those within 10⁻³ of 1."""
FAR = 1e-9
"""From the manifold, in double precision: Newton–Schulz has not got there."""
NUMBERS = 1 << 24
"""Weights that are in double precision at a time."""

Weights = dict[str, Tensor]


def weights_of(model: nn.Module) -> Weights:
    """Copies of all weights by name."""
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


@torch.no_grad()
def put(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Set the weights, in place, so that a captured step sees them."""
    for name, parameter in model.named_parameters():
        parameter.copy_(weights[name])


@contextmanager
def wearing(model: nn.Module, weights: Mapping[str, Tensor]) -> Iterator[None]:
    """The model has other weights for a while."""
    own = weights_of(model)
    put(model, weights)
    try:
        yield
    finally:
        put(model, own)


@final
class Average:
    """a ← δa + (1 − δ)w after every step, δ = min(decay, (1 + t)/(10 + t)), so that it forgets the start.

    Args:
        model: whose weights are averaged.
        decay: δ in the long run.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._model, self._decay, self.weights = model, decay, weights_of(model)

    @torch.no_grad()
    def update(self, step: int) -> None:
        """After step t, from 0."""
        decay = min(self._decay, (1 + step) / (10 + step))
        averages = [real_view(value) for value in self.weights.values()]
        present = [real_view(parameter.detach()) for parameter in self._model.parameters()]
        torch._foreach_lerp_(averages, present, 1 - decay)

    def retracted(self) -> Weights:
        """The average, semi-unitary weights replaced by the nearest ones on the manifold."""
        return _retracted(self._model, self.weights, STEPS)


def on_manifold(model: nn.Module) -> Weights:
    """Copies of all weights, semi-unitary ones in double precision brought to where they almost are.

    Single precision leaves each a little short of the manifold, all on the same side, and log Z adds that
    up: 10⁻³ where one matrix serves hundreds of layers. What is left is the rounding of the result.
    """
    return _retracted(model, {name: p.detach() for name, p in model.named_parameters()}, NEAR)


def _retracted(model: nn.Module, weights: Mapping[str, Tensor], steps: int) -> Weights:
    constrained = {name for name, parameter in model.named_parameters() if is_constrained(parameter)}
    return {n: retract(v, steps) if n in constrained else v.clone() for n, v in weights.items()}


@torch.no_grad()
def retract(stack: Tensor, steps: int = STEPS) -> Tensor:
    """The polar factor (YYᴴ)^(-1/2) Y of matrices with singular values below √3: (S, K1, K2).

    In double precision, some matrices at a time. Those too far for Newton–Schulz, such as averages of weights
    that went round in circles, are decomposed.

    Example:
        >>> retract(torch.tensor([[[0.5, 0.0], [0.0, 0.25]]]))
        tensor([[[1., 0.],
                 [0., 1.]]])
    """
    out = torch.empty_like(stack)
    at_once = max(1, NUMBERS // max(1, stack[:1].numel()))
    for start in range(0, len(stack), at_once):
        part = slice(start, start + at_once)
        exact = double(stack[part])
        found = inverse_square_root(exact @ exact.mH, steps) @ exact
        far = distance(found) > FAR
        if far.any():
            found[far] = project(exact[far])
        out[part] = found.to(stack.dtype)
    return out
