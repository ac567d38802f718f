"""Noise on training data that stays in the domains of the variables."""

from __future__ import annotations

from typing import final

import numpy as np
import torch
from torch import Tensor

from squircuit.circuits import Circuit
from squircuit.families import Fourier


def noise_seed(seed: int, step: int) -> int:
    """A seed of one step, below 2⁶³ whatever the seed of the run.

    Example:
        >>> noise_seed(1, 2), 0 <= noise_seed(2**63 - 1, 5) < 2**63
        (1099511627778, True)
    """
    if seed < 2**23:
        return (seed << 40) + step
    return int(np.random.SeedSequence([seed, step]).generate_state(1, np.uint64)[0] >> 1)


@final
class Jitter:
    """Fresh Gaussian noise on the continuous columns; wrapped on circles, reflected at the ends of intervals.

    The noise of a step is a function of the seed and the step, so a resumed run sees the same.

    Args:
        circuit: whose data it is added to.
        scale: standard deviation.
        seed: of the noise.
        device: of the batches.
    """

    def __init__(self, circuit: Circuit, scale: float, seed: int, device: torch.device) -> None:
        self._seed, self._generator = seed, torch.Generator(device)
        domains = circuit.column_domains.on(device)
        self._scale, self._bounds = float(scale) * ~domains.discrete, domains.bounds
        on_circles = {layer.variable for layer in circuit.inputs if isinstance(layer.family, Fourier)}
        self._periodic = torch.tensor([v in on_circles for v in range(len(domains))], device=device)

    @classmethod
    def of(cls, circuit: Circuit, scale: float, seed: int, device: torch.device) -> Jitter | None:
        """Noise for the data of a circuit; None where there is nothing to add."""
        nothing = not scale or circuit.column_domains.is_discrete
        return None if nothing else cls(circuit, scale, seed, device)

    def __call__(self, x: Tensor, step: int, start: int = 0, whole: int | None = None) -> Tensor:
        """Rows (n, d) of floats with noise.

        Args:
            x: the rows.
            step: of the training.
            start, whole: where rows are a part of a batch, the place of the first one in it, and how many
                rows the batch has, all of which have noise of their own.
        """
        self._generator.manual_seed(noise_seed(self._seed, step))
        shape = (len(x) if whole is None else whole, x.shape[1])
        noise = torch.randn(shape, dtype=x.dtype, device=x.device, generator=self._generator)
        noise = noise[start : start + len(x)]
        moved = x + noise * self._scale.to(x.dtype)
        low, high = self._bounds.to(x.dtype)
        wrapped = low + torch.remainder(moved - low, high - low)
        reflected = torch.where(
            moved < low, 2 * low - moved, torch.where(moved > high, 2 * high - moved, moved)
        )
        return torch.where(self._periodic, wrapped, reflected).clamp(low, high)
