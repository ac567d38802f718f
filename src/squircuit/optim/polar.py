"""Feasible methods: Polar (exact retraction) and POGO (one Newton–Schulz step)."""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor

from squircuit.errors import ParameterError
from squircuit.optim.base import Params, StiefelOptimizer, vector_adam, vector_scale
from squircuit.optim.bundle import Bundle
from squircuit.optim.gram import STEPS, Grams, inverse_square_root, root_of_trace
from squircuit.optim.kernels import polar as kernel
from squircuit.optim.wide import NUMBERS, polar_step

LARGEST = 100.0
"""Rates above count as this. Far above, X − ηR would lose all digits where R, the tangent part of the
momentum, is a small difference of large numbers; more than ``trust`` is not moved in any case."""


@final
class Polar(StiefelOptimizer):
    """VectorAdam along the tangent space, back to the manifold by the polar decomposition at every step.

    X⁺ = (Y Yᴴ)^(-1/2) Y with Y = X − ηR, R the tangent part of the momentum (Euclidean metric), scaled, with
    η‖R‖_F ≤ ``trust`` and η ≤ 100. Weights are semi-unitary after each step up to rounding, whatever the
    learning rate, so the loss that is printed is the true one. The default.

    Example:
        >>> import torch
        >>> weight = torch.nn.Parameter(torch.eye(2, 4))
        >>> optimiser = Polar([{"params": [weight], "constrained": True}], lr=0.1)
        >>> (weight * torch.arange(8.0).reshape(2, 4)).sum().backward()
        >>> _ = optimiser.step()
        >>> bool(torch.allclose(weight @ weight.T, torch.eye(2), atol=1e-6))
        True
    """

    def __init__(
        self,
        params: Params,
        lr: float = 0.2,
        *,
        free_lr: float = 0.01,
        betas: tuple[float, float] = (0.9, 0.99),
        eps: float = 1e-12,
        second_moment: str = "row",
        trust: float = 0.5,
        weight_decay: float = 0.0,
    ) -> None:
        if not 0 < trust <= 1:
            raise ParameterError(
                f"trust={trust}: the retraction converges only in (0, 1]. Fix: pass a number there, like 0.5."
            )
        options = {"lr": lr, "free_lr": free_lr, "betas": betas, "eps": eps, "trust": trust}
        super().__init__(params, {**options, "second_moment": second_moment, "weight_decay": weight_decay})

    def update(self, bundle: Bundle, group: dict[str, Any]) -> None:
        if bundle.is_wide:
            self._update_wide(bundle, group)
            return
        averages, g, scale = vector_adam(bundle, group)
        bundle.apply(averages, *polar_factors(g, scale, _bounded(group["lr"]), group["trust"]))

    def _update_wide(self, bundle: Bundle, group: dict[str, Any]) -> None:
        averages, beta = bundle.state("exp_avg"), group["betas"][0]
        bundle.accumulate(averages, beta, 1 - beta)
        scale, rate = vector_scale(bundle, bundle.norms, group), _bounded(group["lr"])
        parts = zip(bundle.weights, averages, torch.split(scale, bundle.sizes), strict=True)
        for weight, average, factor in parts:
            at_once = max(1, NUMBERS // weight[0].numel())
            for start in range(0, len(weight), at_once):
                part = slice(start, start + at_once)
                polar_step(weight[part], average[part], factor[part], rate, group["trust"])


def _bounded(lr: float | Tensor) -> float | Tensor:
    return lr.clamp(max=LARGEST) if isinstance(lr, Tensor) else min(lr, LARGEST)


def polar_factors(g: Grams, scale: Tensor, lr: float | Tensor, trust: float) -> tuple[Tensor, Tensor]:
    """α, β of X⁺ = αX + βM = (YYᴴ)^(-1/2) Y with Y = X − ηD, D the scaled tangent part of M, η‖D‖ ≤ trust."""
    steps = STEPS if trust <= 0.5 else 2 * STEPS
    if kernel.usable(g.xx):
        return kernel.polar_factors(g.xx, g.xm, g.mm, scale, lr, trust, steps)
    a, b = g.scaled(*g.euclidean(), scale)
    slope, square = g.line(a, b)
    rate = (trust / (root_of_trace(square) + 1e-30)).clamp_max(lr)
    root = inverse_square_root(g.xx - rate * slope + rate.square() * square, steps)
    return root - rate * (root @ a), root * (-rate * b).mT


@final
class POGO(StiefelOptimizer):
    """The same with the canonical metric and a single Newton–Schulz step (arXiv 2602.14656).

    Y = X − ηR with R = ½[(XXᴴ)M − (XMᴴ)X], then X⁺ = ½(3I − YYᴴ)Y.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 0.2,
        *,
        free_lr: float = 0.01,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        second_moment: str = "matrix",
        weight_decay: float = 0.0,
    ) -> None:
        options = {"lr": lr, "free_lr": free_lr, "betas": betas, "eps": eps}
        super().__init__(params, {**options, "second_moment": second_moment, "weight_decay": weight_decay})

    def update(self, bundle: Bundle, group: dict[str, Any]) -> None:
        averages, g, scale = vector_adam(bundle, group)
        a, b = g.scaled(*g.canonical(), scale)
        alpha, beta = g.identity - group["lr"] * a, -group["lr"] * b
        root = 1.5 * g.identity - 0.5 * g.combined(alpha, beta)
        bundle.apply(averages, root @ alpha, root @ beta)
