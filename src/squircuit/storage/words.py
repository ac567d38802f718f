"""What other libraries say when a file is damaged, made fit for one line of ours."""

from __future__ import annotations

MOST = 240
"""Characters of another library's message that are worth repeating."""


def one_line(error: BaseException) -> str:
    """The message of an error on one line, cut where it is long; its class where it says nothing.

    Example:
        >>> one_line(ValueError("first\\n   second")), one_line(MemoryError())
        ('first second', 'MemoryError')
    """
    words = " ".join(str(error).split()) or type(error).__name__
    return words if len(words) <= MOST else words[: MOST - 1] + "…"


def without_fix(error: BaseException) -> str:
    """What is wrong, on one line and without the fix, for an error that gives a fix of its own.

    Example:
        >>> without_fix(ValueError("units=0 is too small. Fix: pass 1."))
        'units=0 is too small'
    """
    return one_line(ValueError(" ".join(str(error).split()).partition(" Fix: ")[0] or error)).rstrip(". ")
