"""The program: its commands, its version, its help."""

from __future__ import annotations

from typing import Annotated

import typer

import squircuit
from squircuit.cli import bench, check, complete, data, fit, mix, plot, reproduce, sample, score
from squircuit.cli.program import Program

PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
"""Of commands whose arguments another program reads."""

app = typer.Typer(
    name="squircuit",
    cls=Program,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.command()(fit.fit)
app.command()(score.score)
app.command()(sample.sample)
app.command()(complete.complete)
app.command()(mix.mix)
app.command()(check.check)
app.command()(plot.plot)
app.add_typer(data.app)
app.command(context_settings=PASSED_ON)(bench.bench)
app.command(context_settings=PASSED_ON)(reproduce.reproduce)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(squircuit.__version__)
        raise typer.Exit


@app.callback(invoke_without_command=True)
def squircuit_(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Of any command: show where an error happened.")
    ] = False,  # which `Program` takes out, wherever it stands
) -> None:
    """Squared circuits that are normalised by construction: train them on your data, and ask them.

    Each command has its own help, such as: squircuit fit --help
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """The entry point of the program."""
    app(prog_name="squircuit")
