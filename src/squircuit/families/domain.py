"""The sets in which a variable takes its values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from squircuit.families.checks import require_count, require_finite, require_ordered


class Domain(ABC):
    """A set of values of one variable; equal domains compare equal and hash alike."""

    is_discrete: ClassVar[bool] = False

    @property
    @abstractmethod
    def anchor(self) -> float:
        """Some value inside the domain: it stands in for values outside where a function is computed."""

    @abstractmethod
    def contains(self, x: Tensor) -> Tensor:
        """Which entries of ``x`` (any shape) lie in the domain: booleans of that shape. NaN lies in none."""

    @abstractmethod
    def describe(self) -> str:
        """The domain in words, for error messages."""


@final
@dataclass(frozen=True)
class Finite(Domain):
    """The integers 0, …, size − 1.

    Example:
        >>> Finite(3).contains(torch.tensor([0.0, 2.0, 3.0, 0.5]))
        tensor([ True,  True, False, False])
    """

    size: int
    is_discrete: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_count(self, "size")

    @property
    def anchor(self) -> float:
        return 0.0

    def contains(self, x: Tensor) -> Tensor:
        if not x.is_floating_point():
            x = x.to(torch.int64)  # 256 does not fit into a uint8, the usual type of images
            return (x >= 0) & (x < self.size)
        return (x >= 0) & (x < self.size) & (x == x.floor())

    def describe(self) -> str:
        return f"integers 0 to {self.size - 1}"


@final
@dataclass(frozen=True)
class Interval(Domain):
    """The closed interval [low, high].

    Example:
        >>> Interval(0.0, 1.0).describe()
        'the interval [0, 1]'
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        require_ordered(self, "low", "high")

    @property
    def anchor(self) -> float:
        return self.low + (self.high - self.low) / 2

    def contains(self, x: Tensor) -> Tensor:
        return (x >= self.low) & (x <= self.high)

    def describe(self) -> str:
        return f"the interval [{self.low:.12g}, {self.high:.12g}]"


@final
@dataclass(frozen=True)
class HalfLine(Domain):
    """The numbers from ``start`` upwards.

    Example:
        >>> HalfLine(2.0).contains(torch.tensor([1.9, 2.0, torch.inf]))
        tensor([False,  True, False])
    """

    start: float

    def __post_init__(self) -> None:
        require_finite(self, "start")

    @property
    def anchor(self) -> float:
        return self.start

    def contains(self, x: Tensor) -> Tensor:
        return (x >= self.start) & x.isfinite()

    def describe(self) -> str:
        return f"the half-line [{self.start:.12g}, ∞)"


@final
@dataclass(frozen=True)
class Line(Domain):
    """All real numbers.

    Example:
        >>> Line().contains(torch.tensor([-1e30, torch.nan]))
        tensor([ True, False])
    """

    @property
    def anchor(self) -> float:
        return 0.0

    def contains(self, x: Tensor) -> Tensor:
        return x.isfinite()

    def describe(self) -> str:
        return "the real line"
