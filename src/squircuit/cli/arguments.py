"""Arguments that several commands have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

import typer

from squircuit.errors import ParameterError

DATA_SETS = (
    "mnist", "fashion-mnist", "cifar10", "cifar10-ycocg", "nltcs", "plants", "baudio", "dna", "digits",
    "ring", "spinner", "spiral",
)  # fmt: skip
"""What `squircuit.data.names` lists, for shells, which do not wait until torch is imported."""


def one_of(words: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Completes a word of some; files are completed by the shell.

    Example:
        >>> one_of(lambda: ("mean", "mode", "sample"))("m")
        ['mean', 'mode']
    """

    def completed(incomplete: str) -> list[str]:  # typer knows the argument by its name
        return [word for word in words() if word.startswith(incomplete)]

    return completed


ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="File of a model, or the folder of a run.")]
DataName = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A file, a folder of images, a name, or - for standard input.",
        autocompletion=one_of(lambda: DATA_SETS),
    ),
]
Part = Annotated[
    str,
    typer.Option(
        help="Of a named data set: train, valid or test.",
        autocompletion=one_of(lambda: ("train", "valid", "test")),
    ),
]
Device = Annotated[
    str,
    typer.Option(
        help="cpu, cuda, or auto: a GPU where there is one.",
        autocompletion=one_of(lambda: ("auto", "cpu", "cuda")),
    ),
]
Seed = Annotated[int, typer.Option(min=0, max=2**63 - 1, help="The same seed gives the same result.")]
Safe = Annotated[
    bool,
    typer.Option("--safe", help="In CSV, put ' before texts that spreadsheets would run, such as =1+1."),
]
Delimiter = Annotated[
    str | None, typer.Option(help="Between the cells of CSV; default: as it is found, else a comma.")
]
Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="Whether CSV begins with names; default: as it is found."),
]
Encoding = Annotated[
    str | None, typer.Option(help="Of CSV, such as latin-1; default: UTF-8, or UTF-16 where it begins so.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output, for machines.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on standard error.")]


def pairs(texts: list[str], option: str) -> dict[str, str]:
    """NAME=VALUE arguments as a mapping.

    Example:
        >>> pairs(["lr=0.1", "wind=periodic:360"], "--set")
        {'lr': '0.1', 'wind': 'periodic:360'}
    """
    for text in texts:
        if "=" not in text.strip("="):
            raise ParameterError(f"{option} {text}: not understood. Fix: write {option} NAME=VALUE.")
    return {name.strip(): value.strip() for name, _, value in (text.partition("=") for text in texts)}
