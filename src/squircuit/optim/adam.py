"""Adam for models without constraint."""

from __future__ import annotations

from typing import final

from squircuit.optim.base import Params, StiefelOptimizer


@final
class Adam(StiefelOptimizer):
    """Adam, entry by entry, real and imaginary parts apart: the baseline for free weights.

    The other optimisers treat their free parameters in the same way; this one takes nothing else. It would
    leave the manifold of semi-unitary weights with its first step, so those are refused.

    Args:
        params: parameters or groups.
        lr: learning rate.
        betas: decay of the averages of gradient and of its square.
        eps: added to the denominator.
        weight_decay: times the weights, added to the gradient.
    """

    name, rate = "adam", 0.02
    takes_semi_unitary = False
    is_capturable = True

    def __init__(
        self,
        params: Params,
        lr: float = rate,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
