"""How fast squares of input functions vanish far out, which says which moments are finite."""

from __future__ import annotations

import math
from typing import NamedTuple

BOUNDED, NORMAL, EXPONENTIAL, LOGNORMAL, POWER, SLOWER = 3, 2, 1, 0, -1, -2


class Tail(NamedTuple):
    """How fast |φ(x)|² vanishes towards one end of its domain; the kinds are in order.

    It is zero beyond a bound, or like exp(−x²), exp(−r |x|), exp(−log² |x|) or |x|^(−1−r), up to powers
    of x or, for the last, of log |x|; or it vanishes so slowly that even E |x|^k with small k is infinite.

    Example:
        >>> Tail(NORMAL).after(1.0, 0.5)  # of a lognormal variable all moments are finite
        Tail(kind=0, rate=1.0)
        >>> Tail(EXPONENTIAL, 1.5).after(1.0, 0.5).order  # log x is exponential: Pareto's law
        3.0
    """

    kind: int
    rate: float = 1.0

    @property
    def order(self) -> float:
        """E |x|^k is finite for k below this."""
        if self.kind >= LOGNORMAL:
            return math.inf
        return self.rate if self.kind == POWER else 0.0

    def after(self, slope: float, bend: float) -> Tail:
        """That of φ(t(x)) √t′(x), where t ends like log(1 + κ d x)/κ with the slope d and the bend κ."""
        if not bend:
            return Tail(self.kind, self.rate * slope if self.kind == EXPONENTIAL else self.rate)
        if self.kind == EXPONENTIAL:
            return Tail(POWER, self.rate / bend)
        return Tail(LOGNORMAL if self.kind == NORMAL else SLOWER)

    def times(self, other: Tail) -> Tail:
        """That of the products of two functions with these tails."""
        if self.kind != other.kind or self.kind >= LOGNORMAL:
            rate = self.rate + other.rate if self.kind == other.kind else max(self, other).rate
            return Tail(max(self.kind, other.kind), rate)
        return Tail(POWER, self.order + other.order + 1)


Ends = tuple[Tail, Tail]  #: towards the lower and the upper end of a domain
