"""`squircuit compress` and `squircuit decompress`: rows as few bytes and back, without loss."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from squircuit.cli.arguments import DataName, Delimiter, Device, Encoding, Header, Json, Part, Quiet, Safe
from squircuit.cli.commands.work import done_by

Model = Annotated[Path, typer.Option("--model", "-m", help="File of a model, or the folder of a run.")]


@done_by("squircuit.cli.compress")
def compress(
    data: DataName,
    model: Model,
    out: Annotated[Path, typer.Option(help="File of the compressed rows, such as images.sqz.")],
    verify: Annotated[
        bool, typer.Option("--verify", help="Decompress the result and compare, before it is written.")
    ] = False,
    header: Header = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    part: Part = "test",
    device: Device = "auto",
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Compress images or discrete tables without loss, to what their likelihood says.

    A row takes about −log₂ p bits, by the exact conditionals of the model and a range coder. Images are a
    folder, an IDX file, a named set or .npy; they come back pixel by pixel. Tables come back cell by cell, in
    the usual spelling of numbers. Decompress with the same model, the same release of torch, and on the same
    kind of processor: anything else is noticed, and gives an error in place of wrong rows.

    Examples:

    - squircuit compress images/ --model mnist.safetensors --out images.sqz
    - squircuit compress people.csv --model people.safetensors --out people.sqz --verify
    """


@done_by("squircuit.cli.compress")
def decompress(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What squircuit compress wrote.")],
    model: Model,
    out: Annotated[
        Path | None,
        typer.Option(help="Of images a new folder for PNG files, or .npy; of tables a .csv, .parquet …"),
    ] = None,
    safe: Safe = False,
    header: Header = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    device: Device = "auto",
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """The rows that squircuit compress was given; without --out a table is CSV on standard output.

    Examples:

    - squircuit decompress images.sqz --model mnist.safetensors --out images-again
    - squircuit decompress people.sqz --model people.safetensors --out people-again.csv
    """
