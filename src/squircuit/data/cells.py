"""The cells of a column as they were read: numbers, texts, and what is missing."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from squircuit.errors import DataError, Wording, require_unmasked

Cells = NDArray[Any]
"""One column as read: float64 with NaN for missing, objects, texts with None for missing, or datetime64."""
Values = NDArray[np.float64]
Mask = NDArray[np.bool_]
Place = Callable[[int], str]
"""The number of a row → where it was read, such as "data.csv, line 17"."""

MISSING = frozenset({"", "?", "na", "n/a", "nan", "null", "none"})
"""Texts, in any case, that mean a missing value."""
EMPTY = frozenset(f(text) for text in MISSING for f in (str, str.upper, str.title))
"""Those as they are mostly written."""
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What begins a formula in a spreadsheet, also in the wide letters of East Asia."""
SEVERAL = (np.ndarray, list, tuple, dict, set, frozenset)
"""What holds several values, so that it is no cell."""
LAST_CHARACTER, SURROGATES = 0x10FFFF, (0xD800, 0xDFFF)
"""The last character of Unicode, and the codes that stand for no character by themselves."""
LONG = 80
"""Characters of a cell that a message shows."""
NOT_KNOWN = frozenset({"NAType", "NaTType"})
"""The types of pandas' marks for missing values."""


def read_as(name: str, kind: str) -> Wording:
    """The argument, or the option, that reads a column as some type.

    Example:
        >>> read_as("id", "drop").python, read_as("my id", "drop").shell
        ("columns={'id': 'drop'}", "--columns 'my id=drop'")
    """
    return Wording(f"columns={{{name!r}: {kind!r}}}", f"--columns {shlex.quote(f'{name}={kind}')}")


@final
class Texts(np.ndarray):
    """A column of texts that knows which ones there are, so that each is looked at once.

    What is made of it by NumPy, such as a part or a copy, is a plain column.

    Example:
        >>> column = Texts.of(np.array([1, 0, 1]), ["blue", "red"])
        >>> of_each(str.upper, column), column[:2].coded is None
        (['RED', 'BLUE', 'RED'], True)
    """

    coded: tuple[NDArray[Any], Cells] | None

    @staticmethod
    def of(codes: NDArray[Any], different: list[str]) -> Texts:
        """The texts with some numbers: (n,)."""
        texts = objects(different)
        made: Texts = texts[codes].view(Texts)
        made.coded = (codes, texts)
        return made

    def __array_finalize__(self, source: Any) -> None:
        self.coded = None


def as_cells(values: Iterable[Any]) -> Cells:
    """A column from memory as cells; numbers and truth values with missing ones among them are numbers.

    Example:
        >>> as_cells([True, None, False]), as_cells(["a", 1])
        (array([ 1., nan,  0.]), array(['a', 1], dtype=object))
    """
    require_unmasked(values)
    array = values if isinstance(values, np.ndarray) else objects(list(values))
    if array.dtype == object and not any(isinstance(cell, str) for cell in array):
        found = [number(cell) for cell in array]
        if None not in found:
            return np.array(found, dtype=np.float64)
    if array.dtype.kind == "U":
        _require_characters(array)
    if array.dtype.kind == "M":
        return array
    return array.astype(np.float64 if array.dtype.kind in "fiub" else object)


def columns_of(rows: NDArray[Any]) -> tuple[Cells, ...]:
    """The columns of an (n, d) array as cells."""
    if rows.dtype.kind in "fiub":
        return tuple(np.ascontiguousarray(rows.T, dtype=np.float64))  # at once: there may be very many
    return tuple(as_cells(column) for column in rows.T)


def _require_characters(texts: Cells) -> None:
    """Refuse bytes of a file that are no characters of any alphabet: Python breaks where it meets them."""
    codes = np.ascontiguousarray(texts).view(texts.dtype.byteorder + "u4")
    if ((codes > LAST_CHARACTER) | (codes >= SURROGATES[0]) & (codes <= SURROGATES[1])).any():
        raise DataError("texts with bytes that are no characters. Fix: write the data again.")


