"""`squircuit explore`: a page in the browser to ask a model."""

from __future__ import annotations

from typing import Annotated

import typer

from squircuit.cli.arguments import Device, ModelFile
from squircuit.cli.commands.work import done_by


@done_by("squircuit.cli.explore")
def explore(
    model: ModelFile,
    port: Annotated[int, typer.Option(min=0, max=65535, help="To listen on; 0: any that is free.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
    device: Device = "auto",
) -> None:
    """A page in your browser to ask a model: erase pixels, set cells, see all else answer exactly.

    It is served on this machine alone, under an address that nobody can guess, until Ctrl-C.

    Examples:

    - squircuit explore mnist.safetensors
    - squircuit explore runs/people --no-browser --port 8000
    """
