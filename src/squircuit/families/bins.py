"""Bins: the functions that are even on one interval each, with tails where the line does not end."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from squircuit.errors import ParameterError, is_whole
from squircuit.families.base import Family, Values
from squircuit.families.cache import constant
from squircuit.families.checks import is_finite, wrong
from squircuit.families.domain import Domain, Interval, Line
from squircuit.families.knots import parts
from squircuit.families.tails import EXPONENTIAL, Ends, Tail

REACH = 100.0
"""e^(−100/2) is 2e-22: how many lengths of a tail integrals go."""
PANEL = 5.0
"""The width of the panels of a tail, in its lengths."""


@final
@dataclass(frozen=True)
class Bins(Family):
    r"""One function for each of m intervals between edges e_0 < … < e_m, even inside and 0 elsewhere,

    .. math:: \varphi_i(x) = \frac{[e_i \le x < e_{i+1}]}{\sqrt{e_{i+1} - e_i}},

    and with ``tails=(a, b)`` two more, before the first and after the last edge. Their squares are
    exponential densities of mean a and b: e^{−u/2a}/√a at the distance u from the edge. Then they live on the
    line.
    Being orthonormal with disjoint supports, they make a column of any shape, with spikes or zeros in plenty,
    into the states of a categorical one.

    Reference: "How to square tensor networks and circuits without squaring them", Related Work, "Possible
    choices of orthonormal functions" (Kronecker deltas, of a variable that was cut into intervals).

    Args:
        edges: e_0, …, e_m, increasing, at least two.
        tails: mean lengths of the two tails; None: the domain is the interval [e_0, e_m].

    Shapes: x (...,) → (..., m), or (..., m + 2) with tails.

    Example:
        >>> Bins(edges=(0.0, 1.0, 5.0)).evaluate(torch.tensor([0.5, 4.0]))
        tensor([[1.0000, 0.0000],
                [0.0000, 0.5000]])
    """

    edges: tuple[float, ...]
    tails: tuple[float, float] | None = None
    is_orthonormal: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._require_numbers("edges", least=2)
        if not all(a < b for a, b in zip(self.edges, self.edges[1:], strict=False)):
            raise wrong(self, "edges", "does not increase", "pass numbers, each above the one before it")
        if self.tails is not None:
            self._require_numbers("tails", least=2, most=2)
            if min(self.tails) <= 0:
                raise wrong(self, "tails", "is not positive", "pass two mean lengths > 0, or None")

    @staticmethod
    def fit(values: ArrayLike, count: int, weights: ArrayLike | None = None) -> Bins:
        """Bins that suit a sample: as many rows in each, narrow ones where values are common.

        Args:
            values: the sample, (n,) numbers; NaN counts as missing.
            count: number of functions at most, the two tails among them.
            weights: of the values, (n,) numbers ≥ 0.

        Example:
            >>> Bins.fit([0, 0, 0, 0, 0, 0, 0, 0, 3, 5, 6, 9], 4)
            Bins(edges=(-0.5, 0.5, 9.5), tails=(1.0, 9.0))
        """
        if not is_whole(count, 3):
            raise ParameterError(f"Bins.fit: count={count!r}. Fix: pass an integer ≥ 3, two for the tails.")
        edges = parts(values, count - 2, weights, even=count - 2).edges.tolist()
        return Bins(tuple(edges), (edges[1] - edges[0], edges[-1] - edges[-2]))

    @property
    def size(self) -> int:
        return len(self.edges) - 1 + 2 * (self.tails is not None)

    @property
    def domain(self) -> Domain:
        return Interval(self.edges[0], self.edges[-1]) if self.tails is None else Line()

    @property
    def has_one_scale(self) -> bool:
        return self.tails is None

    def _functions(self, x: Tensor, values: Values) -> Tensor:
        inside, exponents = self._exponents(x)
        return inside * exponents.exp().to(x.dtype)[..., None]

    def _scaled_functions(self, x: Tensor, values: Values, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        inside, exponents = self._exponents(x)
        held = exponents.detach()  # the factor, which is 1, carries the gradient
        return inside.to(dtype) * (exponents - held).exp().to(dtype)[..., None], held.to(x.dtype)

    def _exponents(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Which function is not 0 at each point, (..., n), and its logarithm there, (...,), in double."""
        x, like = x.double(), x
        number, edges = self._numbers(x), self.edges
        widths = [b - a for a, b in itertools.pairwise(edges)]
        inner = torch.nn.functional.one_hot(number, self.size).to(like.dtype)
        if self.tails is None:
            return inner, -constant(tuple(math.log(w) / 2 for w in widths), x)[number]
        before, after = self.tails
        logs = constant(tuple(-math.log(width) / 2 for width in (before, *widths, after)), x)[number]
        left = torch.where(x < edges[0], edges[0] - x, 0.0) / (2 * before)
        right = torch.where(x >= edges[-1], x - edges[-1], 0.0) / (2 * after)
        return inner, logs - left - right

    def _numbers(self, x: Tensor) -> Tensor:
        """The number of the function that is not 0 at each point; the end of an interval belongs to it."""
        edges = self.edges if self.tails is not None else self.edges[1:-1]
        return torch.searchsorted(
            constant(edges, x), x.detach().clone(memory_format=torch.contiguous_format), right=True
        )

    def integrals(self, values: Values | None = None) -> Tensor:
        widths = torch.tensor(self.edges, dtype=torch.float64).diff()
        if self.tails is None:
            return widths.sqrt()
        first, last = 2 * torch.tensor(self.tails, dtype=torch.float64).sqrt()
        return torch.cat([first[None], widths.sqrt(), last[None]])

    def breakpoints(self, values: Values | None = None) -> Tensor:
        edges = torch.tensor(self.edges, dtype=torch.float64)
        if self.tails is None:
            return edges
        steps = torch.arange(PANEL, REACH + PANEL, PANEL, dtype=torch.float64)
        before, after = self.tails
        return torch.cat([edges[0] - before * steps.flip(0), edges, edges[-1] + after * steps])

    @property
    def ends(self) -> Ends:
        if self.tails is None:
            return super().ends
        before, after = self.tails
        return Tail(EXPONENTIAL, 1 / before), Tail(EXPONENTIAL, 1 / after)

    def pieces(self, values: Values | None = None) -> Tensor:
        breaks, edges = self.breakpoints(), torch.tensor(self.edges, dtype=torch.float64)
        return edges if self.tails is None else torch.cat([breaks[:1], edges, breaks[-1:]])

    def _require_numbers(self, name: str, least: int, most: int | None = None) -> None:
        value = getattr(self, name)
        numbers = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else ()
        if len(numbers) < least or (most and len(numbers) > most) or not all(map(is_finite, numbers)):
            raise wrong(
                self,
                name,
                f"is not a list of {least} finite numbers{'' if most else ' or more'}",
                "pass a tuple of them",
            )
        object.__setattr__(self, name, tuple(float(number) for number in numbers))
