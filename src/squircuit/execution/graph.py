"""The old name of :mod:`squircuit.execution.cuda_graph`, for code that was written with it."""

from __future__ import annotations

from squircuit.errors import warn_former
from squircuit.execution import cuda_graph


def __getattr__(name: str) -> object:
    if name != "CapturedStep":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warn_former("squircuit.execution.graph", "squircuit.execution.cuda_graph")
    return cuda_graph.CapturedStep
