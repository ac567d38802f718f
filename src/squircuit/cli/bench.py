"""`squircuit bench`: time a training step; the program is benchmarks/step.py."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from squircuit.cli.programs import folder, run


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
        raise typer.Exit(run(program, words))
    words.remove("--json")
    with TemporaryDirectory() as place:
        file = Path(place) / "rows.json"
        code = run(program, [*words, "--json", str(file)], words_aside=True)
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
