"""`squircuit data`: which data sets there are, their files, and what is in a file of your own."""

from __future__ import annotations

from pathlib import Path

import typer

from squircuit.cli.arguments import pairs
from squircuit.cli.reading import described, form_of, open_data
from squircuit.cli.report import FAILED, Report
from squircuit.data import Dataset, Schema, Table, data_folder, load, names, verify
from squircuit.data.registry import BINARY, FILES, IMAGES
from squircuit.data.schema import aligned
from squircuit.data.synthetic import GENERATORS


def list_(
    *,
    folder: Path | None,
    as_json: bool,
) -> None:
    """The work of the command `list`, see :mod:`squircuit.cli.commands`."""
    report = Report(as_json)
    found = {name: {"kind": _kind(name), "files": _files(name, folder)} for name in names()}
    lines = [(name, entry["kind"], entry["files"]) for name, entry in found.items()]
    report.say(aligned([("name", "what", "files"), *lines]))
    report.end(found)


def fetch(
    *,
    name: str,
    folder: Path | None,
    as_json: bool,
) -> None:
    """The work of the command `fetch`, see :mod:`squircuit.cli.commands`."""
    report = Report(as_json)
    loaded = load(name, folder)
    report.say(f"{loaded!r}\n{_files(name, folder)} in {data_folder(folder)}")
    rows = {part: len(getattr(loaded, part)) for part in ("train", "valid", "test")}
    report.end({"name": name, "rows": rows, "shape": list(loaded.shape), "folder": str(data_folder(folder))})


def verify_(
    *,
    name: str,
    folder: Path | None,
    as_json: bool,
) -> None:
    """The work of the command `verify`, see :mod:`squircuit.cli.commands`."""
    report = Report(as_json)
    found = verify(name, folder)
    lines = [f"{file}: {verdict}" for file, verdict in found.items()] or [f"{name}: {_files(name, folder)}"]
    report.say("\n".join(lines))
    report.end(found)
    raise typer.Exit(0 if all(verdict == "ok" for verdict in found.values()) else FAILED)


def show(
    *,
    file: str,
    columns: list[str] | None,
    header: bool | None,
    delimiter: str | None,
    encoding: str | None,
    as_json: bool,
) -> None:
    """The work of the command `show`, see :mod:`squircuit.cli.commands`."""
    report = Report(as_json)
    form = form_of(header, delimiter, encoding)
    source = open_data(file, pairs(columns or [], "--columns"), form)
    schema = source.schema if isinstance(source, Table) else Schema(source.columns)
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
