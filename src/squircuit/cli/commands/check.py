"""`squircuit check`: properties, log Z and weights of a saved model, or of a circuit as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from squircuit.cli.arguments import Json
from squircuit.cli.commands.work import done_by


@done_by("squircuit.cli.check")
def check(
    file: Annotated[Path, typer.Argument(metavar="MODEL", help="A model, a run, or a circuit as .json.")],
    as_json: Json = False,
) -> None:
    """Every property of a model with its reason, exact log Z, parameters, and weights off their manifold.

    Examples:

    - squircuit check mnist.safetensors
    - squircuit check circuit.json --json
    """
