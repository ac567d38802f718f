"""`squircuit sample`: exact samples, also given some of the columns."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from squircuit.cli.arguments import (
    Delimiter,
    Device,
    Encoding,
    Header,
    Json,
    ModelFile,
    Quiet,
    Safe,
    Seed,
)
from squircuit.cli.commands.work import done_by


@done_by("squircuit.cli.sample")
def sample(
    model: ModelFile,
    count: Annotated[
        int, typer.Option("-n", "--count", min=0, help="Samples; with --given for each of its rows.")
    ] = 64,
    given: Annotated[
        str | None, typer.Option(help="File of known cells: empty ones and lacking columns are drawn.")
    ] = None,
    class_: Annotated[
        str | None, typer.Option("--class", help="Of a model of classes: one of them, such as 3.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="File: .csv, .parquet, .feather, .npy, or .png for images.")
    ] = None,
    safe: Safe = False,
    header: Header = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    seed: Seed = 0,
    device: Device = "auto",
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Exact samples, in the words of the data; without --out as CSV on standard output.

    Numbers have the resolution of the data, such as two decimals; those of --given stay as they are.
    --delimiter, --no-header and --encoding are of --given and of what is written as CSV.

    Examples:

    - squircuit sample people.safetensors -n 100 --out people-like.csv
    - squircuit sample people.safetensors -n 5 --given half-known.csv
    - squircuit sample mnist.safetensors -n 64 --seed 1 --out samples.png
    """
