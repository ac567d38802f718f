"""How a model is called: to evaluate it, or as a step of a training. It decides what is looked at.

An **evaluation** trusts nothing: the data is compared with the domains, weights are looked at, and Z is
computed and divided by wherever it is not certain to be 1. All calls are evaluations, with gradients or
without, in the mode of ``model.train()`` or ``model.eval()``, until the caller says otherwise.

A **training step** is what happens inside ``with model.training_step():``, and nothing else. A GPU is then
never waited for: values outside their domain have probability 0 in place of an error, and whether weights
have left the manifold is looked at now and then. With ``on_manifold=True`` the caller vouches for an
optimiser that keeps them there, and Z = 1 is taken for granted.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import final

import torch

from squircuit.models.weights import StackedWeights

FAR = 1e-4
"""A distance from the manifold further than rounding, or another precision, moves weights."""


@final
@dataclass(frozen=True)
class Call:
    """How a call is made.

    Args:
        is_step: as a training step; otherwise an evaluation.
        on_manifold: the optimiser of the training keeps weights on the manifold, so that nobody has to look.
    """

    is_step: bool = False
    on_manifold: bool = False

    def waits(self, device: torch.device) -> bool:
        """The host may wait for what the device finds: always on a CPU, and in evaluations."""
        return not (self.is_step and device.type == "cuda")


EVALUATION = Call()


@final
class ManifoldWatch:
    """What the training steps of a model remember of the manifold."""

    def __init__(self) -> None:
        self._calls, self._was_normalised, self._has_warned = 0, True, False

    def is_one(self, weights: StackedWeights, call: Call) -> bool:
        """Z = 1 is certain now; in a training step, as far as its optimiser has kept to the manifold."""
        if not call.is_step:
            weights.require_numbers()
            return weights.is_normalised()
        return weights.is_unitary and (call.on_manifold or self._looks_normalised(weights))

    def _looks_normalised(self, weights: StackedWeights) -> bool:
        """A look in a training step, with one warning off the manifold.

        A GPU would have to be waited for, so it is looked at after 1, 2, 4, 8, … calls.
        """
        self._calls += 1
        is_rare = bool(self._calls & (self._calls - 1))
        if weights.device.type == "cuda" and (torch.cuda.is_current_stream_capturing() or is_rare):
            return self._was_normalised
        self._was_normalised = weights.is_normalised()
        if not (self._was_normalised or self._has_warned):
            self._has_warned = _warn_if_far(weights)
        return self._was_normalised


def _warn_if_far(weights: StackedWeights) -> bool:
    """Warn of weights off the manifold by more than rounding; whether it was so."""
    if weights.normalisation.look(weights.stacks(), FAR).all:
        return False
    warnings.warn(
        "a training step on weights that have left the manifold of semi-unitary matrices: Z is no "
        "longer 1. It is computed with every step, which takes time; where it is not tractable the "
        "loss flatters the model. Fix: train with sq.optim.Polar, or POGO at a small lr.",
        stacklevel=6,
    )
    return True
