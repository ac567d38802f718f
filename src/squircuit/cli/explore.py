"""`squircuit explore`: a page in the browser to ask a model."""

from __future__ import annotations

import importlib
from pathlib import Path

import typer

from squircuit.cli.machine import chosen_device
from squircuit.cli.reading import history_of, open_model, schema_of
from squircuit.data.optional import need
from squircuit.explore.demos import demos
from squircuit.explore.exhibit import Exhibit
from squircuit.explore.export import export as write_page
from squircuit.explore.shelf import Shelf
from squircuit.storage.atomic import require_writable


def explore(
    *,
    model: Path | None,
    port: int | None,
    browser: bool,
    export: Path | None,
    device: str,
) -> None:
    """The work of the command `explore`, see :mod:`squircuit.cli.commands`."""
    if export is None:
        _serve(model, port, browser, device)
    else:
        _export(model, export, device)


def _serve(model: Path | None, port: int | None, browser: bool, device: str) -> None:
    for package in ("starlette", "uvicorn"):
        need(package, "squircuit explore", "explore")
    shelf = demos() if model is None else Shelf.of(_exhibit(model, device))
    server = importlib.import_module("squircuit.explore.server")  # which needs these packages
    server.serve(shelf, port, browser, _say)
    typer.echo("\nended", err=True)


def _export(model: Path | None, path: Path, device: str) -> None:
    exhibit = demos().chosen({}) if model is None else _exhibit(model, device)
    require_writable(path)
    write_page(exhibit, path)
    typer.echo(f"saved  {path}, {path.stat().st_size:,} bytes")


def _exhibit(file: Path, device: str) -> Exhibit:
    model = open_model(file, chosen_device(device))
    return Exhibit(model, schema_of(model), file.name or str(file), history_of(file, model))


def _say(address: str) -> None:
    typer.echo(f"{address}\nto be opened in a browser on this machine; Ctrl-C ends it")
