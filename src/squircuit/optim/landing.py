"""The paper's optimisers (App. "The Family of Landing Algorithms"), in the form for wide complex matrices.

The landing field Λ(X) = R + λ(XXᴴ − I)X has a part along the manifold, R = ½[(XXᴴ)G − (XGᴴ)X], and one
towards it; iterates stay near, not on, the manifold: XXᴴ ≽ I, so Z ≥ 1 and the raw loss flatters the model.
Evaluate only after :func:`squircuit.optim.project`.
"""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor

from squircuit.optim.base import Params, StiefelOptimizer, vector_adam
from squircuit.optim.gram import Grams, inverse_square_root
from squircuit.optim.stacks import Stacks


def safe_step(g: Grams, a: Tensor, b: Tensor, attraction: float, radius: float) -> Tensor:
    """The largest step that keeps ‖XXᴴ − I‖_F ≤ ε: (S, 1, 1).

    η* = min{[λd(1−d) + √(λ²d²(1−d)² + g²·max(0, ε−d))]/(g² + 1e-8), 1/(2λ)}, with d the distance, g = ‖Λ‖_F
    and Λ = aX + bM; it assumes that R is tangent at the present X.
    """
    error = g.xx - g.identity
    d = torch.linalg.matrix_norm(error)[..., None, None]
    field = g.norm(a, b)
    pull = attraction * d * (1 - d)
    root = (pull.square() + field.square() * (radius - d).clamp_min(0)).sqrt()
    step: Tensor = (pull + root) / (field.square() + 1e-8)
    return step.clamp_max(1 / (2 * attraction))


class _Landing(StiefelOptimizer):
    def _land(
        self,
        stacks: Stacks,
        averages: list[Tensor],
        g: Grams,
        scale: Tensor,
        group: dict[str, Any],
        rate: float | Tensor,
    ) -> None:
        """X ← X − ηΛ(X), and back to the manifold where that went too far and projection is on."""
        a, b = g.scaled(*g.canonical(), scale)
        # λ(XXᴴ − I)X is a multiple of X from the left; safe_step bounds what both parts do together
        a = a + group["attraction"] * (g.xx - g.identity)
        step = safe_step(g, a, b, group["attraction"], group["radius"]).clamp_max(rate)
        alpha, beta = g.identity - step * a, -step * b
        if group["project"]:
            gram = g.combined(alpha, beta)
            far = torch.linalg.matrix_norm(gram - g.identity)[..., None, None] > group["radius"]
            # a step may have gone far; divided by its norm, the Gram has eigenvalues in (0, 1]
            size = torch.linalg.matrix_norm(gram)[..., None, None]
            root = inverse_square_root(gram / size, steps=30) / size.sqrt()
            root = torch.where(far, root, g.identity)  # no branch: a captured step cannot ask the host
            alpha, beta = root @ alpha, root @ beta
        stacks.apply(averages, alpha, beta)


@final
class LandingSGD(_Landing):
    """Momentum SGD with the landing field (Alg. "LandingSGD"); with ``project`` the paper's LandingSGD*."""

    name, rate = "landing-sgd", 0.01
    is_capturable = True

    def __init__(
        self,
        params: Params,
        lr: float = rate,
        *,
        momentum: float = 0.9,
        dampening: float = 0.0,
        attraction: float = 0.1,
        radius: float = 0.5,
        project: bool = False,
        free_lr: float = 0.01,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(
            params, lr=lr, momentum=momentum, dampening=dampening, attraction=attraction, radius=radius,
            project=project, free_lr=free_lr, betas=betas, eps=eps, weight_decay=weight_decay,
        )  # fmt: skip

    def update(self, stacks: Stacks, group: dict[str, Any]) -> None:
        fresh = "momentum_buffer" not in stacks.states[0]  # torch's SGD starts from the first gradient
        buffers = stacks.state("momentum_buffer")
        g, norms = stacks.advance(buffers, group["momentum"], 1.0 if fresh else 1 - group["dampening"])
        self._land(stacks, buffers, g, torch.ones_like(norms[:, :1]).double(), group, group["lr"])


@final
class LandingPC(_Landing):
    """The paper's optimiser: VectorAdam (RAdam by flag) in place of the gradient, landing field, projection.

    With ``rectify`` (RAdam) the first steps, whose second moment is not known yet, are skipped rather than
    taken un-normalised, which makes log Z jump.
    """

    name, rate = "landing-pc", 0.05
    is_capturable = True

    def __init__(
        self,
        params: Params,
        lr: float = rate,
        *,
        rectify: bool = True,
        attraction: float = 0.1,
        radius: float = 0.5,
        project: bool = True,
        free_lr: float = 0.01,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        second_moment: str = "matrix",
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(
            params, lr=lr, rectify=rectify, attraction=attraction, radius=radius, project=project,
            free_lr=free_lr, betas=betas, eps=eps, second_moment=second_moment, weight_decay=weight_decay,
        )  # fmt: skip

    def update(self, stacks: Stacks, group: dict[str, Any]) -> None:
        averages, g, scale = vector_adam(stacks, group)
        rate: float | Tensor = group["lr"]
        if group["rectify"]:
            step = stacks.spread([state["step"] for state in stacks.states])
            rate = rate * rectification(step, group["betas"][1])
        self._land(stacks, averages, g, scale, group, rate)


def rectification(step: Tensor, beta2: float) -> Tensor:
    """RAdam's r_t = √[(ρ_t−4)(ρ_t−2)ρ∞ / ((ρ∞−4)(ρ∞−2)ρ_t)] for ρ_t > 5, else 0."""
    limit = 2 / (1 - beta2) - 1
    power = beta2**step
    rho = limit - 2 * step * power / (1 - power)
    ratio = (rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho)
    return torch.where(rho > 5, ratio.clamp_min(0).sqrt(), 0.0)
