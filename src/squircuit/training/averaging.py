"""Weights by name: copied, put back, averaged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import final

import torch
from torch import Tensor, nn

from squircuit.optim.stacks import real_view

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
