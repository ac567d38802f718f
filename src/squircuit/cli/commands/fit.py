"""`squircuit fit`: from data to a trained model in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from squircuit import presets
from squircuit.cli.arguments import DataName, Delimiter, Device, Encoding, Header, Json, Quiet, one_of
from squircuit.cli.commands.work import done_by


@done_by("squircuit.cli.fit")
def fit(
    context: typer.Context,
    data: DataName,
    out: Annotated[
        Path | None, typer.Option(help="File for the model; default DATA.safetensors, where that is new.")
    ] = None,
    valid: Annotated[
        str | None, typer.Option(help="File of validation rows; else some are held out.")
    ] = None,
    run: Annotated[Path | None, typer.Option(help="Folder for checkpoints and the history.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in that folder.")] = False,
    config: Annotated[Path | None, typer.Option(help="File of options: TOML, YAML or JSON.")] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help=f"Options by name: {', '.join(presets.names())}.", autocompletion=one_of(presets.names)
        ),
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any option; may be repeated.")
    ] = None,
    units: Annotated[int | None, typer.Option(help="Width of the model; default by the data.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes through the data at most.")] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate.")] = None,
    batch: Annotated[int | None, typer.Option(help="Rows in a step.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of weights and of the order of rows.")] = None,
    device: Device = "auto",
    columns: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=TYPE", help="Type of a column: count, continuous, periodic:360, drop, …"),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Column that says how much each row counts; it is not modelled."),
    ] = None,
    stream: Annotated[
        bool,
        typer.Option("--stream", help="Read .npy, .parquet or .tar batch by batch; large files always are."),
    ] = False,
    classes: Annotated[
        bool,
        typer.Option(
            "--classes", help="Of named images: then a model of each class, mixed: p(image, label)."
        ),
    ] = False,
    minutes: Annotated[
        float | None, typer.Option(help="Of the search for a table's density; default by its size.")
    ] = None,
    header: Header = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Learn the density of a data set or a file, and save it.

    The types of columns are inferred; empty cells are missing. Of a table, many densities are tried and
    mixed, weighed by rows that they have not seen (sq.learn). With an option of a circuit or of its training
    (--units, --epochs, --set, --preset, --run, …) one circuit on a tree of the columns is trained instead.
    Images and named data sets always get one circuit; it has the weights of the best validation.

    Examples:

    - squircuit fit people.csv
    - squircuit fit survey.csv --weights household_weight
    - squircuit fit wind.csv --out wind.safetensors --columns angle=periodic:360 --set average=0.99
    - squircuit fit mnist --preset best --device cuda --out mnist.safetensors --run runs/mnist
    - squircuit fit digits --classes --epochs 15 --out digits.safetensors
    """
