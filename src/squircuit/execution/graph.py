"""The old name of :mod:`squircuit.execution.cuda_graph`, for code that was written with it."""

from __future__ import annotations

import warnings

from squircuit.execution import cuda_graph


def __getattr__(name: str) -> object:
    if name != "CapturedStep":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(
        "squircuit.execution.graph is now squircuit.execution.cuda_graph. Fix: import CapturedStep from it",
        DeprecationWarning,
        stacklevel=2,
    )
    return cuda_graph.CapturedStep
