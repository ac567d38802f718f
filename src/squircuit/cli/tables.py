"""Tables that commands write: as CSV, Parquet, Feather or NumPy files, or on standard output."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import typer
from torch import Tensor

from squircuit.cli.reading import STANDARD, Form, schema_of
from squircuit.data.cells import is_formula
from squircuit.data.layout import Layout
from squircuit.data.optional import need
from squircuit.errors import DataError, ParameterError
from squircuit.models import SquaredCircuit
from squircuit.storage.atomic import replace
from squircuit.storage.words import one_line

CSV = (".csv", ".tsv", ".txt")
ARROW = (".parquet", ".pq", ".feather", ".arrow")
TABLES = (*CSV, *ARROW, ".npy")
PIECE = 2**16
"""Bytes that are written to standard output at once."""


def is_standard(path: Path | None) -> bool:
    """Rows go to standard output: no file is named, or "-"."""
    return path is None or str(path) == STANDARD


def write_rows(
    path: Path | None,
    names: Sequence[str],
    rows: Sequence[Sequence[Any]],
    form: Form,
    safe: bool = False,
    layout: Layout | None = None,
) -> None:
    """Rows as a file, by the end of its name, or as CSV on standard output.

    Args:
        path: of the file.
        names: of the columns.
        rows: of cells; None is an empty one.
        form: of CSV.
        safe: put ' before texts that a spreadsheet would take for a formula.
        layout: the types of the columns, where they are known.
    """
    ending = "" if path is None else path.suffix.lower()
    if path is not None and ending in ARROW:
        columns = [list(cells) for cells in zip(*rows, strict=True)] or [[] for _ in names]
        is_arrow = layout is not None and layout.library == "pyarrow"
        write_arrow(path, (layout if layout and is_arrow else Layout("pyarrow")).table(names, columns))
        return
    delimiter = form.delimiter or ("\t" if ending == ".tsv" else ",")
    text = as_csv(names, rows, safe, delimiter, form.header is not False)
    try:
        content = text.encode(form.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError) as error:
        raise ParameterError(
            f"--encoding {form.encoding}: the rows cannot be written so ({one_line(error)}). Fix: utf-8."
        ) from error
    write_bytes(path, content)


def write_decoded(
    path: Path | None, model: SquaredCircuit, rows: Sequence[Sequence[Any]], form: Form, safe: bool = False
) -> None:
    """Rows of a model in the words of its data, see `decoded`."""
    if path is not None and path.suffix.lower() == ".npy":
        write_array(path, as_array(model, rows))
    else:
        schema = schema_of(model)
        write_rows(path, schema.table_names, rows, form, safe, schema.layout)


def decoded(model: SquaredCircuit, rows: Tensor, exact: Tensor | None = None) -> list[list[Any]]:
    """Rows of a model in the words of its data; ``exact``: cells that were observed, and are not rounded."""
    return schema_of(model).decode(rows.cpu(), exact=None if exact is None else exact.cpu())


def write_bytes(path: Path | None, content: bytes) -> None:
    """The content of a file, or of standard output."""
    if path is None or is_standard(path):
        for start in range(0, len(content), PIECE):  # an unbuffered write may end early without an error
            typer.echo(content[start : start + PIECE], nl=False)
    else:
        replace(path, content)


def write_arrow(path: Path, table: Any) -> None:
    """A table of Arrow as a Parquet or a Feather file."""
    stream = io.BytesIO()
    if path.suffix.lower() in (".feather", ".arrow"):
        need("pyarrow.feather", "writing Feather files").write_feather(table, stream)
    else:
        need("pyarrow.parquet", "writing Parquet files").write_table(table, stream)
    replace(path, stream.getvalue())


def write_array(path: Path, array: np.ndarray) -> None:
    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    replace(path, content.getvalue())


def as_csv(
    names: Sequence[str],
    rows: Sequence[Sequence[Any]],
    safe: bool = False,
    delimiter: str = ",",
    header: bool = True,
) -> str:
    """Comma-separated lines; None is an empty cell.

    Args:
        names: of the columns.
        rows: of cells.
        safe: put ' before texts that a spreadsheet would take for a formula. Numbers stay as they are.
        delimiter: between cells.
        header: whether there is a line of names.

    Example:
        >>> print(as_csv(["sex", "height"], [["f", 1.5], ["m", None]]), end="")
        sex,height
        f,1.5
        m,
    """
    stream = io.StringIO()
    lines = [names, *rows] if header else rows
    cells = ([harmless(cell) for cell in row] for row in lines) if safe else lines
    csv.writer(_Lines(stream), delimiter=delimiter).writerows(cells)
    return stream.getvalue()


class _Lines:
    """Ends lines as on Unix; the writer must think of both characters, or it leaves one unquoted in texts."""

    def __init__(self, stream: io.StringIO) -> None:
        self._stream = stream

    def write(self, line: str) -> None:
        self._stream.write(line.removesuffix("\r\n") + "\n")


def harmless(cell: Any) -> Any:
    """
    >>> [harmless(cell) for cell in ("=1+1", "a=1", "-2", -2.0, None)]
    ["'=1+1", 'a=1', "'-2", -2.0, None]
    """
    return f"'{cell}" if is_formula(cell) else cell


def as_array(model: SquaredCircuit, rows: Sequence[Sequence[Any]]) -> np.ndarray:
    """Rows as numbers, images in their shape: (n, d) or (n, H, W)."""
    for column in schema_of(model).columns:
        if column.is_text:
            raise DataError(
                f"column {column.name!r} holds texts, which a .npy file does not. Fix: --out FILE.csv."
            )
    values = np.asarray(rows)
    return values.reshape(len(values), *(model.shape or values.shape[1:]))
