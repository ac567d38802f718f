"""`squircuit reproduce`: a table or figure of the paper; the programs are experiments/NAME.py."""

from __future__ import annotations

from typing import Annotated

import typer

from squircuit.cli.programs import folder, nearest, run

HELPERS = ("record",)


def reproduce(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="Of the experiment; without it they are listed.")] = None,
) -> None:
    """Train and score the models of a table or figure of the paper, and write rows and pictures.

    Further arguments are those of the experiment; squircuit reproduce NAME --help lists them.

    Examples:

    - squircuit reproduce densities
    - squircuit reproduce marginals --sides 8 16 --json
    - squircuit reproduce images --data mnist --kind unitary --units 4 6 8 --seeds 0 1 2
    """
    known = {
        path.stem: path for path in sorted(folder("experiments").glob("*.py")) if path.stem not in HELPERS
    }
    if name is None or name == "--help":
        for stem, path in known.items():
            typer.echo(f"{stem:12} {_first_line(path.read_text(encoding='utf-8'))}")
        return
    if name not in known:
        raise nearest(name, list(known))
    raise typer.Exit(run(known[name], context.args))


def _first_line(source: str) -> str:
    """Of a module's docstring."""
    return source.removeprefix('"""').split("\n", 1)[0].removesuffix('"""')
