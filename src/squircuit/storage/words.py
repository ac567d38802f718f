"""What files and other libraries say, made fit for one line of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from squircuit.errors import SquircuitError
from squircuit.errors import printable as printable

LONG = 60
"""Characters of a value that a message shows."""
LONGEST_PATH = 300
SOME, SHORT = 8, 40
"""Names that a message lists, and characters of each."""


def quoted(value: object, write: Callable[[object], str] = repr) -> str:
    """A value for a message, as Python writes it: on one line, and cut where it is long.

    Numbers of more than 4300 digits, and what is nested too deeply, Python does not write at all.

    Example:
        >>> quoted("two"), quoted(10**50), quoted([0] * 99)[-5:], quoted("x" * 99)[-5:]
        ("'two'", 'a number of more than 40 digits', '0, 0…', 'xxxx…')
    """
    if isinstance(value, int) and abs(value) > 10**40:
        return "a number of more than 40 digits"
    try:
        text = write(value)
    except (ValueError, RecursionError):
        return f"a {type(value).__name__}"
    if "\n" in text:
        return f"<{type(value).__name__}>"
    return text if len(text) <= LONG else text[: LONG - 1] + "…"


def path_text(file: Path) -> str:
    """A path for a message: cut where it is too long for any file system, without bytes that end a line."""
    text = str(file)
    plain = text if text.isprintable() else repr(text)
    return plain if len(plain) <= LONGEST_PATH else plain[: LONGEST_PATH - 1] + "…"


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
