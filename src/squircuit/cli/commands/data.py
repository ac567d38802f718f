"""`squircuit data`: which data sets there are, their files, and what is in a file of your own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from squircuit.cli.arguments import DATA_SETS, Delimiter, Encoding, Header, Json, one_of
from squircuit.cli.commands.work import done_by

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Of a data set; `squircuit data list` has them.",
        autocompletion=one_of(lambda: DATA_SETS),
    ),
]
Folder = Annotated[
    Path | None, typer.Option(help="Where files lie; default $SQUIRCUIT_DATA or ~/.cache/squircuit.")
]

app = typer.Typer(name="data", rich_markup_mode="markdown")


@app.callback(invoke_without_command=True)
def data(context: typer.Context) -> None:
    """Data sets by name, their files, and the types of columns in files of your own."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("list")
@done_by("squircuit.cli.data")
def list_(folder: Folder = None, as_json: Json = False) -> None:
    """The names of data sets, and whether their files are there.

    Examples:

    - squircuit data list
    - squircuit data list --json
    """


@app.command()
@done_by("squircuit.cli.data")
def fetch(name: Name, folder: Folder = None, as_json: Json = False) -> None:
    """Download the files of a data set that are missing, and check all of them.

    Examples:

    - squircuit data fetch mnist
    - squircuit data fetch nltcs --folder data
    """


@app.command("verify")
@done_by("squircuit.cli.data")
def verify_(name: Name, folder: Folder = None, as_json: Json = False) -> None:
    """Compare the checksum of every file of a data set; exit code 1 if one is missing or damaged.

    Examples:

    - squircuit data verify mnist
    - squircuit data verify nltcs --folder data
    """


@app.command()
@done_by("squircuit.cli.data")
def show(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file, a folder of images, or a name.")],
    columns: Annotated[list[str] | None, typer.Option(metavar="NAME=TYPE", help="Type of a column.")] = None,
    header: Header = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    as_json: Json = False,
) -> None:
    """The columns of a file and the types that are inferred for them.

    Examples:

    - squircuit data show people.csv
    - squircuit data show wind.csv --columns angle=periodic:360 --columns id=drop
    """
