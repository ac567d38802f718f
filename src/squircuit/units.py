"""The old name of :mod:`squircuit.scalar`, for code that was written with it."""

from __future__ import annotations

import warnings

from squircuit import scalar


def __getattr__(name: str) -> object:
    if name not in scalar.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn("squircuit.units is now squircuit.scalar. Fix: use it", DeprecationWarning, stacklevel=2)
    return getattr(scalar, name)
