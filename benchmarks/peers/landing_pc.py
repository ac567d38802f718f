"""The paper's LandingPC in plain torch, for peers without an optimiser for semi-unitary weights.

It is written to be fast, so that the comparison is fair: all matrices of one shape in one batched product,
nothing parameter-sized beside the momentum and Λ, and distances from Grams that are needed anyway.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor


class LandingPC(torch.optim.Optimizer):
    """VectorAdam with RAdam's rectification, landing field, safe step, projection.

    X ← X − ηΛ with Λ = R + λ(XXᴴ − I)X and R = ½[(XXᴴ)M − (XMᴴ)X], for stacks (F, K1, K2) of wide matrices;
    those farther than ``radius`` from the manifold are projected first.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 0.05,
        attraction: float = 0.1,
        radius: float = 0.5,
        betas: tuple[float, float] = (0.9, 0.999),
        capturable: bool = False,
    ) -> None:
        super().__init__(params, {"lr": lr, "attraction": attraction, "radius": radius, "betas": betas})
        device = self.param_groups[0]["params"][0].device
        self._count: int | Tensor = torch.zeros((), device=device) if capturable else 0

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        self._count += 1
        for group in self.param_groups:
            rate = group["lr"] * _rectification(self._count, group["betas"][1])
            weights = [p for p in group["params"] if p.grad is not None]
            for weight in weights:
                self._update(weight, weight.grad, group, rate)

    def _update(self, weight: Tensor, gradient: Tensor, group: dict[str, Any], rate: float | Tensor) -> None:
        x = weight.view(-1, *weight.shape[-2:])
        momentum, scale = self._moments(weight, gradient.view_as(x), group["betas"])
        error, distance = _error(x)
        if _may_ask_host(x) and bool((distance > group["radius"]).any()):
            x[distance > group["radius"]] = project(x[distance > group["radius"]])
            error, distance = _error(x)
        field = _landing_field(x, momentum, scale, error, group["attraction"])
        step = safe_step(distance, norm(field, (1, 2)), group["attraction"], group["radius"])
        x.addcmul_(field, step.clamp_max(rate)[:, None, None].to(x.dtype), value=-1)

    def _moments(self, weight: Tensor, g: Tensor, betas: tuple[float, float]) -> tuple[Tensor, Tensor]:
        """The average m of the gradient, and 1/((1−β₁ᵗ)√v̂) of each matrix: (F, K1, K2), (F,)."""
        state = self.state[weight]
        if not state:
            state["exp_avg"] = torch.zeros_like(g)
            state["exp_avg_sq"] = torch.zeros(len(g), dtype=g.real.dtype, device=g.device)
        average, square = state["exp_avg"], state["exp_avg_sq"]
        average.lerp_(g, 1 - betas[0])
        square.lerp_(norm(g, (1, 2)).square(), 1 - betas[1])
        root = (square / (1 - betas[1] ** self._count)).sqrt().add_(1e-8)
        return average, 1 / (root * (1 - betas[0] ** self._count))


def project(x: Tensor) -> Tensor:
    """The nearest semi-unitary matrices: U Vᴴ of x = U Σ Vᴴ, from the small Gram matrices."""
    values, vectors = torch.linalg.eigh((x @ x.mH).to(torch.complex128))
    root = (vectors * values.rsqrt().unsqueeze(1)) @ vectors.mH
    nearest: Tensor = root.to(x.dtype) @ x
    return nearest


@torch.no_grad()
def orthonormalise(x: Tensor) -> None:
    """Make the rows of random matrices (F, K1, K2) orthonormal, in place and in small parts."""
    for part in torch.split(x, 16):
        rows = part.to(torch.complex128)
        for _ in range(2):
            rows = torch.linalg.solve_triangular(torch.linalg.cholesky(rows @ rows.mH), rows, upper=False)
        part.copy_(rows)


def safe_step(distance: Tensor, size: Tensor, attraction: float, radius: float) -> Tensor:
    """The longest step that stays within ``radius``, given the size of the field: (F,)."""
    pull = attraction * distance * (1 - distance)
    root = (pull.square() + size.square() * (radius - distance).clamp_min(0)).sqrt()
    return ((pull + root) / (size.square() + 1e-8)).clamp_max(1 / (2 * attraction))


def norm(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """‖x‖_F without torch's slow norm of complex numbers."""
    parts = torch.view_as_real(x) if x.is_complex() else x.unsqueeze(-1)
    size: Tensor = torch.linalg.vector_norm(parts, dim=(*dims, -1))
    return size


def _error(x: Tensor) -> tuple[Tensor, Tensor]:
    """XXᴴ − I and its norm."""
    error = torch.bmm(x, x.mH)
    error.diagonal(dim1=1, dim2=2).sub_(1)
    return error, norm(error, (1, 2))


def _landing_field(x: Tensor, m: Tensor, scale: Tensor, error: Tensor, attraction: float) -> Tensor:
    """Λ = ½s(S M − C X) + λ(S − I)X = (½sS) M + (λ(S−I) − ½sC) X with S = XXᴴ, C = XMᴴ."""
    half = 0.5 * scale[:, None, None].to(x.dtype)
    towards = attraction * error - half * torch.bmm(x, m.mH)
    gram = error.clone()
    gram.diagonal(dim1=1, dim2=2).add_(1)
    return torch.bmm(half * gram, m).baddbmm_(towards, x)


def _rectification(count: int | Tensor, beta: float) -> float | Tensor:
    """RAdam's r_t; 0 while the second moment is not known well enough."""
    limit = 2 / (1 - beta) - 1
    rho = limit - 2 * count * beta**count / (1 - beta**count)
    ratio = (rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho)
    if isinstance(rho, Tensor) and isinstance(ratio, Tensor):
        return torch.where(rho > 5, ratio.clamp_min(0).sqrt(), 0.0)
    return math.sqrt(ratio) if rho > 5 else 0.0


def _may_ask_host(x: Tensor) -> bool:
    return not (x.is_cuda and torch.cuda.is_current_stream_capturing())
