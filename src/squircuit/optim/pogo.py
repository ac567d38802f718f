"""POGO: back to the manifold by a single step of Newton–Schulz."""

from __future__ import annotations

from typing import Any, final

from squircuit.optim.base import Params, StiefelOptimizer, vector_adam
from squircuit.optim.stacks import Stacks


@final
class POGO(StiefelOptimizer):
    """VectorAdam with the canonical metric and a single Newton–Schulz step (arXiv 2602.14656).

    Y = X − ηR with R = ½[(XXᴴ)M − (XMᴴ)X], then X⁺ = ½(3I − YYᴴ)Y. R is tangent, so YYᴴ = I + η²RRᴴ, and what
    the one step leaves is of order η⁴.
    """

    name, rate = "pogo", 0.2
    stays_on_manifold = True
    is_capturable = True

    def __init__(
        self,
        params: Params,
        lr: float = rate,
        *,
        free_lr: float = 0.01,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        second_moment: str = "matrix",
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(
            params, lr=lr, free_lr=free_lr, betas=betas, eps=eps, second_moment=second_moment,
            weight_decay=weight_decay,
        )  # fmt: skip

    def update(self, stacks: Stacks, group: dict[str, Any]) -> None:
        averages, g, scale = vector_adam(stacks, group)
        a, b = g.scaled(*g.canonical(), scale)
        alpha, beta = g.identity - group["lr"] * a, -group["lr"] * b
        root = 1.5 * g.identity - 0.5 * g.combined(alpha, beta)
        stacks.apply(averages, root @ alpha, root @ beta)
