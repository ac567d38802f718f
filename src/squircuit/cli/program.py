"""The program: its commands, and how they end, with exit codes and one line for what went wrong."""

from __future__ import annotations

import errno
import os
import shlex
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stderr, suppress
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

import squircuit
from squircuit.cli import harness
from squircuit.cli.commands import check, complete, compress, data, explore, fit, mix, plot, sample, score
from squircuit.cli.report import FAILED, INTERRUPTED, NOBODY_READS, TERMINATED, UNEXPECTED, WRONG_INPUT
from squircuit.cli.torchrun import Terminated, launched_here
from squircuit.errors import ProcessError, SquircuitError, in_shell, printable

if TYPE_CHECKING:
    from squircuit.cli.together import Launched

TRACEBACK = "--traceback"
LONGEST = 600
"""Characters that are shown of what another library says of an error."""
LONGEST_LINE = 1900
"""Characters of any line of ours; none is nearly as long unless a file makes it so."""


class Program(TyperGroup):
    """The group of all commands; what they raise becomes a line on standard error and an exit code."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> NoReturn:
        """Run the command that the arguments name, and exit."""
        words = list(sys.argv[1:] if args is None else args)
        launched = launched_here()
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            code = self._code(words, extra, launched)
            if launched is not None:
                launched.leave(code)
            sys.exit(code)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; Ctrl-C says so, which typer would not."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _say("interrupted: files are as they were, or complete")
            raise typer.Exit(INTERRUPTED) from None

    def _code(self, words: list[str], extra: dict[str, Any], launched: Launched | None) -> int:
        """The last net: whatever happens, one line at most says it, and the code tells its kind."""
        words, shows = _without_traceback(words)
        told = {"command": shlex.join(["squircuit", *words]), "launched": launched}
        try:
            with launched or nullcontext():
                code = super().main(words, **extra, standalone_mode=False, obj=told)
            if sys.stdout is not None:
                sys.stdout.flush()  # at the end of the process it would be too late for a clear word
        except BaseException as error:
            if launched is not None and not launched.speaks(error):
                return _silently_ended_by(error)
            if shows:
                _say("".join(traceback.format_exception(error)).rstrip("\n"))
            return _ended_by(error)
        return code if isinstance(code, int) else 0


def _without_traceback(words: list[str]) -> tuple[list[str], bool]:
    """The words without --traceback, which may stand anywhere before "--", and whether it was there.

    Example:
        >>> _without_traceback(["fit", "x.csv", "--traceback", "--", "--traceback"])
        (['fit', 'x.csv', '--', '--traceback'], True)
    """
    end = words.index("--") if "--" in words else len(words)
    kept = [word for word in words[:end] if word != TRACEBACK]
    return kept + words[end:], len(kept) < end


def _ended_by(error: BaseException) -> int:
    """Say what went wrong, if anything did, and return the exit code."""
    if isinstance(error, SquircuitError):
        return _failed(in_shell(error), FAILED if isinstance(error, ProcessError) else WRONG_INPUT)
    if isinstance(error, Terminated):
        return _failed(str(error), TERMINATED)
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return INTERRUPTED
    if _is_broken_pipe(error):
        _close_output()
        return NOBODY_READS
    if hasattr(error, "format_message"):  # of click, which typer may bring itself
        return _failed(_usage_error(error))
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else UNEXPECTED
    with suppress(OSError):  # what is left in the buffer of a full disk would be tried again at the end
        _close_output()
    return _failed(_unexpected(error), UNEXPECTED)


def _silently_ended_by(error: BaseException) -> int:
    """The exit code alone: another process says what went wrong."""
    with open(os.devnull, "w") as nowhere, redirect_stderr(nowhere):
        return _ended_by(error)


def _is_broken_pipe(error: BaseException) -> bool:
    """Nobody reads standard output any more, as after `| head`; typer makes an exit of it."""
    cause = error.__context__ if isinstance(error, SystemExit) else error
    return isinstance(cause, OSError) and cause.errno == errno.EPIPE


def _close_output() -> None:
    """Send what is still in the buffer nowhere, so that the end of the process does not fail on it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with suppress(OSError, ValueError, AttributeError):  # no real file, or none at all
        os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _unexpected(error: BaseException) -> str:
    """What no command foresaw, in one line."""
    kind = type(error).__name__
    if kind == "OutOfMemoryError":  # of torch, which is not imported for this
        return "the GPU has too little memory. Fix: fewer units, a smaller batch, or --device cpu."
    said = " ".join(str(error).split())
    if isinstance(error, MemoryError) or "can't allocate memory" in said:
        return (
            f"too little memory{_in_brackets(said)}. Fix: fewer units, a smaller batch, fewer rows at once."
        )
    if isinstance(error, OSError):
        return (
            f"{kind}: {said[:LONGEST]}. Fix: look at the file or device: has it room, may you write to it? "
            f"The same command with {TRACEBACK} shows where it happened."
        )
    return (
        f"{kind}{_in_brackets(said)}, which should not happen. Fix: the same command with {TRACEBACK} "
        "shows where it happened; please report it."
    )


def _in_brackets(text: str) -> str:
    return f" ({text[:LONGEST]})" if text else ""


def _usage_error(error: Any) -> str:
    """What is wrong with the arguments, in one line."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "squircuit"
    message = " ".join(error.format_message().split()).rstrip(".")
    return f"{message}{'' if message.endswith('?') else '.'} Fix: {path} --help lists all."


def _failed(message: str, code: int = WRONG_INPUT) -> int:
    _say(f"error: {one_line(message)}")
    return code


def one_line(message: str) -> str:
    """Some lines, such as parsers write, as one.

    Example:
        >>> one_line("not valid YAML (found ':'\\n  in line 3)")
        "not valid YAML (found ':' in line 3)"
    """
    return printable(message, LONGEST_LINE)


def _say(text: str) -> None:
    with suppress(OSError):  # a standard error that takes nothing cannot be told so
        typer.echo(text, err=True)


def _show_warning(message: Warning | str, *place: Any, **more: Any) -> None:
    _say(f"warning: {one_line(in_shell(message))}")


PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
"""Settings of commands whose arguments another program reads."""

app = typer.Typer(
    name="squircuit",
    cls=Program,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.command()(fit.fit)
app.command()(score.score)
app.command()(sample.sample)
app.command()(complete.complete)
app.command()(compress.compress)
app.command()(compress.decompress)
app.command()(mix.mix)
app.command()(check.check)
app.command()(plot.plot)
app.command()(explore.explore)
app.add_typer(data.app)
app.command(context_settings=PASSED_ON)(harness.bench)
app.command(context_settings=PASSED_ON)(harness.reproduce)


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
    elif context.obj["launched"] is not None:
        context.obj["launched"].require(context.invoked_subcommand)


def main() -> None:
    """The entry point of the program."""
    app(prog_name="squircuit")