def objects(values: list[Any]) -> Cells:
    """A column of objects, also of objects that NumPy would take for rows."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def escaped(cell: Any) -> Any:
    """A cell for a CSV file that a spreadsheet opens: texts that it would compute begin with an apostrophe.

    Spreadsheets take texts that begin with = + - @, a tab or a return for formulas, and those may come from
    strangers. Numbers, also such as -1.5, are written as they are, and so is every cell that is no text. CSV
    files that programs read need no such marks: `read` would take the apostrophe for a part of the text.

    Example:
        >>> [escaped(cell) for cell in ("=HYPERLINK(A1)", "-1.5", -1.5, "red", None)]
        ["'=HYPERLINK(A1)", '-1.5', -1.5, 'red', None]
    """
    return f"'{cell}" if is_formula(cell) and number(cell) is None else cell


def is_formula(cell: Any) -> bool:
    """Whether a cell is a text that a spreadsheet may compute."""
    return isinstance(cell, str) and cell.lstrip(" ").startswith(FORMULA)


def is_missing(cell: Any) -> bool:
    """Whether a cell means: not known."""
    if isinstance(cell, str):
        return cell.strip().lower() in MISSING
    if isinstance(cell, float | np.floating):
        return math.isnan(cell)
    return cell is None or type(cell).__name__ in NOT_KNOWN


def shown(cell: Any) -> str:
    """A cell as messages show it, on one line and not too long.

    Example:
        >>> shown("red"), len(shown("x" * 1000)), shown(np.eye(2))
        ("'red'", 80, 'array([[1., 0.], [0., 1.]])')
    """
    text = repr(cell[:LONG] if isinstance(cell, str) else cell)
    line = " ".join(text.split()) if "\n" in text else text
    return line if len(line) <= LONG else line[: LONG - 1] + "…"


def number(cell: Any) -> float | None:
    """The number in a cell, NaN for missing, None if it is no number."""
    if type(cell) is not str and isinstance(cell, SEVERAL):
        return None
    try:
        value = float(cell)
    except OverflowError:  # a whole number of more than 308 digits
        return -math.inf if str(cell)[:1] == "-" else math.inf
    except (TypeError, ValueError):
        return math.nan if is_missing(cell) else None
    return None if isinstance(cell, str) and "_" in cell else value  # Python reads "1_2" as 12


def numbers(cells: Cells) -> tuple[Values, int | None]:
    """A column as numbers, NaN for missing, and the first row that holds none (it is NaN, too)."""
    if cells.dtype.kind == "M":
        known = ~np.isnat(cells)
        return np.full(len(cells), math.nan), int(np.argmax(known)) if known.any() else None
    if cells.dtype != object:
        return cells.astype(np.float64, copy=False), None
    entries = cells.tolist()
    with suppress(
        TypeError, ValueError, OverflowError, StopIteration
    ):  # mostly all are numbers, written as Python does
        float(next(entry for entry in entries if entry not in EMPTY))  # texts are soon found to be none
        if "_" not in "".join(entries):
            return np.array([math.nan if entry in EMPTY else float(entry) for entry in entries]), None
    found = of_each(number, cells)
    if None not in found:
        return np.array(found, dtype=np.float64), None
    if found.count(None) == len(found):
        return np.full(len(found), math.nan), 0
    return np.array([math.nan if value is None else value for value in found]), found.index(None)


def begin_with_a_number(cells: Cells) -> bool:
    """Whether the first cell that is known is a number: one look, where `numbers` has to look at all."""
    if cells.dtype != object:
        return True
    first = next((cell for cell in cells if not is_missing(cell)), None)
    return first is None or number(first) is not None


def of_each(function: Callable[[Any], Any], cells: Cells) -> list[Any]:
    """A function of every cell, which looks at each different text once: a column of texts has mostly few."""
    coded: tuple[NDArray[Any], Cells] | None = getattr(cells, "coded", None)
    if coded is not None:
        return objects([function(text) for text in coded[1]])[coded[0]].tolist()  # type: ignore[no-any-return]
    entries = cells.tolist()
    with suppress(TypeError):  # what is in no set is no text
        different = set(entries)
        if all(type(entry) is str for entry in different):
            found = {entry: function(entry) for entry in different}
            return list(map(found.__getitem__, entries))
    known = {entry: function(entry) for entry in {entry for entry in entries if type(entry) is str}}
    return [known[entry] if type(entry) is str else function(entry) for entry in entries]


def as_numbers(cells: Cells, name: str, place: Place) -> Values:
    """A column of numbers, NaN for missing; anything else, infinity included, is an error with its place."""
    values, wrong = numbers(cells)
    if wrong is not None:
        raise DataError(
            f"{shown(cells[wrong])} is not a number",
            where=f"{place(wrong)}, column {name!r}",
            value=cells[wrong],
            fix="correct the cell, leave it empty (missing), or read the column in training as "
            + read_as(name, "categorical"),
        )
    if np.isinf(values).any():
        row = int(np.argmax(np.isinf(values)))
        raise DataError(
            f"{place(row)}, column {name!r}: {values[row]} is not finite. "
            "Fix: correct the cell or leave it empty (missing)."
        )
    return values
