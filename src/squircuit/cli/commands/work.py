"""Where the work of a command is done: in a module that is imported when the command is run."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import ParamSpec

from squircuit.errors import DataError, FormatError

P = ParamSpec("P")
USUAL = 200
"""Characters of a path that a message shows as it is."""


def done_by(module: str) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """A command whose work is the function of the same name in a module, with the same arguments by name.

    The declaration has types, defaults and help for the command line. Help, shell completion and mistakes in
    arguments need no more, and come before torch is imported.

    Example:
        >>> @done_by("textwrap")
        ... def indent(text: str, prefix: str) -> None:
        ...     "Puts some characters before each line."
        >>> indent(text="a line", prefix="> ")
        '> a line'
    """

    def command(declared: Callable[P, None]) -> Callable[P, None]:
        @wraps(declared)
        def run(*args: P.args, **kwargs: P.kwargs) -> None:
            require_files(kwargs)
            work: Callable[P, None] = getattr(importlib.import_module(module), declared.__name__)
            return work(*args, **kwargs)

        return run

    return command


def require_files(given: Mapping[str, object]) -> None:
    """Refuse files of a model or of data that are not there; what is left in doubt, the work looks at.

    Example:
        >>> require_files({"model": Path("no.safetensors")})
        Traceback (most recent call last):
        squircuit.errors.FormatError: no.safetensors: there is no such file. Fix: check the path.
    """
    model, data = given.get("model"), given.get("data")
    if isinstance(model, Path) and _is_missing(str(model)):
        raise FormatError(f"{model}: there is no such file. Fix: check the path.")
    if isinstance(data, str) and Path(data).suffix and _is_missing(data):
        raise DataError(f"{Path(data)}: there is no such file or folder. Fix: check the path.")


def _is_missing(path: str) -> bool:
    """A path of usual characters at which nothing is."""
    return 0 < len(path) < USUAL and path.isprintable() and path.isascii() and not os.path.lexists(path)
