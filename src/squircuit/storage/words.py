"""What files and other libraries say, made fit for one line of ours."""

from __future__ import annotations

from collections.abc import Iterable

from squircuit.errors import SquircuitError
from squircuit.errors import printable as printable

SOME, SHORT = 8, 40
"""Names that a message lists, and characters of each."""


def listed(names: Iterable[object]) -> str:
    """The first names of many, for a message.

    Example:
        >>> listed(["a", "b\\nc"]), listed(range(100))
        ('a, b c', '0, 1, 2, 3, 4, 5, 6, 7, …')
    """
    shown = [printable(name, SHORT) for _, name in zip(range(SOME + 1), names, strict=False)]
    return ", ".join([*shown[:SOME], "…"] if len(shown) > SOME else shown)


def one_line(error: BaseException) -> str:
    """The message of an error on one line, cut where it is long; its class where it says nothing.

    Example:
        >>> one_line(ValueError("first\\n   second")), one_line(MemoryError())
        ('first second', 'MemoryError')
    """
    return printable(error) or type(error).__name__


def without_fix(error: BaseException) -> str:
    """What is wrong, on one line and without the fix, for an error that gives a fix of its own.

    Example:
        >>> without_fix(ValueError("units=0 is too small. Fix: pass 1."))
        'units=0 is too small'
    """
    said = error.what if isinstance(error, SquircuitError) else str(error).partition(" Fix: ")[0]
    return (printable(said) or one_line(error)).rstrip(". ")
