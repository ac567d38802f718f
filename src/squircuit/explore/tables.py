"""Questions to models of tables: some cells are set, all others are asked for."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from squircuit.data import Column
from squircuit.data.calendar import as_time
from squircuit.data.given import encoded
from squircuit.errors import DataError, ParameterError, suggestion
from squircuit.explore.exhibit import Exhibit, shares_of_members
from squircuit.explore.fields import Question, entries, seed, text, whole
from squircuit.inference import Marginals
from squircuit.storage.words import listed, quoted

SIDE = 48
"""Points along a side of a heat map."""
MOST_STATES = 64
"""States along a side; of more, so many of them."""
MOST_SAMPLES = 1000
LEVELS = (0.05, 0.5, 0.95)
DELIMITERS = ("\t", ";", ",", "|")
FIELD = re.compile(r"(\d{4}-\d\d-\d\d)?T?(\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?")
"""What fields of dates and times hold, whatever the form is in the table."""
FINE = 1 + 1e-6
"""Densities that differ by less are equal: they are computed in single precision."""


def distributions(exhibit: Exhibit, question: Question) -> dict[str, Any]:
    """The exact distribution of every column given all others of ``evidence``, cells by name; and log p.

    So a column that is set has the distribution that it would have if it were not, which tells how odd it is;
    the parts of a date have theirs given none of its others.
    """
    x, missing = _row(exhibit, _evidence(exhibit, question))
    schema, columns = exhibit.schema, exhibit.schema.columns
    set_ = [those for those in map(schema.variables, schema.table_names) if not missing[0, those].all()]
    gaps = missing.repeat(1 + len(set_), 1)
    for row, those in enumerate(set_, 1):
        gaps[row, those] = True
    places = {v: row for row, those in enumerate(set_, 1) for v in those}  # in which row each is unknown
    found = exhibit.model.marginals(x.repeat(len(gaps), 1), gaps, grid=exhibit.grids)
    return {
        "log_prob": float(exhibit.model.log_prob(x, missing)),
        "members": shares_of_members(exhibit, x, missing),
        "columns": {
            c.name: _distribution(c, found, v, places.get(v, 0)) | _set(c, x[0, v], missing[0, v])
            for v, c in enumerate(columns)
        },
    }


def samples(exhibit: Exhibit, question: Question) -> dict[str, Any]:
    """``count`` exact samples of whole rows, given ``evidence``, in the words of the table."""
    x, missing = _row(exhibit, _evidence(exhibit, question))
    count = whole(question, "count", 1, MOST_SAMPLES, 10)
    drawn = exhibit.model.sample(count, given=x, missing=missing, seed=seed(question))[:, 0]
    return {
        "names": exhibit.schema.table_names,
        "rows": exhibit.schema.decode(drawn.cpu().numpy(), exact=~missing[0].numpy()),
    }


def score(exhibit: Exhibit, question: Question) -> dict[str, Any]:
    """log p of a row that was pasted as ``text``, and of each cell, or part of a date, how odd it is.

    The ``tail`` of a cell is the probability, given all other cells, of a value that is as unlikely as it or
    more so: small is odd. It compares numbers with categories, which densities do not.
    """
    schema, columns = exhibit.schema, exhibit.schema.columns
    cells = dict(zip(schema.table_names, parsed(text(question, "text"), schema.table_names), strict=True))
    x, missing = _row(exhibit, cells)
    dates = {part: str(cells[one.name]) for one in schema.calendars for part in one.names}
    seen = [v for v in range(x.shape[1]) if not missing[0, v]]
    if not seen:
        raise DataError("every cell is empty", where="row", fix="paste a row with one cell at least")
    asked = torch.eye(x.shape[1], dtype=torch.bool)[seen]  # one question for each cell
    rows, others = x.repeat(len(seen), 1), ~missing & ~asked
    found = exhibit.model.marginals(rows, missing | asked)
    log_p = exhibit.model.log_conditional(rows, of=asked, given=others).cpu()
    judged = [
        {
            "column": columns[v].name,
            "value": _as_written(columns[v], float(x[0, v]), cells, dates),
            "log_prob": float(log_p[i]),
            "tail": _tail(found, v, i, float(log_p[i].exp())),
            "likeliest": columns[v].decode(float(found.mode(v)[i])),
        }
        for i, v in enumerate(seen)
    ]
    return {
        "log_prob": float(exhibit.model.log_prob(x, missing)),
        "cells": judged,
        "oddest": min(judged, key=lambda cell: cell["tail"])["column"],
    }


def pair(exhibit: Exhibit, question: Question) -> dict[str, Any]:
    """The joint distribution of the columns ``x`` and ``y`` given all others of ``evidence``, on a grid."""
    first, second = (_number(exhibit, text(question, side)) for side in ("x", "y"))
    if first == second:
        raise ParameterError("x and y are the same column", fix="choose two")
    x, missing = _row(exhibit, _evidence(exhibit, question))
    missing[0, [first, second]] = True
    across, upwards = (_points(exhibit, v, SIDE) for v in (first, second))
    rows = x.repeat(len(across) * len(upwards), 1)
    rows[:, first] = across.repeat_interleave(len(upwards)).to(rows.dtype)
    rows[:, second] = upwards.repeat(len(across)).to(rows.dtype)
    gaps = missing.clone()
    gaps[0, [first, second]] = False
    log_joint = exhibit.model.log_prob(rows, gaps.expand(len(rows), -1)).double()
    given = exhibit.model.log_prob(x, missing).double()
    shares = (log_joint - given).exp().reshape(len(across), len(upwards))
    return {
        "x": _axis(exhibit.schema.columns[first], across),
        "y": _axis(exhibit.schema.columns[second], upwards),
        "values": shares.tolist(),
    }


def parsed(pasted: str, names: Sequence[str]) -> list[Any]:
    """The cells of a row as people copy it from a file or a spreadsheet, maybe with a line of names above.

    Example:
        >>> parsed("m; 31", ["sex", "age"]), parsed("age,sex\\n31,m", ["sex", "age"])
        (['m', '31'], ['m', '31'])
        >>> parsed("m", ["sex", "age"])
        Traceback (most recent call last):
        squircuit.errors.DataError: row: 1 cell, but the model has 2 columns, sex, age. Fix: paste one cell
        for each, with tabs, commas or semicolons between them.
    """
    lines = [line for line in pasted.splitlines() if line.strip()]
    if not lines:
        raise DataError("nothing was pasted", where="row", fix="paste a row of the table")
    ways = [list(csv.reader(lines[:2], delimiter=delimiter)) for delimiter in DELIMITERS]
    head, *rest = max(ways, key=lambda way: len(way[0]))
    head = [cell.strip() for cell in head]
    if rest and len(set(head)) == len(head) and set(head) <= set(names):  # names of columns
        there = dict(zip(head, (cell.strip() for cell in rest[0]), strict=False))
        return [there.get(name) for name in names]
    if len(head) != len(names):
        cells = "1 cell" if len(head) == 1 else f"{len(head)} cells"
        raise DataError(
            f"{cells}, but the model has {len(names)} columns, {listed(names)}",
            where="row",
            fix="paste one cell for each, with tabs, commas or semicolons between them",
        )
    return head


def _evidence(exhibit: Exhibit, question: Question) -> dict[str, Any]:
    """The cells that are set, by the names of columns, or of parts of dates."""
    given = entries(question, "evidence", dict)
    dates = {one.name for one in exhibit.schema.calendars}
    for name, value in given.items():
        if not isinstance(value, str | int | float | None):
            raise ParameterError(f"{quoted(value)} is no cell", where=name, fix="pass a number or a text")
        _require(name, [*dict.fromkeys([*exhibit.schema.table_names, *exhibit.schema.names])])
    return {name: _time(value) if name in dates else value for name, value in given.items()}


def _time(cell: Any) -> Any:
    """A date or time as a field of the page writes it; what is none, the calendar reads, or refuses."""
    time = as_time(cell, None) if isinstance(cell, str) and FIELD.fullmatch(cell) else None
    return cell if time is None else np.array([time], dtype="M8[us]")


def _number(exhibit: Exhibit, name: str) -> int:
    _require(name, exhibit.schema.names)
    return exhibit.schema.names.index(name)


def _require(name: str, names: Sequence[str]) -> None:
    if name not in names:
        raise ParameterError(
            f"the model has no column {quoted(name)}", fix=suggestion(name, names).removesuffix(".")
        )


def _row(exhibit: Exhibit, cells: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
    """One row of cells as the model knows them, and which it lacks: (1, d) each."""
    rows = encoded(exhibit.schema, cells)
    return torch.from_numpy(rows.x), torch.from_numpy(rows.missing)


def _set(column: Column, code: Tensor, is_missing: Tensor) -> dict[str, Any]:
    """What a variable is set to, if it is."""
    return {} if is_missing else {"value": column.decode(float(code), exact=True)}


def _as_written(column: Column, code: float, cells: Mapping[str, Any], dates: Mapping[str, str]) -> Any:
    """A cell as it was pasted; the part of a date with the date."""
    if column.name not in dates:
        return cells[column.name]
    return f"{column.decode(code, exact=True)} ({dates[column.name]})"


def _points(exhibit: Exhibit, v: int, count: int) -> Tensor:
    """Where a column is drawn: its states, of very many some, or points of its range."""
    column = exhibit.schema.columns[v]
    if not column.is_discrete:
        return torch.linspace(*exhibit.ranges[v], count, dtype=torch.float64)
    shown = torch.linspace(0, column.size - 1, min(column.size, MOST_STATES), dtype=torch.float64)
    return shown.round()


def _axis(column: Column, points: Tensor) -> dict[str, Any]:
    values = [column.decode(point, exact=True) for point in points.tolist()]
    return {"name": column.name, "discrete": column.is_discrete, "points": values}


def _distribution(column: Column, found: Marginals, v: int, row: int) -> dict[str, Any]:
    """p(x_v | the others) of a row: states or points, what it is there, and in numbers where it lies."""
    answer: dict[str, Any] = {
        "values": found.values[v][row].tolist(),
        "mode": column.decode(float(found.mode(v)[row])),
    }
    if not column.is_discrete:
        answer["points"] = found.points[v].tolist()
    if column.kind in ("count", "continuous"):
        shift = column.low if column.kind == "count" else 0.0
        ends = _ends(found, v, row)
        answer |= {
            "mean": float(found.mean[row, v]) + shift,
            "deviation": float(found.variance[row, v].clamp_min(0).sqrt()),
            "quantiles": [end + shift for end in ends],
        }
    return answer


def _ends(found: Marginals, v: int, row: int) -> list[float]:
    """Quantiles of one row; of a variable of a block to the distance of its nodes, at a tenth of the cost."""
    if v not in found.coordinates:
        return found.quantiles(v, LEVELS)[row].tolist()
    below = found.masses[v][row].double().cumsum(dim=0)
    places = torch.searchsorted(below, torch.tensor(LEVELS, dtype=torch.float64))
    return found.nodes[v][places.clamp_max(len(below) - 1)].tolist()


def _tail(found: Marginals, v: int, row: int, density: float) -> float:
    """The probability of what is as unlikely as a cell or more so: of nodes by their masses."""
    masses, values = found.masses[v][row].double(), found.values[v][row].double()
    return float(masses[values <= density * FINE].sum().clamp(0, 1))
