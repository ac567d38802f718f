"""The old name of :mod:`squircuit.scalar`, for code that was written with it."""

from __future__ import annotations

from squircuit import scalar
from squircuit.errors import warn_former


def __getattr__(name: str) -> object:
    if name not in scalar.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warn_former("squircuit.units", "squircuit.scalar")
    return getattr(scalar, name)
