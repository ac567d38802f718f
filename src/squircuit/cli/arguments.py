"""Arguments that several commands have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

import torch
import typer

from squircuit.cli.reading import Form
from squircuit.data import names
from squircuit.data.content import codec
from squircuit.errors import ParameterError
from squircuit.storage.memory import free_bytes, require_memory


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
        autocompletion=one_of(names),
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
CELL = 100
"""Bytes that a cell needs as a number, as an object of Python, and as text."""
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output, for machines.")]


def chosen_device(text: str) -> torch.device:
    """The device that the user wants, if it is there."""
    if text == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if text not in ("cpu", "cuda"):
        raise ParameterError(f"--device {text}: not known. Fix: cpu, cuda or auto.")
    if text == "cuda" and not torch.cuda.is_available():
        raise ParameterError("--device cuda: there is no CUDA device here. Fix: --device cpu.")
    return torch.device(text)


def form_of(header: bool | None, delimiter: str | None, encoding: str | None) -> Form:
    """How CSV is read and written.

    Example:
        >>> form_of(None, "tab", None).delimiter
        '\\t'
    """
    if delimiter is not None:
        delimiter = {"tab": "\t", "\\t": "\t"}.get(delimiter, delimiter)
        if len(delimiter) != 1 or delimiter in '"\r\n ':
            raise ParameterError(f"--delimiter {delimiter!r}: not one character. Fix: such as ';' or tab.")
    if encoding is not None:
        codec(b"", encoding)
    return Form(header, delimiter, encoding)


def require_room(count: int, rows: int, columns: int) -> None:
    """Refuse so many samples of each of some rows as the memory does not hold.

    Example:
        >>> require_room(2**40, 1, 4)
        Traceback (most recent call last):
        squircuit.errors.ParameterError: -n 1099511627776: this needs about 4.4e+05 GB of memory, and ...
    """
    row = max(1, rows) * columns * CELL
    most = (free_bytes() or 0) // row
    fix = f"several calls of at most -n {most}, each with another --seed and --out" if most else "fewer rows"
    require_memory(count * row, f"-n {count}", fix)


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
