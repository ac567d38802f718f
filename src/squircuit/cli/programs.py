"""Programs that lie beside the package: in a wheel inside it, in a checkout at its root."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import squircuit
from squircuit.errors import FormatError, ParameterError, suggestion

STANDARD_ERROR = 2
PACKAGE = Path(squircuit.__file__).resolve().parent


def folder(name: str) -> Path:
    """``benchmarks`` or ``experiments``."""
    for place in (PACKAGE / f"_{name}", PACKAGE.parents[1] / name):
        if place.is_dir():
            return place
    raise FormatError(f"there is no folder {PACKAGE / f'_{name}'}. Fix: install squircuit again.")


def run(program: Path, arguments: list[str], *, words_aside: bool = False) -> int:
    """The exit code of a program in a process of its own; its words may go to standard error."""
    command = [sys.executable, str(program), *arguments]
    code = subprocess.run(command, check=False, stdout=STANDARD_ERROR if words_aside else None).returncode
    return code if code >= 0 else 128 - code  # ended by a signal, as shells say it


def nearest(name: str, known: list[str]) -> ParameterError:
    """The error of a name that is not known."""
    return ParameterError(f"there is no experiment {name!r}. Fix: {suggestion(name, known)}")
