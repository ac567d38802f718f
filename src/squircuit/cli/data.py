"""`squircuit data`: which data sets there are, their files, and what is in a file of your own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from squircuit.cli.arguments import Delimiter, Encoding, Header, Json, form_of, one_of, pairs
from squircuit.cli.reading import described, open_data
from squircuit.cli.report import FAILED, Report
from squircuit.data import Dataset, Schema, data_folder, load, names, verify
from squircuit.data.registry import BINARY, FILES, IMAGES
from squircuit.data.schema import aligned
from squircuit.data.synthetic import GENERATORS

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="Of a data set; `squircuit data list` has them.", autocompletion=one_of(names)
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
def list_(folder: Folder = None, as_json: Json = False) -> None:
    """The names of data sets, and whether their files are there.

    Examples:

    - squircuit data list
    - squircuit data list --json
    """
    report = Report(as_json)
    found = {name: {"kind": _kind(name), "files": _files(name, folder)} for name in names()}
    lines = [(name, entry["kind"], entry["files"]) for name, entry in found.items()]
    report.say(aligned([("name", "what", "files"), *lines]))
    report.end(found)


@app.command()
def fetch(name: Name, folder: Folder = None, as_json: Json = False) -> None:
    """Download the files of a data set that are missing, and check all of them.

    Examples:

    - squircuit data fetch mnist
    - squircuit data fetch nltcs --folder data
    """
    report = Report(as_json)
    loaded = load(name, folder)
    report.say(f"{loaded!r}\n{_files(name, folder)} in {data_folder(folder)}")
    rows = {part: len(getattr(loaded, part)) for part in ("train", "valid", "test")}
    report.end({"name": name, "rows": rows, "shape": list(loaded.shape), "folder": str(data_folder(folder))})


@app.command("verify")
def verify_(name: Name, folder: Folder = None, as_json: Json = False) -> None:
    """Compare the checksum of every file of a data set; exit code 1 if one is missing or damaged.

    Examples:

    - squircuit data verify mnist
    - squircuit data verify nltcs --folder data
    """
    report = Report(as_json)
    found = verify(name, folder)
    lines = [f"{file}: {verdict}" for file, verdict in found.items()] or [f"{name}: {_files(name, folder)}"]
    report.say("\n".join(lines))
    report.end(found)
    raise typer.Exit(0 if all(verdict == "ok" for verdict in found.values()) else FAILED)


@app.command()
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
    report = Report(as_json)
    form = form_of(header, delimiter, encoding)
    source = open_data(file, pairs(columns or [], "--columns"), form)
    schema = Schema(source.columns)
    rows = len(source.train) if isinstance(source, Dataset) else len(source)
    report.say(f"{file}: {rows} rows\n{described(schema)}")
    report.end({"file": file, "rows": rows, "shape": list(source.shape), **schema.to_dict()})


def _kind(name: str) -> str:
    if name in GENERATORS:
        return "points in the plane"
    return "images" if name in IMAGES or name not in BINARY else "binary columns"


def _files(name: str, folder: Path | None) -> str:
    """How many of its files are there, without a look inside."""
    if name in GENERATORS:
        return "none needed: generated"
    if name not in FILES:
        return "none needed: in scikit-learn"
    there = sum((data_folder(folder) / file.path).exists() for file in FILES[name])
    return f"{there} of {len(FILES[name])} there"
