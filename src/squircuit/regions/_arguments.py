"""Checks of arguments that the builders share, so that their errors read alike."""

from __future__ import annotations

from squircuit.errors import ParameterError, is_whole


def check_integer(builder: str, name: str, value: object, minimum: int) -> None:
    """Refuse an argument that is not an integer of at least ``minimum``.

    Example:
        >>> check_integer("linear", "d", 0, minimum=1)
        Traceback (most recent call last):
        squircuit.errors.ParameterError: linear: d must be an integer of at least 1, got 0. Fix: ...
    """
    if not is_whole(value, minimum):
        raise ParameterError(
            f"{builder}: {name} must be an integer of at least {minimum}, got {value!r}"
            ". Fix: pass such a number."
        )
