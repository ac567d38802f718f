"""Derivatives against differences of the oracle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from fuzz.functions import Array
from fuzz.questions.asked import DOUBLE, OfRows, Problem, Subject, at_weights, unequal


@dataclass(frozen=True)
class Gradient(OfRows):
    """The derivative of log p along a random direction, tangent where weights are semi-unitary now."""

    seed: int = 0
    step: float = 1e-5

    @property
    def kind(self) -> str:
        return "gradient of log_prob"

    def applies(self, subject: Subject) -> bool:
        error = subject.relative(self.rows, self.mask)[1]
        has = any(True for _ in subject.model.parameters())
        return has and subject.precision == DOUBLE and bool((error < 1e-7 + 2 * subject.slack).all())

    def expression(self, name: str) -> str:
        return (
            f"torch.autograd.grad({name}.log_prob({self.arguments}).sum(), "
            f"[p for p in {name}.parameters()], allow_unused=True)"
        )

    def check(self, subject: Subject, answer: Any) -> Problem | None:
        model = subject.model
        generator = torch.Generator().manual_seed(self.seed)
        slope, ahead, behind = 0.0, {}, {}
        kept = {name: p.detach().clone() for name, p in model.named_parameters()}
        for (name, p), g in zip(model.named_parameters(), answer, strict=True):
            constraint = getattr(p, "constraint", "free")
            way = _direction(p.detach(), constraint if _is_orthonormal(p.detach()) else "free", generator)
            if g is not None:
                slope += float((g.conj() * way).real.sum())
            ahead[name], behind[name] = p.detach() + self.step * way, p.detach() - self.step * way
        pairs = [self._moved(subject, weights) for weights in (ahead, behind)]
        near = [{n: (w + 9 * kept[n]) / 10 for n, w in weights.items()} for weights in (ahead, behind)]
        nearer = [self._moved(subject, weights) for weights in near]
        if any(each is None for each in (*pairs, *nearer)):
            return None
        expected = (pairs[0] - pairs[1])[0] / (2 * self.step)
        again = (nearer[0] - nearer[1])[0] / (0.2 * self.step)
        here = self._logs(subject)
        bend, less = (abs(a + b - 2 * here) for a, b in (pairs, nearer))
        if not (abs(expected - again) <= 1e-3 * (1 + abs(again)) and (bend < 0.1).all()):
            return None  # so curved, or rounded, that differences tell nothing
        if (less > bend / 10 + 1e-9).any():
            return None  # both steps are far beyond where the slope is that of the middle
        curvature = bend[0] / self.step
        limit = 1e-4 * (1 + abs(expected) + abs(slope)) + 0.02 * curvature
        limit += 2 * abs(expected - again)  # the third derivative, or rounding, at the two steps
        return unequal(subject, self.kind, slope, np.array(expected), np.array(limit))

    def _moved(self, subject: Subject, weights: dict[str, Any]) -> Any:
        """Those of the oracle at other weights."""
        with at_weights(subject, weights) as other:
            return self._logs(other) if other.is_sound else None

    def _logs(self, subject: Subject) -> Array:
        """log p of all rows together and log Z, the slope of which may cancel in it: (2,)."""
        return np.array([subject.log_prob(self.rows, self.mask)[0].sum(), subject.oracle.log_z])


def _is_orthonormal(value: Any) -> bool:
    """Rows are so to rounding, for otherwise derivatives in all directions are right."""
    if value.ndim < 2 or not bool(value.isfinite().all()):
        return False
    return float((value @ value.mH - torch.eye(value.shape[-2])).abs().max()) < 1e-6


def _direction(value: Any, constraint: str, generator: Any) -> Any:
    """A direction of change: A W with A skew-Hermitian where rows are orthonormal."""
    noise = torch.randn(value.shape, generator=generator, dtype=value.dtype)
    if constraint != "semi-unitary":
        size = torch.where(value.isfinite(), value.abs(), 0.0)
        rows = size.amax(dim=-1, keepdim=True) if value.ndim else size  # of which one may be 1e30 of another
        least = rows[rows > 0].min() if bool((rows > 0).any()) else rows.new_tensor(1.0)
        size = torch.maximum(size, 1e-3 * torch.where(rows > 0, rows, least))
        return torch.where(value.isfinite(), noise * size, 0.0)
    square = torch.randn((*value.shape[:-1], value.shape[-2]), generator=generator, dtype=value.dtype)
    return (square - square.mH) @ value / 2
