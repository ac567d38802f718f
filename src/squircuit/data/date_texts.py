"""Texts that are dates or times: the form in which they are written, to times and back."""

from __future__ import annotations

import datetime as dt
import itertools
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from squircuit.data.cells import Cells, is_missing, of_each

DATES = (
    "%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y",
    "%d %b %Y", "%d-%b-%Y", "%b %d, %Y", "%Y-%m", "%d.%m.%y", "%d/%m/%y", "%m/%d/%y",
)  # fmt: skip
CLOCKS = ("%H:%M", "%H:%M:%S", "%H:%M:%S.%f")
FORMS = (*DATES, *(f"{date}{gap}{clock}" for date in DATES for gap in " T" for clock in CLOCKS), *CLOCKS)
"""Forms that are found by themselves, the usual ones first."""
LIKE_ONE = re.compile(
    r"\d{1,4}[-/.]\d{1,2}([-/. T]|$)|\d{1,2}:\d\d|\d{1,2}[- ][A-Za-z]{3}[- ]|[A-Za-z]{3} \d{1,2}, "
)
"""How such a text begins."""
ZONE = re.compile(r":\d\d(?:\.\d+)? ?(Z|[+-]\d\d:?\d\d)$")
"""What stands behind a time with an offset."""
LENGTHS = {"%Y-%m-%d": 10, "%Y-%m-%d %H:%M": 16, "%Y-%m-%dT%H:%M": 16,
           "%Y-%m-%d %H:%M:%S": 19, "%Y-%m-%dT%H:%M:%S": 19}  # fmt: skip
"""Forms that NumPy reads, and how long they are."""
MOSTLY = 0.9
"""The share of texts from which on one that does not fit is a mistake."""
TRIED = 50


class Texts(NamedTuple):
    """How texts are written: the form of ``strftime``, and the offset that stands behind them."""

    form: str
    zone: str | None = None


def form_of(texts: Iterable[str]) -> list[Texts]:
    """The forms that (nearly) all of some texts have, the usual one first; none: they are no dates.

    Example:
        >>> form_of(["2024-02-09 12:30", "2024-02-10 07:15"])
        [Texts(form='%Y-%m-%d %H:%M', zone=None)]
        >>> [found.form for found in form_of(["01/02/2024", "03/02/2024"])], form_of(["red", "1/2"])
        (['%d/%m/%Y', '%m/%d/%Y'], [])
        >>> form_of(["2024-02-09T12:30:00+02:00"])
        [Texts(form='%Y-%m-%dT%H:%M:%S', zone='+02:00')]
    """
    every = [text.strip() for text in texts]
    some = every[:: max(1, len(every) // TRIED)]
    if not some or sum(LIKE_ONE.match(text) is not None for text in some) < MOSTLY * len(some):
        return []
    zones = {match[1] for text in every if (match := ZONE.search(text))}
    zone = zones.pop() if len(zones) == 1 else "Z" if zones else None
    likely = [form for form in FORMS if sum(_fits(text, form) for text in some) >= MOSTLY * len(some)]
    counts = [(sum(_fits(text, form) for text in every), form) for form in likely]
    most = max((count for count, _ in counts), default=0)
    return [Texts(form, zone) for count, form in counts if count == most and count >= MOSTLY * len(every)]


def parsed(cells: Cells, texts: Texts) -> tuple[NDArray[np.datetime64], int | None]:
    """Texts as times by the clock of their offset, NaT for missing, and the first row that holds none."""
    form, zone = texts
    entries = [None if is_missing(cell) else str(cell).strip() for cell in cells.tolist()]
    if zone is None and form in LENGTHS and all(e is None or len(e) == LENGTHS[form] for e in entries):
        try:
            found = np.array([entry or "NaT" for entry in entries], dtype="M8[us]")
            is_form = all(entry is None or entry[4] == entry[7] == "-" for entry in entries)
            if is_form and all(e is None or len(e) == 10 or e[10] == form[8] for e in entries):
                return found, None
        except ValueError:
            pass
    times = of_each(lambda cell: _parsed(cell, form, zone), cells)
    wrong = next((row for row, time in enumerate(times) if time is False), None)
    return np.array([None if time is False else time for time in times], dtype="M8[us]"), wrong


def rendered(time: dt.datetime, form: str, zone: str | None) -> str:
    """A time as it is written."""
    return time.strftime(form.replace("%Y", f"{time.year:04d}")) + (zone or "")


def offset_of(zone: str) -> dt.timedelta:
    """How far the clock of an offset is before that of Greenwich.

    Example:
        >>> offset_of("-01:30"), offset_of("Z")
        (datetime.timedelta(days=-1, seconds=81000), datetime.timedelta(0))
    """
    if zone == "Z":
        return dt.timedelta(0)
    match = re.fullmatch(r"([+-])(\d\d):?(\d\d)", zone)
    if match is None:
        raise ValueError(f"{zone[:20]!r} is no offset")
    minutes = 60 * int(match[2]) + int(match[3])
    return dt.timedelta(minutes=-minutes if match[1] == "-" else minutes)


def _fits(text: str, form: str) -> bool:
    return isinstance(_parsed(text, form, None, is_guess=True), dt.datetime)


def _parsed(cell: Any, form: str, zone: str | None, is_guess: bool = False) -> Any:
    """The time of a text; None for missing, False where it is none of this form.

    While the form is a guess, any zone will do, but nothing else than the form.
    """
    if is_missing(cell):
        return None
    text = str(cell).strip()
    match = ZONE.search(text) if zone is not None or is_guess else None
    if match is None and zone is not None:
        return False
    time = _read(text if match is None else text[: match.start(1)].rstrip(), form, is_guess)
    if time is None:
        return False
    if match is None or zone is None:
        return time
    return time - offset_of(match[1]) + offset_of(zone)


def _read(text: str, form: str, exactly: bool) -> dt.datetime | None:
    """The time of a text; between date and clock a "T" is as good as a blank, and a blank as a "T"."""
    other = form.replace("T%H", " %H") if "T%H" in form else form.replace(" %H", "T%H")
    for each in (form,) if exactly or other == form else (form, other):
        with suppress(ValueError):
            return dt.datetime.strptime(text, each)
    return None


def ambiguous(found: list[Texts]) -> tuple[str, ...]:
    """Forms of which no one can tell which is meant.

    Example:
        >>> ambiguous(form_of(["01/02/2024", "03/02/2024"])), ambiguous(form_of(["01/22/2024"]))
        (('%d/%m/%Y', '%m/%d/%Y'), ())
    """
    forms = [one.form for one in found]
    orders = {tuple(re.findall("%[dm]", form)) for form in forms}
    return tuple(dict.fromkeys(itertools.islice(forms, 2))) if len(orders) > 1 else ()
