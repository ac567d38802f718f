"""`squircuit explore`: a page in the browser to ask a model."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path

import typer

from squircuit.cli.machine import chosen_device
from squircuit.cli.reading import history_of, open_model, schema_of
from squircuit.data.optional import need
from squircuit.explore.exhibit import Exhibit


def explore(
    *,
    model: Path,
    port: int,
    browser: bool,
    device: str,
) -> None:
    """The work of the command `explore`, see :mod:`squircuit.cli.commands`."""
    for package in ("starlette", "uvicorn"):
        need(package, "squircuit explore", "explore")
    opened = open_model(model, chosen_device(device))
    exhibit = Exhibit(opened, replace(schema_of(opened), calendars=()), model.name, history_of(model, opened))
    server = importlib.import_module("squircuit.explore.server")  # which needs these packages
    server.serve(exhibit, port, browser, _say)
    typer.echo("\nended", err=True)


def _say(address: str) -> None:
    typer.echo(f"{address}\nto be opened in a browser on this machine; Ctrl-C ends it")
