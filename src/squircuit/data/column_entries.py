"""Columns of JSON data, as files of models hold them: whatever is no column is refused."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from squircuit.data.columns import KINDS, MANY, Column
from squircuit.data.decimals import MOST_LEVELS, STEPS
from squircuit.families.checks import is_finite


def column_from_dict(entry: Mapping[str, Any]) -> Column:
    """The column of an entry of JSON data; a ValueError, KeyError or TypeError says why it is none."""
    fields = dict(entry)
    name, kind, categories = fields["name"], fields["kind"], fields["categories"]
    if not isinstance(name, str) or kind not in KINDS or not isinstance(categories, list | tuple):
        raise ValueError(f"{str(name)[:40]!r} with the type {str(kind)[:40]!r} is no column")
    for field in ("low", "high", "loc", "scale"):
        if not is_finite(fields[field]) or abs(fields[field]) > sys.float_info.max:
            raise ValueError(f"column {name!r}: {field} is no finite number")
    steps = (0.0, *STEPS) if kind == "continuous" else (0.0,)
    if type(step := fields.get("step", 0.0)) not in (int, float) or step not in steps:
        raise ValueError(f"column {name!r}: its step is neither 0 nor a power of ten")
    levels = tuple(fields.get("levels", ()))
    if levels and (kind != "continuous" or len(levels) > MOST_LEVELS or not all(map(is_finite, levels))):
        raise ValueError(f"column {name!r}: its levels are no finite numbers, or too many")
    if list(levels) != sorted(set(levels)):
        raise ValueError(f"column {name!r}: its levels do not increase")
    if type(fields["missing"]) is not int or fields["missing"] < 0:
        raise ValueError(f"column {name!r}: missing is no number of cells")
    spikes = tuple((float(spike), float(half)) for spike, half in fields.get("spikes", ()))
    column = Column(**fields | {"categories": tuple(categories), "levels": levels, "spikes": spikes})
    _require_states(column)
    _require_ends(column)
    return column


def _require_ends(column: Column) -> None:
    """Refuse bounds and spikes that are no numbers, or of columns that have none, and pools of no texts."""
    ends = [end for end in (column.least, column.most) if end is not None]
    numbers = [*ends, *(number for spike in column.spikes for number in spike)]
    if numbers and (column.kind != "continuous" or not all(map(is_finite, numbers)) or ends != sorted(ends)):
        raise ValueError(f"column {column.name!r}: its bounds or spikes are no finite numbers in order")
    if any(half <= 0 for _, half in column.spikes) or len(column.spikes) > MOST_LEVELS:
        raise ValueError(f"column {column.name!r}: its spikes are no values with a distance each")
    if column.pooled is not None and (type(column.pooled) is not int or column.kind != "categorical"):
        raise ValueError(f"column {column.name!r}: pooled is no number of values")
    if type(column.ordered) is not bool:
        raise ValueError(f"column {column.name!r}: ordered is neither true nor false")


def _require_states(column: Column) -> None:
    """Refuse states that are not distinct or not of one type, and ranges that are empty or too long."""
    states = column.categories
    of_one_type = all(isinstance(state, str) for state in states) or all(is_finite(state) for state in states)
    most = {"binary": 2, "categorical": MANY}.get(column.kind, 0)
    if not of_one_type or len(set(states)) < len(states) or len(states) > most or (most and not states):
        raise ValueError(f"column {column.name!r}: its categories are not those of a {column.kind} column")
    width = column.high - column.low
    is_count = width < MANY and column.low == int(column.low) and column.high == int(column.high)
    if width < 0 or column.scale < 0 or (column.kind == "count" and not is_count):
        raise ValueError(f"column {column.name!r}: {column.low:g} to {column.high:g} is no range")
    if column.kind == "periodic" and width == 0:
        raise ValueError(f"column {column.name!r}: a period of 0")
