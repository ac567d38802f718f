"""From a few latent numbers to the tables of a product of categories."""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import Self, final

import torch
from torch import Tensor
from torch.nn import functional

from squircuit.learning.mixture import Layout

HIDDEN = (64, 128, 256)
"""Units of the layers between."""
EDGE = 1e-6
"""Points of the unit cube keep this far from its faces, where normal quantiles are infinite."""


@final
class Decoder(torch.nn.Module):
    """g: ℝ^D → log-tables of products of categories, by layers of leaky rectified linear units.

    Args:
        layout: of the columns, all of them categories.
        dimension: D.

    Example:
        >>> layout = Layout.of(3, {0: 2, 1: 3, 2: 2})
        >>> decoder = Decoder.of(layout, 2, torch.tensor([0.5, 0.5, 0.2, 0.3, 0.5, 0.9, 0.1]), seed=0)
        >>> tables = decoder(latent_points(4, 2, seed=0)).exp()
        >>> tables.shape, bool((tables[:, 2:5].sum(1) - 1).abs().max() < 1e-6)
        (torch.Size([4, 7]), True)
    """

    RATE = 2e-3
    """The learning rate."""

    def __init__(self, layout: Layout, dimension: int) -> None:
        super().__init__()
        self._sizes = list(layout.categories.values())
        widths = (dimension, *HIDDEN, sum(self._sizes) - len(self._sizes))
        self.layers = torch.nn.ModuleList(torch.nn.Linear(*pair) for pair in itertools.pairwise(widths))

    @classmethod
    def of(cls, layout: Layout, dimension: int, frequencies: Tensor, seed: int) -> Self:
        """A decoder that begins around given frequencies of all states, (Σ states,)."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            made = cls(layout, dimension)
        parts = torch.split(frequencies.float().log(), made._sizes)
        last = made.layers[-1]
        assert isinstance(last, torch.nn.Linear)
        with torch.no_grad():
            last.bias.copy_(torch.cat([part[1:] - part[0] for part in parts]))
        return made.to(frequencies.device)

    def forward(self, z: Tensor) -> Tensor:
        """log P_v(s | z): (N, D) → (N, Σ states)."""
        for layer in self.layers[:-1]:
            z = functional.leaky_relu(layer(z))
        logits: Tensor = self.layers[-1](z)
        if set(self._sizes) == {2}:  # all columns at once
            return functional.pad(logits[..., None], (1, 0)).log_softmax(-1).flatten(1)
        parts = torch.split(logits, [size - 1 for size in self._sizes], dim=1)
        return torch.cat([functional.pad(part, (1, 0)).log_softmax(1) for part in parts], dim=1)


def latent_points(count: int, dimension: int, seed: int, generator: torch.Generator | None = None) -> Tensor:
    """Points of low discrepancy under a normal distribution: (count, dimension).

    Sobol points of the unit cube, shifted by one random vector where a generator is given (modulo 1, so that
    each of them is uniform), and through the normal quantiles.

    Example:
        >>> z = latent_points(1024, 2, seed=0)
        >>> abs(z.mean().item()) < 0.01, abs(z.var().item() - 1) < 0.02
        (True, True)
    """
    points = _sobol(count, dimension, seed)
    if generator is not None:
        points = (points + torch.rand(dimension, generator=generator)) % 1
    normal: Tensor = torch.special.ndtri(points.clamp(EDGE, 1 - EDGE))
    return normal


@lru_cache(maxsize=8)
def _sobol(count: int, dimension: int, seed: int) -> Tensor:
    engine = torch.quasirandom.SobolEngine(dimension, scramble=True, seed=seed)  # type: ignore[no-untyped-call]
    points: Tensor = engine.draw(count)
    return points
