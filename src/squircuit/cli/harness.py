"""`squircuit bench` and `squircuit reproduce`: programs beside the package, which read their own arguments.

They are benchmarks/step.py and experiments/NAME.py: in a wheel inside the package, in a checkout at its root.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

import squircuit
from squircuit.cli.arguments import one_of
from squircuit.errors import FormatError, ParameterError, suggestion

HELPERS = ("record", "table_peers", "other_tables")
"""Files among the experiments that are none."""
STANDARD_ERROR = 2
PACKAGE = Path(squircuit.__file__).resolve().parent


def bench(context: typer.Context) -> None:
    """Time a whole training step on this machine: forward, backward, optimiser.

    All arguments are those of benchmarks/step.py; squircuit bench --help lists them. A --json without the
    name of a file writes to standard output.

    Examples:

    - squircuit bench --kind unitary-kronecker --units 8
    - squircuit bench --suite cpu --device cpu --json times.json
    """
    program, words = folder("benchmarks") / "step.py", list(context.args)
    if not _asks_for_document(words):
        raise typer.Exit(_run(program, words))
    words.remove("--json")
    with TemporaryDirectory() as place:
        file = Path(place) / "rows.json"
        code = _run(program, [*words, "--json", str(file)], words_aside=True)
        if file.exists():
            typer.echo(file.read_text(encoding="utf-8"), nl=False)
    raise typer.Exit(code)


def _asks_for_document(words: list[str]) -> bool:
    """There is a --json without a file.

    Example:
        >>> _asks_for_document(["--json", "--units", "2"]), _asks_for_document(["--json", "times.json"])
        (True, False)
    """
    if "--json" not in words:
        return False
    following = words[words.index("--json") + 1 :][:1]
    return not following or following[0].startswith("-")


def reproduce(
    context: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(
            help="Of the experiment; without it they are listed.",
            autocompletion=one_of(lambda: _experiments()),
        ),
    ] = None,
) -> None:
    """Train and score the models of a table or figure of the paper, and write rows and pictures.

    Further arguments are those of the experiment; squircuit reproduce NAME --help lists them.

    Examples:

    - squircuit reproduce densities
    - squircuit reproduce marginals --sides 8 16 --json
    - squircuit reproduce images --data mnist --kind unitary --units 4 6 8 --seeds 0 1 2
    """
    known = _experiments()
    if name is None or name == "--help":
        for stem, path in known.items():
            typer.echo(f"{stem:12} {_first_line(path.read_text(encoding='utf-8'))}")
        return
    if name not in known:
        raise ParameterError(f"there is no experiment {name!r}. Fix: {suggestion(name, list(known))}")
    raise typer.Exit(_run(known[name], context.args))


def _experiments() -> dict[str, Path]:
    files = sorted(folder("experiments").glob("*.py"))
    return {path.stem: path for path in files if path.stem not in HELPERS}


def _first_line(source: str) -> str:
    """The first line of a module's docstring."""
    return source.removeprefix('"""').split("\n", 1)[0].removesuffix('"""')


def folder(name: str) -> Path:
    """``benchmarks`` or ``experiments``."""
    for place in (PACKAGE / f"_{name}", PACKAGE.parents[1] / name):
        if place.is_dir():
            return place
    raise FormatError(f"there is no folder {PACKAGE / f'_{name}'}. Fix: install squircuit again.")


def _run(program: Path, arguments: list[str], *, words_aside: bool = False) -> int:
    """The exit code of a program in a process of its own; its words may go to standard error."""
    command = [sys.executable, str(program), *arguments]
    code = subprocess.run(command, check=False, stdout=STANDARD_ERROR if words_aside else None).returncode
    return code if code >= 0 else 128 - code  # ended by a signal, as shells say it
