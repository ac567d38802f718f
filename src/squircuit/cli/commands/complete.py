"""`squircuit complete`: fill in missing cells of tables, and masked pixels of images."""

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
    one_of,
)
from squircuit.cli.commands.work import done_by

METHODS = ("mean", "mode", "sample")
"""What `squircuit.inference.imputation` knows."""


@done_by("squircuit.cli.complete")
def complete(
    model: ModelFile,
    data: DataName,
    mask: Annotated[
        str | None, typer.Option(help="Pixels to fill: left, right, top, bottom, center, random:P.")
    ] = None,
    rows: Annotated[
        int | None, typer.Option(min=1, help="Only the first rows; default 8 images, all of a table.")
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            help="mean or mode (each cell by itself), or sample (jointly).",
            autocompletion=one_of(lambda: METHODS),
        ),
    ] = "sample",
    count: Annotated[int, typer.Option("-n", "--count", min=1, help="Completions of each row.")] = 1,
    out: Annotated[
        Path | None, typer.Option(help="File: .csv, .parquet, .feather, .npy, or .png for images.")
    ] = None,
    safe: Safe = False,
    header: Header = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    part: Part = "test",
    seed: Seed = 0,
    device: Device = "auto",
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Fill in what is missing: empty cells of a table, or masked pixels, given all that is known.

    A sample is drawn from the exact conditional distribution. The mode is the most probable state of each
    cell by itself, or where its density is highest; the mean that of each cell by itself, of counts and
    pixels the nearest whole number, of categories, which have none, the most probable one. Samples and modes
    have the resolution of the data, such as two decimals, and so have means where it is whole numbers; cells
    that are known stay as they are. Of a CSV file all but what is filled is written byte for byte as it was:
    columns that the model does not know, quotes, spaces, ends of lines; of Parquet and Feather files types of
    columns stay.

    Examples:

    - squircuit complete people.safetensors gaps.csv --out filled.csv
    - squircuit complete people.safetensors gaps.csv --method mode
    - squircuit complete mnist.safetensors mnist --mask left --rows 8 -n 3 --out completed.png
    """
