"""CSV as text: rows with some of their cells replaced, all else character by character as it was."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from squircuit.data.csv_files import CsvSource
from squircuit.errors import DataError, Wording
from squircuit.storage.words import one_line

ENDS = "\r\n"
Mark = Callable[[int, str], str]
"""What is written in place of the text of a cell in some column."""


def completed_csv(
    source: CsvSource, filled: Sequence[Sequence[Mapping[int, Any]]], mark: Mark | None = None
) -> bytes:
    """The file with cells in its gaps, in its own encoding.

    Args:
        source: the file.
        filled: of each of the first rows, its versions: position of a column → the cell there; what has none
            stays as it is, byte by byte.
        mark: what is written in place of a cell; None: the cell.
    """
    head, rows = source.records()
    parts = [head if mark is None else marked(head, mark, source.delimiter)]
    for row, versions in zip(rows, filled, strict=False):
        plain = row if mark is None else marked(row, mark, source.delimiter)
        parts += [
            replaced(_ended(plain, number, versions), cells, source.delimiter)
            for number, cells in enumerate(versions)
        ]
    try:
        return "".join(parts).encode(source.codec)
    except UnicodeEncodeError as error:
        raise DataError(
            f"what is filled in has characters that {source.codec} has not ({one_line(error)})",
            where=str(source.path),
            fix="write the data as UTF-8"
            + Wording("", ", or fill it into a Parquet file, --out FILE.parquet"),
        ) from error


def replaced(row: str, cells: Mapping[int, Any], delimiter: str = ",") -> str:
    """A row with other cells in some places.

    Example:
        >>> replaced('"a, b",?,  3\\r\\n', {1: 0.5})
        '"a, b",0.5,  3\\r\\n'
    """
    if not cells:
        return row
    body = row.rstrip(ENDS)
    parts = split(body, delimiter)
    for position, cell in cells.items():
        parts[position] = csv_cell(cell, delimiter)
    return delimiter.join(parts) + row[len(body) :]


def split(body: str, delimiter: str = ",") -> list[str]:
    """The cells of a row as they are written, with quotes and spaces.

    Example:
        >>> split(' "a ""good"", year", b,')
        [' "a ""good"", year"', ' b', '']
    """
    if '"' not in body:
        return body.split(delimiter)
    mark = re.escape(delimiter)
    cell = re.compile(rf'( *"(?:[^"]|"")*"(?={mark}|\Z)|[^{mark}]*)({mark}|\Z)')
    parts, place = [], 0
    while True:
        found = cell.match(body, place)
        assert found is not None  # anything without the delimiter is a cell
        parts.append(found[1])
        place = found.end()
        if not found[2]:
            return parts


def csv_cell(cell: Any, delimiter: str = ",") -> str:
    """A cell as it is written: in quotes, where it could not be read again without.

    Example:
        >>> [csv_cell(cell) for cell in (0.5, "a,b", 'a "b" c', " d", None)]
        ['0.5', '"a,b"', '"a ""b"" c"', '" d"', '']
    """
    text = "" if cell is None else str(cell)
    is_plain = not any(mark in text for mark in (delimiter, '"', *ENDS)) and not text.startswith(" ")
    return text if is_plain else '"' + text.replace('"', '""') + '"'


def marked(row: str, mark: Mark, delimiter: str = ",") -> str:
    """A row in which some cells are written in another way; the others stay as they are.

    Example:
        >>> marked('7,"=1+1",=2\\n', lambda column, cell: "'" + cell if cell[0] == "=" else cell)
        "7,'=1+1,'=2\\n"
    """
    body = row.rstrip(ENDS)
    if not body:
        return row
    cells = next(csv.reader([*body.splitlines(keepends=True)], delimiter=delimiter, skipinitialspace=True))
    other = {column: new for column, cell in enumerate(cells) if (new := mark(column, cell)) != cell}
    return replaced(row, other, delimiter)


def _ended(row: str, number: int, versions: Sequence[Any]) -> str:
    """The last row of a file may not end, but one of several versions of it must."""
    return row if row.endswith(tuple(ENDS)) or number == len(versions) - 1 else row + "\n"
