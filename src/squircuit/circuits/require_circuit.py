"""A circuit where one is asked for: functions of circuits are often called with models."""

from __future__ import annotations

from typing import Any

from squircuit.circuits.circuit import Circuit
from squircuit.errors import ParameterError
from squircuit.regions import RegionGraph


def require_circuit(function: str, *arguments: Any) -> None:
    """Refuse anything but circuits, and say how to get one.

    Args:
        function: its name, for the message.
        arguments: that must be circuits.

    Example:
        >>> from squircuit.regions import linear
        >>> require_circuit("partition", linear(3))
        Traceback (most recent call last):
        squircuit.errors.ParameterError: partition takes a Circuit, got RegionGraph(...). Fix: ...
    """
    for argument in arguments:
        if not isinstance(argument, Circuit):
            raise ParameterError(f"{function} takes a Circuit, got {argument!r}.{_fix(argument)}")


def _fix(argument: Any) -> str:
    if callable(getattr(argument, "circuit", None)):  # a model, which this folder does not know
        return " Fix: pass model.circuit()."
    return " Fix: pass sq.build(regions, family, units)." if isinstance(argument, RegionGraph) else ""
