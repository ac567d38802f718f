"""The sets in which a variable takes its values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from squircuit.errors import DataError
from squircuit.families.checks import require_count, require_finite, require_ordered


class Domain(ABC):
    """A set of values of one variable; equal domains compare equal and hash alike."""

    is_discrete: ClassVar[bool] = False

    @property
    @abstractmethod
    def bounds(self) -> tuple[float, float]:
        """The lowest and the highest value, infinite where there is none."""

    @property
    @abstractmethod
    def anchor(self) -> float:
        """Some value inside the domain: it stands in for values outside where a function is computed."""

    def contains(self, x: Tensor) -> Tensor:
        """Which entries of ``x`` (any shape) lie in the domain: booleans of that shape. NaN lies in none."""
        low, high = self.bounds
        if not x.is_floating_point():
            x = x.to(torch.int64)  # 256 does not fit into a uint8, the usual type of images
            return (x >= low) & (x <= high)
        inside = (x >= low) & (x <= high) & x.isfinite()
        return inside & (x == x.floor()) if self.is_discrete else inside

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
    def bounds(self) -> tuple[float, float]:
        return 0, self.size - 1

    @property
    def anchor(self) -> float:
        return 0.0

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
    def bounds(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def anchor(self) -> float:
        return self.low + (self.high - self.low) / 2

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
    def bounds(self) -> tuple[float, float]:
        return self.start, torch.inf

    @property
    def anchor(self) -> float:
        return self.start

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
    def bounds(self) -> tuple[float, float]:
        return -torch.inf, torch.inf

    @property
    def anchor(self) -> float:
        return 0.0

    def describe(self) -> str:
        return "the real line"


@final
class Domains:
    """The domains of all columns of a table: the one place where values are compared with them.

    Args:
        domains: of columns 0, …, d − 1; None where a column is not used, so that it may hold anything.

    Attributes:
        discrete, used: which columns are so, (d,) booleans.
        bounds: lowest and highest values, (2, d).
        anchors: a value inside each domain, (d,).

    Example:
        >>> domains = Domains([Finite(3), Interval(-1.0, 1.0), None])
        >>> x = torch.tensor([[2.0, 0.5, 9.0], [0.5, 7.0, torch.nan]])
        >>> domains.contain(x)
        tensor([[ True,  True,  True],
                [False, False,  True]])
        >>> domains.contain(x, beyond=True)[1]  # numbers beyond an interval have density 0
        tensor([False,  True,  True])
    """

    def __init__(self, domains: Sequence[Domain | None]) -> None:
        self._domains = tuple(domains)
        bounds = [(-torch.inf, torch.inf) if domain is None else domain.bounds for domain in self._domains]
        self.used = torch.tensor([domain is not None for domain in self._domains])
        self.discrete = torch.tensor([domain is not None and domain.is_discrete for domain in self._domains])
        self.bounds = torch.tensor(bounds, dtype=torch.float64).reshape(-1, 2).T
        anchors = [0.0 if domain is None else domain.anchor for domain in self._domains]
        self.anchors = torch.tensor(anchors, dtype=torch.float64)
        self._elsewhere: dict[torch.device, Domains] = {}

    def __len__(self) -> int:
        return len(self._domains)

    @property
    def is_discrete(self) -> bool:
        """All variables are discrete."""
        return bool((self.discrete | ~self.used).all())

    @property
    def states(self) -> set[int]:
        """How many states discrete variables have."""
        return {domain.size for domain in self._domains if isinstance(domain, Finite)}

    def on(self, device: torch.device) -> Domains:
        """The same with its tensors on a device, where they are then kept."""
        if device == self.used.device:
            return self
        if device not in self._elsewhere:
            moved = Domains(self._domains)
            for name in ("used", "discrete", "bounds", "anchors"):
                setattr(moved, name, getattr(self, name).to(device))
            self._elsewhere[device] = moved
        return self._elsewhere[device]

    def contain(self, x: Tensor, beyond: bool = False) -> Tensor:
        """Which entries of (…, d) lie in the domains of their columns; NaN and infinity lie in none.

        Args:
            x: numbers of any type.
            beyond: let finite numbers of continuous variables lie outside, where the density is 0.
        """
        here = self.on(x.device)
        low, high = here.bounds
        inside: Tensor = (x >= low) & (x <= high)
        if beyond:
            inside |= ~here.discrete
        if x.is_floating_point():
            inside &= x.isfinite() & (~here.discrete | (x == x.floor()))
        inside |= ~here.used
        return inside

    def require(
        self,
        x: Tensor,
        missing: Tensor | None = None,
        *,
        beyond: bool = False,
        name: str = "",
        first_row: int = 0,
        fix: str = "correct it, or mark the entry in missing= if its value is not known",
    ) -> None:
        """Refuse rows (n, d) of which a cell lies outside its domain, with the place of the first.

        Args:
            x: the rows.
            missing: cells that are not looked at, (n, d) or (d,).
            beyond: as for `contain`.
            name: of the data, and the number of its first row here, for the error.
            first_row: see there.
            fix: what the user can do.
        """
        valid = self.contain(x, beyond)
        if missing is not None:
            valid = valid | missing
        if bool(valid.all()):
            return
        row, column = (int(i) for i in torch.nonzero(~valid)[0])
        domain = self._domains[column]
        assert domain is not None
        outside = f"{x[row, column].item()!r} is not in the domain, {domain.describe()}"
        place = f"{name}: " * bool(name) + f"row {first_row + row}, column {column}"
        raise DataError(f"{place}: {outside}{'' if beyond else ', so its probability is 0'}. Fix: {fix}.")
