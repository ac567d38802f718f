"""How commands end: exit codes, and one line for what went wrong."""

from __future__ import annotations

import re
import shlex
import sys
import warnings
from collections.abc import Sequence
from typing import Any, NoReturn

import torch
import typer
from typer.core import TyperGroup

from squircuit.errors import SquircuitError

WRONG_INPUT, INTERRUPTED = 2, 130
SHELL = (
    (re.compile(r"columns=\{'?([^':}]+)'?: '?([^'}]*)'?\}"), r"--columns \1=\2"),
    (re.compile(r"\bresume=True\b"), "--resume"),
    (re.compile(r"\brun='some/folder'"), "--run FOLDER"),
    (re.compile(r" For a file use read\(\)\."), ""),
    (re.compile(r"\bpass folder= or set\b"), "set"),
    (re.compile(r"\bpass (\w+=\S+), or another folder"), r"--set \1, or another folder"),
    (re.compile(r", else pass delimiter="), ""),
    (re.compile(r"; if the first line holds data, pass header=False"), ""),
    (re.compile(r", or pass header=False if the first line holds data"), ""),
    (re.compile(r", or set their schema to None"), ""),
    (re.compile(r"\bpass a file of model\.save\(path\)"), "pass a file of squircuit fit --out"),
)
"""What errors of the library say for Python, and how it is said here."""


class Program(TyperGroup):
    """The group of all commands; what they raise becomes a line on standard error and an exit code."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> NoReturn:
        """Run the command that the arguments name, and exit."""
        words = list(sys.argv[1:] if args is None else args)
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            sys.exit(self._code(words, extra))

    def _code(self, words: list[str], extra: dict[str, Any]) -> int:
        told = extra | {"standalone_mode": False, "obj": {"command": shlex.join(["squircuit", *words])}}
        try:
            code = super().main(words, **told)
        except SquircuitError as error:
            return _failed(str(error))
        except torch.OutOfMemoryError:
            return _failed(
                "the GPU has too little memory. Fix: fewer units, a smaller batch, or --device cpu."
            )
        except (KeyboardInterrupt, typer.Abort):
            return INTERRUPTED
        except Exception as error:
            if not hasattr(error, "format_message"):  # of click, which typer may bring itself
                raise
            return _failed(_usage_error(error))
        return code if isinstance(code, int) else 0


def in_shell(message: str) -> str:
    """A message of the library in the words of the command line.

    Example:
        >>> in_shell("Fix: leave it out, columns={'id': 'drop'}.")
        'Fix: leave it out, --columns id=drop.'
    """
    for python, shell in SHELL:
        message = python.sub(shell, message)
    return message


def _usage_error(error: Any) -> str:
    """What is wrong with the arguments, in one line."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "squircuit"
    message = " ".join(error.format_message().split()).rstrip(".")
    return f"{message}{'' if message.endswith('?') else '.'} Fix: {path} --help lists all."


def _failed(message: str) -> int:
    typer.echo(f"error: {in_shell(message)}", err=True)
    return WRONG_INPUT


def _show_warning(message: Warning | str, *place: Any, **more: Any) -> None:
    typer.echo(f"warning: {in_shell(str(message))}", err=True)
