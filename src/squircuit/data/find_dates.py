"""Which columns of a table are dates or times."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from squircuit.data.calendar import KINDS, RANGES, WEEKDAYS, Calendar
from squircuit.data.cells import Cells, Place, is_missing, objects, read_as, shown
from squircuit.data.column_facts import Facts
from squircuit.data.columns import Column
from squircuit.data.date_texts import Texts, ambiguous, form_of, parsed
from squircuit.data.infer import infer
from squircuit.data.schema import Chunk
from squircuit.errors import DataError

Piece = tuple[Cells, Place]
"""Some cells of a column, and where they were read."""


def calendars_in(chunks: Iterable[Chunk], wishes: Mapping[str, str], source: str) -> tuple[Calendar, ...]:
    """The calendars of the columns that hold dates or times.

    Args:
        chunks: of a table; only the first one is looked at if it has no dates.
        wishes: types that the user names, "date", "datetime" or "time", also with a form, "date:%d/%m/%Y".
        source: of the table, for errors.

    Example:
        >>> cells = np.array(["2024-02-09", None, "2023-01-01"], dtype=object)
        >>> (found,) = calendars_in([Chunk(("day",), (cells,), str)], {}, "data.csv")
        >>> found.parts, found.form
        (('year', 'month', 'weekday', 'week_of_4', 'week_of_5'), '%Y-%m-%d')
    """
    seen: dict[str, list[Piece]] = {}
    for number, chunk in enumerate(chunks):
        for name, cells in zip(chunk.names, chunk.cells, strict=True):
            if name in seen or (number == 0 and _may_be(cells, wishes.get(name))):
                seen.setdefault(name, []).append((cells, chunk.place))
        if not seen:
            return ()
    found = (_calendar(name, cells, wishes.get(name), source) for name, cells in seen.items())
    return tuple(one for one in found if one is not None)


def part_column(one: Calendar, name: str, facts: Facts, source: str) -> Column:
    """The column of a part of a calendar, a variable of the model."""
    part = one.parts[one.names.index(name)]
    if part in RANGES:
        low, high = RANGES[part]
        return Column(name, "categorical", tuple(range(low, high + 1)), missing=facts.missing)
    if part == "weekday":
        return Column(name, "categorical", WEEKDAYS, missing=facts.missing)
    if part != "year" or one.years is None:
        return infer(name, facts, source)
    low, high = one.years
    return Column(name, "count", low=low, high=high, missing=facts.missing)


def without_dates(cells: Cells) -> Cells:
    """A column of dates that are all the same as one of texts; all other columns as they are."""
    if cells.dtype.kind == "M":
        return objects([None if np.isnat(cell) else str(cell) for cell in cells])
    if cells.dtype == object and isinstance(_first(cells), dt.date | dt.time):
        return objects([None if cell is None or cell != cell else str(cell) for cell in cells])
    return cells


def _first(cells: Cells) -> Any:
    return next((cell for cell in cells if not is_missing(cell)), None)


def _may_be(cells: Cells, wish: str | None) -> bool:
    if wish is not None:
        return wish.strip().partition(":")[0] in KINDS
    if cells.dtype.kind == "M":
        return True
    if cells.dtype != object:
        return False
    first = _first(cells)
    return isinstance(first, dt.date | dt.time) or (isinstance(first, str) and bool(form_of([first])))


def _calendar(name: str, pieces: Sequence[Piece], wish: str | None, source: str) -> Calendar | None:
    """The calendar of a column; None: it holds no dates, or only one."""
    kind, _, form = (wish or "").strip().partition(":")
    if all(cells.dtype.kind == "M" for cells, _ in pieces):
        is_date = all(str(cells.dtype).endswith("[D]") for cells, _ in pieces)
        times = np.concatenate([cells.astype("M8[us]") for cells, _ in pieces])
        return _unless_constant(Calendar.of(name, times, kind or ("date" if is_date else "datetime")))
    first = next((cell for cells, _ in pieces if (cell := _first(cells)) is not None), None)
    if isinstance(first, dt.date | dt.time):
        return _of_objects(name, pieces, kind, first)
    texts = [str(cell) for cells, _ in pieces for cell in _different(cells) if not is_missing(cell)]
    forms = [Texts(form)] if form else form_of(texts)
    if not forms:
        if wish is None:
            return None
        raise DataError(
            f"{shown(first)} is no {kind} in a form that is known",
            where=f"{source}, column {name!r}",
            value=first,
            fix="name the form of strftime, " + read_as(name, f"{kind}:%d.%m.%Y"),
        )
    _require_one(name, forms, texts, kind or "date", source)
    found = Calendar(name, kind or _kind(forms[0].form), (), (), *forms[0])
    times = np.concatenate([found.read(*piece) for piece in pieces])
    return _unless_constant(Calendar.of(name, times, found.kind, *forms[0]))


def _different(cells: Cells) -> Iterable[Any]:
    coded = getattr(cells, "coded", None)
    return coded[1].tolist() if coded is not None else dict.fromkeys(cells.tolist())


def _kind(form: str) -> str:
    if "%H" not in form:
        return "date"
    return "datetime" if "%Y" in form or "%y" in form else "time"


def _require_one(name: str, forms: list[Texts], texts: list[str], kind: str, source: str) -> None:
    """Refuse texts that may be read in two ways."""
    two = ambiguous(forms)
    if not two:
        return
    cells = objects(texts)
    first, second = (parsed(cells, Texts(form, forms[0].zone))[0] for form in two)
    if (first != second).any():
        raise DataError(
            f"of dates such as {texts[0]!r} nobody can tell which is the day and which the month",
            where=f"{source}, column {name!r}",
            value=texts[0],
            fix="say " + read_as(name, f"{kind}:{two[0]}") + " or " + read_as(name, f"{kind}:{two[1]}"),
        )


def _of_objects(name: str, pieces: Sequence[Piece], kind: str, first: Any) -> Calendar | None:
    """The calendar of Python's own dates and times."""
    if not kind:
        is_time, has_clock = isinstance(first, dt.time), isinstance(first, dt.datetime)
        kind = "time" if is_time else "datetime" if has_clock else "date"
    zone = None if getattr(first, "tzinfo", None) is None else _zone(str(first.tzinfo))
    reader = Calendar(name, kind, (), zone=zone)
    times = np.concatenate([reader.read(*piece) for piece in pieces])
    return _unless_constant(Calendar.of(name, times, kind, zone=zone))


def _zone(name: str) -> str:
    """The name of a time zone that is known by it, else that of Greenwich."""
    try:
        return str(ZoneInfo(name))
    except (ValueError, OSError, KeyError):
        return "UTC"


def _unless_constant(found: Calendar) -> Calendar | None:
    return found if found.parts else None
