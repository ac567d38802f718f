"""`squircuit explore`: a page in the browser to ask a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from squircuit.cli.arguments import Device
from squircuit.cli.commands.work import done_by

Shown = Annotated[
    Path | None,
    typer.Argument(metavar="[MODEL]", help="File of a model, or the folder of a run; none: models to try."),
]


@done_by("squircuit.cli.explore")
def explore(
    model: Shown = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="To listen on; 0: any; default 8412, or any.")
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
    export: Annotated[
        Path | None, typer.Option(help="Write one file that shows a small model without Python, and end.")
    ] = None,
    device: Device = "auto",
) -> None:
    """A page in your browser to ask a model: erase pixels, set cells, see all else answer exactly.

    It is served on this machine alone, under an address that nobody can guess, until Ctrl-C.
    Without a file it offers handwritten digits and a small table, learnt when they are first asked for.

    Examples:

    - squircuit explore
    - squircuit explore mnist.safetensors
    - squircuit explore digits.safetensors --export digits.html
    - squircuit explore runs/people --no-browser --port 8000
    """
