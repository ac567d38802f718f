"""Checks of arguments that the builders share, so that their errors read alike."""

from __future__ import annotations

from numbers import Integral
from typing import TypeGuard

from squircuit.errors import ParameterError


def is_integer(value: object) -> TypeGuard[int]:
    """Whether a value counts as an integer: ints and numpy integers do, ``True`` and ``3.0`` do not.

    Example:
        >>> is_integer(3), is_integer(True), is_integer(3.0)
        (True, False, False)
    """
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_integer(builder: str, name: str, value: object, minimum: int) -> None:
    """Refuse an argument that is not an integer of at least ``minimum``.

    Example:
        >>> check_integer("linear", "d", 0, minimum=1)
        Traceback (most recent call last):
        squircuit.errors.ParameterError: linear: d must be an integer of at least 1, got 0. Fix: ...
    """
    if not is_integer(value) or value < minimum:
        raise ParameterError(
            f"{builder}: {name} must be an integer of at least {minimum}, got {value!r}"
            ". Fix: pass such a number."
        )
