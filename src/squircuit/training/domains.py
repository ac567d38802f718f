"""What values the variables of a model take: checks of whole tables, and noise that stays inside."""

from __future__ import annotations

from functools import cached_property
from typing import final

import numpy as np
import torch
from torch import Tensor

from squircuit.circuits import Circuit
from squircuit.errors import DataError
from squircuit.families import Fourier
from squircuit.families.domain import Domain, Finite, HalfLine, Interval


@final
class Domains:
    """The domains of all columns at once: lowest and highest value, (d,) each.

    Example:
        >>> import squircuit as sq
        >>> circuit = sq.build(sq.regions.linear(2), [sq.Categorical(3), sq.Fourier(5, period=4.0)], units=2)
        >>> Domains(circuit).require_inside(torch.tensor([[2.0, 0.5], [1.0, 2.5]]), None, "train")
        Traceback (most recent call last):
        squircuit.errors.DataError: train: row 1, column 1: 2.5 is not in the domain, the ...
    """

    def __init__(self, circuit: Circuit) -> None:
        self._domains = [circuit.domains.get(v) for v in range(circuit.num_variables)]
        self._periodic = {layer.variable for layer in circuit.inputs if isinstance(layer.family, Fourier)}

    def __len__(self) -> int:
        return len(self._domains)

    @property
    def is_discrete(self) -> bool:
        """All variables are discrete."""
        return all(domain is None or domain.is_discrete for domain in self._domains)

    @property
    def states(self) -> set[int]:
        """How many states discrete variables have."""
        return {domain.size for domain in self._domains if isinstance(domain, Finite)}

    @cached_property
    def discrete(self) -> Tensor:
        """Which columns are discrete: (d,)."""
        return torch.tensor([isinstance(domain, Finite) for domain in self._domains])

    @cached_property
    def periodic(self) -> Tensor:
        """Which columns lie on a circle: (d,)."""
        return torch.tensor([v in self._periodic for v in range(len(self))])

    @cached_property
    def used(self) -> Tensor:
        """Which columns the circuit reads: (d,)."""
        return torch.tensor([domain is not None for domain in self._domains])

    @cached_property
    def bounds(self) -> Tensor:
        """Lowest and highest value: (2, d), float64."""
        return torch.tensor([_bounds(domain) for domain in self._domains], dtype=torch.float64).T

    def require_inside(self, rows: Tensor, missing: Tensor | None, name: str, first_row: int = 0) -> None:
        """Refuse values outside: of discrete variables they mean nothing, of others they have density 0."""
        low, high = self.bounds
        valid = (rows >= low) & (rows <= high) & (rows.isfinite() if rows.is_floating_point() else True)
        if rows.is_floating_point():
            valid &= ~self.discrete | (rows == rows.floor())
        valid |= ~self.used
        if missing is not None:
            valid |= missing
        if not bool(valid.all()):
            row, column = (int(i) for i in torch.nonzero(~valid)[0])
            domain = self._domains[column]
            assert domain is not None
            raise DataError(
                f"{name}: row {first_row + row}, column {column}: {rows[row, column].item()!r} is not in the "
                f"domain, {domain.describe()}, so its probability is 0. Fix: correct or leave out the row, "
                "or build the model with a wider domain."
            )


def _bounds(domain: Domain | None) -> tuple[float, float]:
    if isinstance(domain, Finite):
        return 0, domain.size - 1
    if isinstance(domain, Interval):
        return domain.low, domain.high
    return (domain.start, torch.inf) if isinstance(domain, HalfLine) else (-torch.inf, torch.inf)


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
        domains: of the columns.
        scale: standard deviation.
        seed: of the noise.
        device: of the batches.
    """

    def __init__(self, domains: Domains, scale: float, seed: int, device: torch.device) -> None:
        self._seed, self._generator = seed, torch.Generator(device)
        self._scale = (float(scale) * ~domains.discrete).to(device)
        self._periodic, self._bounds = domains.periodic.to(device), domains.bounds.to(device)

    @classmethod
    def of(cls, circuit: Circuit, scale: float, seed: int, device: torch.device) -> Jitter | None:
        """Noise for the data of a circuit; None where there is nothing to add."""
        domains = Domains(circuit)
        return None if not scale or domains.is_discrete else cls(domains, scale, seed, device)

    def __call__(self, x: Tensor, step: int) -> Tensor:
        """Rows (n, d) of floats with noise."""
        self._generator.manual_seed(noise_seed(self._seed, step))
        noise = torch.randn(x.shape, dtype=x.dtype, device=x.device, generator=self._generator)
        moved = x + noise * self._scale.to(x.dtype)
        low, high = self._bounds.to(x.dtype)
        wrapped = low + torch.remainder(moved - low, high - low)
        reflected = torch.where(
            moved < low, 2 * low - moved, torch.where(moved > high, 2 * high - moved, moved)
        )
        return torch.where(self._periodic, wrapped, reflected).clamp(low, high)
