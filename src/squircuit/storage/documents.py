"""JSON text that came from a file: its data, or one clear error."""

from __future__ import annotations

import json
from typing import Any

from squircuit.errors import FormatError
from squircuit.storage.words import one_line


class ContentError(ValueError):
    """What is wrong with the content of a file; who reads the file adds its name and the fix."""


def parsed(text: str | bytes, what: str, fix: str) -> Any:
    """The data of a JSON text; a FormatError for anything else, however it is made.

    Python's parser raises RecursionError for deep nesting and a plain ValueError for numbers of thousands of
    digits. ``what`` is named in the error, ``fix`` is what the user can do.

    Example:
        >>> parsed("[1, 2]", "notes", "write them again")
        [1, 2]
        >>> parsed("[" * 100_000, "notes", "write them again")
        Traceback (most recent call last):
        squircuit.errors.FormatError: notes: not JSON text (lists or objects are nested too deeply).
        Fix: write them again.
    """
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError, MemoryError) as error:
        raise FormatError(f"{what}: not JSON text ({_reason(error)}). Fix: {fix}.") from error


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "lists or objects are nested too deeply"
    if "set_int_max_str_digits" in str(error):  # advice that would only make the file slower to refuse
        return "a whole number has thousands of digits"
    return one_line(error)
