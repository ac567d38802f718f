"""What a peer hands to the harness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Training:
    """A model in training: the mean negative log-likelihood of a batch, and who updates the weights.

    ``note`` says what a reader of the figures must know.
    """

    loss: Callable[[Tensor], Tensor]
    optimiser: torch.optim.Optimizer
    note: str = ""

    def step(self, x: Tensor) -> Tensor:
        """One whole training step; the loss before the update."""
        self.optimiser.zero_grad(set_to_none=True)
        loss = self.loss(x)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        return loss.detach()


class UnsupportedError(Exception):
    """The peer has no such model."""
