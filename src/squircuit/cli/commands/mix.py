"""`squircuit mix`: models that were trained apart as one model, the mixture of their densities."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from squircuit.cli.arguments import Json
from squircuit.cli.commands.work import done_by


@done_by("squircuit.cli.mix")
def mix(
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(metavar="MODEL", help="Two models or runs, or more.")],
    out: Annotated[Path, typer.Option(help="File of the mixture, such as both.safetensors.")],
    weights: Annotated[
        str | None, typer.Option(help="Of the models, such as 2,1; divided by their sum. Default equal.")
    ] = None,
    as_json: Json = False,
) -> None:
    """One model of several: p(x) = Σₘ wₘ pₘ(x), exact and normalised like each of them.

    Models of the same data that were trained from different seeds err in different places: their mixture
    never scores below the mean of their scores, and mostly above the best where they are about equal.

    Examples:

    - squircuit mix a.safetensors b.safetensors --out both.safetensors
    - squircuit mix runs/a runs/b runs/c --weights 2,1,1 --out all.safetensors
    """
