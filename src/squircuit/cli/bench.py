"""`squircuit bench`: time a training step; the program is benchmarks/step.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import typer

import squircuit
from squircuit.errors import FormatError

PACKAGE = Path(squircuit.__file__).resolve().parent
PLACES = (PACKAGE / "_benchmarks", PACKAGE.parents[1] / "benchmarks")
"""Installed, and in a checkout."""


def bench(context: typer.Context) -> None:
    """Time a whole training step on this machine: forward, backward, optimiser.

    All arguments are those of benchmarks/step.py; squircuit bench --help lists them.

    Examples:

    - squircuit bench --kind unitary-kronecker --units 8
    - squircuit bench --suite cpu --device cpu --json times.json
    """
    command = [sys.executable, str(program()), *context.args]
    raise typer.Exit(subprocess.run(command, check=False).returncode)


def program() -> Path:
    """The file of the benchmark."""
    for place in PLACES:
        if (place / "step.py").is_file():
            return place / "step.py"
    raise FormatError(f"there is no benchmark at {PLACES[0]}. Fix: install squircuit again.")
