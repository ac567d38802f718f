"""Stacks of weights updated together: their K1×K1 matrices are one batch, whose phase runs once for all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

import torch
from torch import Tensor

from squircuit.execution.precision import double
from squircuit.optim.gram import CHUNK, Grams
from squircuit.optim.kernels import gram as kernel

MANY_ROWS = 32
"""Up to so many, K1×K1 matrices cost next to nothing whatever K2."""


@final
@dataclass
class Stacks:
    """Semi-unitary stacks of one dtype and device with their gradients and states.

    On a GPU, stacks of at most 16 rows are one group whatever their K1: smaller matrices are filled up
    with rows of the identity, which no method moves. Elsewhere a group has one K1.
    """

    rows: int  # K1, the largest
    fused: bool  # by the kernels
    weights: list[Tensor] = field(default_factory=list)  # (S, K1, K2) each
    gradients: list[Tensor] = field(default_factory=list)
    states: list[dict[str, Any]] = field(default_factory=list)

    @property
    def are_nearly_square(self) -> bool:
        """K1×K1 matrices are about as large as the weights, so the Gram core does not pay."""
        return self.rows > MANY_ROWS and any(weight.shape[2] < 4 * self.rows for weight in self.weights)

    @property
    def sizes(self) -> list[int]:
        return [len(weight) for weight in self.weights]

    def state(self, name: str) -> list[Tensor]:
        """One entry of the states, shaped as the gradients; zeros at first."""
        for gradient, state in zip(self.gradients, self.states, strict=True):
            if name not in state:
                state[name] = torch.zeros_like(gradient, memory_format=torch.contiguous_format)
        return [state[name] for state in self.states]

    def spread(self, values: list[Tensor]) -> Tensor:
        """One number of each parameter, () each, repeated for each of its matrices: (N, 1, 1)."""
        parts = [v.expand(size, 1, 1) for v, size in zip(values, self.sizes, strict=True)]
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    def advance(self, averages: list[Tensor], decay: float, factor: float) -> tuple[Grams, Tensor]:
        """m ← decay·m + factor·g in place; the Grams of X and m, and the squared norms of the rows of g.

        Returns:
            Grams of (N, K1, K1) and norms (N, K1, 1), N the matrices of all parameters.
        """
        if self.fused:
            return self._advance_fused(averages, decay, factor)
        self.accumulate(averages, decay, factor)
        found = [Grams.of(x, m) for x, m in zip(self.weights, averages, strict=True)]
        if len(found) == 1:
            return found[0], self.norms
        parts = zip(*((g.xx, g.xm, g.mm) for g in found), strict=True)
        return Grams(*(torch.cat(part) for part in parts)), self.norms

    def accumulate(self, averages: list[Tensor], decay: float, factor: float) -> None:
        """m ← decay·m + factor·g, in place."""
        for average, gradient in zip(averages, self.gradients, strict=True):
            if decay + factor == 1:
                real_view(average).lerp_(real_view(gradient), factor)  # one pass in place of two
            else:
                real_view(average).mul_(decay).add_(real_view(gradient), alpha=factor)

    @cached_property
    def norms(self) -> Tensor:
        """The squared norms of the rows of the gradients: (N, K1, 1)."""
        found = [torch.linalg.vector_norm(real_view(g), dim=-1, keepdim=True) for g in self.gradients]
        return (torch.cat(found) if len(found) > 1 else found[0]).square_()

    def _advance_fused(self, averages: list[Tensor], decay: float, factor: float) -> tuple[Grams, Tensor]:
        sums = kernel.Sums(sum(self.sizes), self.rows, self.weights[0].device)
        for start, x, g, m in zip(self._starts(), self.weights, self.gradients, averages, strict=True):
            kernel.momentum_and_grams(x, g, m, decay, factor, sums, start)
        xx, xm, mm, norms = sums.grams()
        if any(weight.shape[1] < self.rows for weight in self.weights):
            filling = torch.cat([_filling(self.rows, w) for w in self.weights])
            xx = xx + torch.diag_embed(filling)
        return Grams(double(xx), double(xm), double(mm)), norms

    def apply(self, averages: list[Tensor], alpha: Tensor, beta: Tensor) -> None:
        """X ← αX + βM of every parameter, in place."""
        if self.fused:
            factors = kernel.factors(alpha, beta)
            for start, weight, average in zip(self._starts(), self.weights, averages, strict=True):
                kernel.combine(weight, average, factors, start)
            torch.autograd.graph.increment_version(self.weights)  # torch does not see what kernels change
            return
        for weight, average, a, b in zip(
            self.weights, averages, torch.split(alpha, self.sizes), torch.split(beta, self.sizes), strict=True
        ):
            _combine(weight, average, a.to(weight.dtype), b.to(weight.dtype))

    def _starts(self) -> Iterator[int]:
        start = 0
        for size in self.sizes:
            yield start
            start += size


def _combine(weight: Tensor, average: Tensor, alpha: Tensor, beta: Tensor) -> None:
    """X ← αX + βM in place, a few matrices at a time, so that a CPU's caches hold what lies between."""
    step = len(weight) if weight.is_cuda else max(1, 4 * CHUNK // weight[0].numel())
    for start in range(0, len(weight), step):
        part = slice(start, start + step)
        moved = torch.bmm(beta[part], average[part]).baddbmm_(alpha[part], weight[part])
        weight[part] = moved


def grouped(parameters: Iterable[tuple[Tensor, Tensor, dict[str, Any]]]) -> list[Stacks]:
    """Weights (S, K1, K2), gradients and states in as few groups as can be."""
    made: dict[tuple[Any, ...], Stacks] = {}
    for weight, gradient, state in parameters:
        fused = kernel.usable(weight)
        key = (weight.dtype, weight.device, "fused" if fused else weight.shape[1])
        stacks = made.setdefault(key, Stacks(rows=0, fused=fused))
        stacks.rows = max(stacks.rows, weight.shape[1])
        stacks.weights.append(weight)
        stacks.gradients.append(gradient)
        stacks.states.append(state)
    return list(made.values())


def real_view(value: Tensor) -> Tensor:
    """(…, K2) complex as (…, 2·K2) real, no copy; torch's complex arithmetic is slow."""
    return torch.view_as_real(value.resolve_conj()).flatten(-2) if value.is_complex() else value


def _filling(rows: int, weight: Tensor) -> Tensor:
    """1 for the rows that a smaller matrix lacks: (S, rows)."""
    missing = torch.arange(rows, device=weight.device) >= weight.shape[1]
    return missing.float().expand(len(weight), rows)
