"""Dates and times: columns of a table that a model sees as several, such as month, weekday and hour."""

from __future__ import annotations

import calendar
import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from squircuit.data.cells import Cells, Mask, Place, is_missing, objects, read_as, shown
from squircuit.data.date_texts import Texts, offset_of, parsed, rendered
from squircuit.errors import DataError

Times = NDArray[np.datetime64]
"""Microseconds by the clock on the wall, (n,); NaT = missing."""
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
WEEKS = ("week_of_4", "week_of_5")
"""Which of the four or five such weekdays of its month a day is; the other one has no value."""
RANGES = {"month": (1, 12), "week_of_4": (1, 4), "week_of_5": (1, 5), "hour": (0, 23)}
"""Whole numbers that a part can be, of parts that are states."""
PARTS = ("year", "month", "day", "weekday", *WEEKS, "hour", "minute", "second")
MORE_YEARS = 10
"""Years before the first and after the last one seen that a day may be in, or as many as were seen."""
LAST_DAY = 31
"""The day of the month that stands for its last."""
KINDS = ("date", "datetime", "time")
_SHOWN = {"date": slice(10), "datetime": slice(19), "time": slice(11, 19)}


@dataclass(frozen=True)
class Calendar:
    """A column of dates or times, and the parts as which a model sees it.

    A day is given by its year, month, weekday, and by which of the month's such weekdays it is. A month has
    four or five of them, and these are two variables: the first Friday of four is 1 in "week_of_4", and has
    no value in "week_of_5". So every day has one name, every name is of one day, and the probabilities of
    all days are 1 together, Σ_{y,m,w} p(y, m, w) Σ_k p(k-th of four, or of five | y, m, w): densities are
    of days, and depend on the season, the weekday and the hour as the data does. Parts that are the same in
    all rows are no variables.

    Args:
        name: of the column.
        kind: "date", "datetime" or "time".
        parts: those that are variables, some of `PARTS`; the variables are called "NAME.PART".
        fixed: other parts and their values; day 31 is the last of each month.
        form: of texts, as of ``strftime``; "": the cells are dates or times themselves.
        zone: of cells that have one: its name, or of texts their offset, such as "Z" or "+02:00".
        first, last: the earliest and the latest time seen, as texts.
        missing: how many cells were missing.
        years: the first and the last one that a time may be of; None: any.

    Example:
        >>> days = np.array(["2024-02-09", "2024-03-20", "NaT"], "M8[us]")
        >>> found = Calendar.of("day", days, "date")
        >>> found.parts, found.fixed[0]
        (('month', 'weekday', 'week_of_4', 'week_of_5'), ('year', 2024.0))
        >>> {name: list(cells) for name, cells in found.split(days).items()}["day.weekday"]
        ['Fri', 'Wed', None]
        >>> weeks = {"day.week_of_4": [2, None], "day.week_of_5": [5, None]}
        >>> found.join({"day.month": [2, None], "day.weekday": ["Fri", None]} | weeks)
        [datetime.date(2024, 2, 9), None]
    """

    name: str
    kind: str
    parts: tuple[str, ...]
    fixed: tuple[tuple[str, float], ...] = ()
    form: str = ""
    zone: str | None = None
    first: str = ""
    last: str = ""
    missing: int = 0
    years: tuple[int, int] | None = None

    @staticmethod
    def of(name: str, times: Times, kind: str, form: str = "", zone: str | None = None) -> Calendar:
        """The calendar of a column: what varies is a part."""
        known = times[~np.isnat(times)]
        parts, fixed = [], []
        found = _parts_of(known)
        for part in [part for part in PARTS if part in found]:
            values = found["week"] if part in WEEKS else found[part]
            if not len(values) or (values == values[0]).all():
                fixed.append((part, float(values[0]) if len(values) else 0.0))
            else:
                parts.append(part)
        first, last = (
            (str(end)[_SHOWN[kind]] for end in (known.min(), known.max())) if len(known) else ("", "")
        )
        missing = int(np.isnat(times).sum())
        years = _years(found["year"]) if "year" in parts else None
        return Calendar(name, kind, tuple(parts), tuple(fixed), form, zone, first, last, missing, years)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variables."""
        return tuple(f"{self.name}.{part}" for part in self.parts)

    def read(self, cells: Cells, place: Place) -> Times:
        """The cells as times by the clock on the wall: (n,)."""
        if cells.dtype.kind == "M":
            return cells.astype("M8[us]")
        if self.form:
            return self._of_texts(cells, place)
        return self._of_objects(cells, place)

    def split(self, times: Times, place: Place = str) -> dict[str, Cells]:
        """The cells of the variables, by their names: numbers with NaN, and weekdays with None."""
        gone = np.isnat(times)
        values = _parts_of(times[~gone], by_weekday="day" not in dict(self.fixed))
        self._require_year(values["year"], times, ~gone, place)
        for part, value in self.fixed:
            self._require_fixed(part, value, values, times, ~gone, place)
        return {f"{self.name}.{part}": _cells(part, values[part], gone) for part in self.parts}

    def join(self, cells: Mapping[str, Sequence[Any]]) -> list[Any]:
        """The cells of the column from those of the variables; None where one is missing."""
        columns = [cells[name] for name in self.names]
        return [self._cell(dict(zip(self.parts, row, strict=True))) for row in zip(*columns, strict=True)]

    def lacks(self, gaps: Mask) -> Mask:
        """The rows that lack the time, of those parts that are missing: (n, parts) → (n,).

        Example:
            >>> found = Calendar.of("day", np.array(["2024-02-09", "2024-03-20"], "M8[us]"), "date")
            >>> found.lacks(np.array([[False, False, False, True], [True, False, False, True]]))
            array([False,  True])
        """
        weeks = np.isin(self.parts, WEEKS)
        found = np.asarray(gaps[:, ~weeks].any(axis=1))
        both = np.asarray(gaps[:, weeks].all(axis=1))
        return found | both if weeks.any() else found

    def _cell(self, parts: dict[str, Any]) -> Any:
        if any(cell is None for part, cell in parts.items() if part not in WEEKS):
            return None
        time = _time(dict(self.fixed) | parts)
        if time is None:
            return None
        if self.form:
            return rendered(time, self.form, self.zone)
        if self.kind == "time":
            return time.time()
        if self.kind == "date":
            return time.date()
        return time if self.zone is None else time.replace(tzinfo=ZoneInfo(self.zone))

    def _of_texts(self, cells: Cells, place: Place) -> Times:
        found, wrong = parsed(cells, Texts(self.form, self.zone))
        if wrong is not None:
            raise DataError(
                f"{shown(cells[wrong])} is no {self.kind} as {rendered(_EXAMPLE, self.form, self.zone)!r}",
                where=f"{place(wrong)}, column {self.name!r}",
                value=cells[wrong],
                fix="correct the cell, leave it empty (missing), or read the column in training as "
                + read_as(self.name, "categorical"),
            )
        return found

    def _of_objects(self, cells: Cells, place: Place) -> Times:
        found = [as_time(cell, self.zone) for cell in cells.tolist()]
        if None in found:
            row = found.index(None)
            raise DataError(
                f"{shown(cells[row])} is no {self.kind}",
                where=f"{place(row)}, column {self.name!r}",
                value=cells[row],
                fix=f"give a {self.kind}, or leave it empty (missing)",
            )
        return np.array(found, dtype="M8[us]")

    def _require_year(self, years: Any, times: Times, known: Any, place: Place) -> None:
        """Refuse times of years in which the model knows of none."""
        off = (years < self.years[0]) | (years > self.years[1]) if self.years else np.zeros(len(years), bool)
        if self.years is None or not off.any():
            return
        row = int(np.flatnonzero(known)[np.argmax(off)])
        raise DataError(
            f"{str(times[row])[_SHOWN[self.kind]]} is not of the years {self.years[0]} to "
            f"{self.years[1]}, the only ones that the model gives a probability; it learnt from "
            f"{self.first} to {self.last}",
            where=f"{place(row)}, column {self.name!r}",
            fix="correct the cell, leave it empty (missing), or train with data of such years",
        )

    def _require_fixed(
        self, part: str, value: float, values: Mapping[str, Any], times: Times, known: Any, place: Place
    ) -> None:
        """Refuse times that no combination of the parts is."""
        here = values[part]
        lasts = values["last"] if part == "day" and value == LAST_DAY else value
        off = (here != np.minimum(value, lasts)) & (here == here)  # one of the weeks has no value
        if not off.any():
            return
        row = int(np.flatnonzero(known)[np.argmax(off)])
        meant = "the last of its month" if part == "day" and value == LAST_DAY else _in_words(part, value)
        raise DataError(
            f"{str(times[row])[_SHOWN[self.kind]]} is not like the others: its {part} is "
            f"{_in_words(part, here[np.argmax(off)])}, and in all rows of the training data {meant}",
            where=f"{place(row)}, column {self.name!r}",
            fix="correct the cell, leave it empty (missing), or train with data that has such times",
        )


_EXAMPLE = dt.datetime(2024, 12, 31, 23, 59, 30)


def as_time(cell: Any, zone: str | None) -> Any:
    """A date or time of Python by the clock on the wall; NaT for what is missing, None for what is none."""
    if is_missing(cell) or cell != cell:
        return np.datetime64("NaT")
    if isinstance(cell, np.datetime64):
        return cell.astype("M8[us]")
    if isinstance(cell, str):
        cell = _of_iso(cell)
    if isinstance(cell, dt.time):
        return np.datetime64(dt.datetime.combine(dt.date(1970, 1, 1), cell.replace(tzinfo=None)), "us")
    if isinstance(cell, dt.datetime):
        aware = cell if cell.tzinfo is None or zone is None else cell.astimezone(ZoneInfo(zone))
        return np.datetime64(aware.replace(tzinfo=None), "us")
    return np.datetime64(cell, "us") if isinstance(cell, dt.date) else None


def _of_iso(text: str) -> Any:
    """The date or time of a text as ISO 8601 writes it; None where it is none."""
    for kind in (dt.datetime, dt.time):
        try:
            return kind.fromisoformat(text.strip())
        except ValueError:
            continue
    return None


def _parts_of(times: Times, by_weekday: bool | None = None) -> dict[str, Any]:
    """All parts of times, (n,) each. Days by weekday, unless all have the same number in their month."""
    days, months = times.astype("M8[D]"), times.astype("M8[M]")
    day = (days - months.astype("M8[D]")).astype(int) + 1
    last = ((months + 1).astype("M8[D]") - months.astype("M8[D]")).astype(int)
    seconds = (times - days).astype("m8[us]").astype(np.int64)
    found = {"year": months.astype("M8[Y]").astype(int) + 1970, "month": months.astype(int) % 12 + 1}
    if by_weekday is None:
        is_last = bool((day == last).all()) and bool((day != day[:1]).any())
        day = np.full_like(day, LAST_DAY) if is_last else day
        by_weekday = bool((day != day[:1]).any())
    if by_weekday:
        week, is_five = (day - 1) // 7 + 1, (day - 1) % 7 + 29 <= last
        found |= {"weekday": (days.astype(int) + 3) % 7, "week": week}  # day 0 was a Thursday
        found |= {"week_of_4": np.where(is_five, np.nan, week), "week_of_5": np.where(is_five, week, np.nan)}
    else:
        found |= {"day": day, "last": last}
    hours, rest = np.divmod(seconds, 3_600_000_000)
    minutes, rest = np.divmod(rest, 60_000_000)
    found |= {"hour": hours, "minute": minutes, "second": rest / 1e6}
    return found


def _cells(part: str, values: Any, gone: Any) -> Cells:
    if part == "weekday":
        cells = objects([None] * len(gone))
        cells[~gone] = np.array(WEEKDAYS, dtype=object)[values]
        return cells
    numbers: Cells = np.full(len(gone), np.nan)
    numbers[~gone] = values
    return numbers


def _years(years: Any) -> tuple[int, int]:
    """The years that a model knows: those seen, and some on either side."""
    first, last = int(years.min()), int(years.max())
    more = max(MORE_YEARS, last - first)
    return max(first - more, dt.MINYEAR), min(last + more, dt.MAXYEAR - 1)


def _time(parts: Mapping[str, Any]) -> dt.datetime | None:
    """The time with these parts; None: which of the month's such weekdays it is, is missing.

    The parts may have "week" as files of earlier versions do, in which a fifth weekday that a month does not
    have is its fourth and last.
    """
    year = min(max(round(parts["year"]), dt.MINYEAR), dt.MAXYEAR - 1)
    month, weekday = int(parts["month"]), parts.get("weekday")
    first, last = calendar.monthrange(year, month)
    if "day" in parts:
        day = min(int(parts["day"]), last) - 1
    else:
        number = WEEKDAYS.index(weekday) if isinstance(weekday, str) else int(weekday or 0)
        day = (number - first) % 7
        week = parts[WEEKS[day + 28 < last]] if "week" not in parts else parts["week"]
        if week is None:
            return None
        day += 7 * (int(week) - 1)
        day -= 7 if day >= last else 0
    micro = round(min(max(float(parts["second"]), 0.0), 59.999999) * 1e6)
    start = dt.datetime(year, month, 1, int(parts["hour"]), min(max(round(parts["minute"]), 0), 59))
    return start + dt.timedelta(days=day, microseconds=micro)


def _in_words(part: str, value: float) -> str:
    return WEEKDAYS[int(value)] if part == "weekday" else f"{value:g}"


def calendar_from_dict(entry: Mapping[str, Any]) -> Calendar:
    """The calendar of an entry of JSON data; a ValueError, KeyError or TypeError says why it is none."""
    parts, fixed = tuple(entry["parts"]), tuple((str(p), float(value)) for p, value in entry["fixed"])
    words = (entry["name"], entry["kind"], entry["form"], entry["first"], entry["last"])
    together = [*parts, *(part for part, _ in fixed if part != "last")]
    if not all(isinstance(word, str) for word in words) or entry["kind"] not in KINDS or not parts:
        raise ValueError("a column of dates without name, kind or parts")
    named = [{"weekday", *WEEKS}, {"weekday", "week"}, {"day"}]  # "week": of earlier versions
    days = next((days for days in named if days <= set(together)), {"day"})
    if sorted(together) != sorted({"year", "month", "hour", "minute", "second"} | days):
        raise ValueError(
            f"column {entry['name']!r}: {', '.join(map(str, together))[:80]} are no parts of a time"
        )
    if not all(np.isfinite(value) for _, value in fixed) or type(entry["missing"]) is not int:
        raise ValueError(f"column {entry['name']!r}: a part or the number of gaps is no number")
    zone = entry["zone"]
    if zone is not None and entry["form"]:
        offset_of(zone)
    elif zone is not None:
        ZoneInfo(zone)
    years = entry.get("years")
    if years is not None:
        years = tuple(int(year) for year in years)
        if not (len(years) == 2 and dt.MINYEAR <= years[0] <= years[1] < dt.MAXYEAR):
            raise ValueError(f"column {entry['name']!r}: {years} are no first and last year")
    return Calendar(**dict(entry) | {"parts": parts, "fixed": fixed, "years": years})
