"""A moving average of the weights, brought back to the manifold for evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import final

import torch
from torch import Tensor, nn

from squircuit.optim.base import is_constrained
from squircuit.optim.bundle import real_view
from squircuit.optim.gram import MANY, nearest

NEAR = 3
"""Steps of Newton–Schulz that are enough for singular values within 10⁻³ of 1."""

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
        return _retracted(self._model, self.weights, MANY)


def on_manifold(model: nn.Module) -> Weights:
    """Copies of all weights, semi-unitary ones in double precision brought to where they almost are.

    Single precision leaves each a little short of the manifold, all on the same side, and log Z adds that
    up: 10⁻³ where one matrix serves hundreds of layers. What is left is the rounding of the result.
    """
    return _retracted(model, {name: p.detach() for name, p in model.named_parameters()}, NEAR)


def nearest_on_manifold(model: nn.Module) -> Weights:
    """Copies of all weights, semi-unitary ones replaced by the nearest ones on the manifold."""
    return _retracted(model, {name: p.detach() for name, p in model.named_parameters()}, MANY)


def _retracted(model: nn.Module, weights: Mapping[str, Tensor], steps: int) -> Weights:
    constrained = {name for name, parameter in model.named_parameters() if is_constrained(parameter)}
    return {n: nearest(v, steps) if n in constrained else v.clone() for n, v in weights.items()}
