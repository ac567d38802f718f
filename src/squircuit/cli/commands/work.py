"""Where the work of a command is done: in a module that is imported when the command is run."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

P = ParamSpec("P")


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
            work: Callable[P, None] = getattr(importlib.import_module(module), declared.__name__)
            return work(*args, **kwargs)

        return run

    return command
