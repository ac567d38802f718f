"""`squircuit score`: how likely rows are under a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from squircuit.cli.arguments import (
    DataName,
    Delimiter,
    Device,
    Encoding,
    Header,
    Json,
    ModelFile,
    Part,
    Quiet,
    Safe,
    Seed,
)
from squircuit.cli.commands.work import done_by


@done_by("squircuit.cli.score")
def score(
    model: ModelFile,
    data: DataName,
    out: Annotated[
        Path | None, typer.Option(help="File for log p of every row: .csv, .parquet, .feather, .npy, or -.")
    ] = None,
    missing: Annotated[
        list[str] | None,
        typer.Option(help="Marginalise a column, or of images left, right, top, bottom, center, random:P."),
    ] = None,
    safe: Safe = False,
    header: Header = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    part: Part = "test",
    device: Device = "auto",
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Log-likelihoods of rows, exact and normalised; empty cells are marginalised.

    Examples:

    - squircuit score people.safetensors new.csv --out scores.csv
    - squircuit score people.safetensors new.csv --missing income
    - squircuit score mnist.safetensors mnist --part valid --json
    """
