"""Checks of constructor arguments: each names the class, the argument, its value and the fix."""

from __future__ import annotations

import math
from numbers import Real

from squircuit.errors import ParameterError, is_whole

NARROW, WIDE = 1e-35, 1e35
"""Widths of functions and domains for which values, and weights of nodes, are numbers in single precision."""


def wrong(owner: object, name: str, problem: str, fix: str) -> ParameterError:
    """The error to raise when the field ``name`` of ``owner`` has a bad value."""
    return ParameterError(f"{type(owner).__name__}: {name}={getattr(owner, name)!r} {problem}. Fix: {fix}.")


def require_count(owner: object, name: str, least: int = 1) -> None:
    """Demand an integer ≥ ``least`` and store it as a plain int (NumPy integers are welcome)."""
    value = getattr(owner, name)
    if not is_whole(value):
        raise wrong(owner, name, "is not an integer", f"pass an integer ≥ {least}")
    if value < least:
        raise wrong(owner, name, "is too small", f"pass an integer ≥ {least}")
    object.__setattr__(owner, name, int(value))


def require_finite(owner: object, *names: str) -> None:
    """Demand finite real numbers and store them as plain floats."""
    for name in names:
        value = getattr(owner, name)
        if not is_finite(value):
            raise wrong(owner, name, "is not a finite number", "pass a finite float")
        object.__setattr__(owner, name, float(value))


def require_positive(owner: object, name: str) -> None:
    """Demand a number > 0 that is a width for floats, and store it as a plain float."""
    require_finite(owner, name)
    if getattr(owner, name) <= 0:
        raise wrong(owner, name, "is not positive", "pass a finite float > 0")
    require_width(owner, name, getattr(owner, name))


def require_width(owner: object, name: str, width: float) -> None:
    """Demand that functions of this width, and integrals of them, are within the range of floats."""
    if not NARROW <= width <= WIDE:
        fix = f"measure in other units, so that it is between {NARROW:g} and {WIDE:g}"
        raise wrong(owner, name, f"makes a width of {width:g}, beyond the range of floats", fix)


def require_ordered(owner: object, low: str, high: str) -> None:
    """Demand two finite numbers, the first below the second."""
    require_finite(owner, low, high)
    if getattr(owner, low) >= getattr(owner, high):
        raise wrong(owner, low, f"is not below {high}={getattr(owner, high)!r}", f"pass {low} < {high}")
    require_width(owner, high, getattr(owner, high) - getattr(owner, low))


def require_flag(owner: object, name: str) -> None:
    """Demand True or False."""
    if not isinstance(getattr(owner, name), bool):
        raise wrong(owner, name, "is not a bool", "pass True or False")


def is_finite(value: object) -> bool:
    """Whether ``value`` is a finite real number; a bool is not a number here."""
    return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)
