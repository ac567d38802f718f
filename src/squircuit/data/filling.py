"""Tables whose gaps are filled: all else of them stays as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squircuit.data.cells import Mask
from squircuit.data.columns import Column
from squircuit.data.frames import cells_of_frame, names_of
from squircuit.data.given import is_column, of_one_length, of_records
from squircuit.data.layout import Layout
from squircuit.data.schema import Schema


def filled_table(schema: Schema, given: Any, values: NDArray[Any], gaps: Mask, how: str) -> Any:
    """A frame, a mapping or a list of mappings with its gaps filled.

    Types of columns, names, order and index stay, and so does each cell that is observed. Columns of the
    model that are not there come after the others.

    Args:
        schema: the columns of the model.
        given: n rows.
        values: (n, d) as the model gives them; only those in gaps are looked at.
        gaps: (n, d).
        how: what the gaps are filled with, "mean", "mode" or "sample".

    Example:
        >>> from squircuit.data import table
        >>> schema = table({"sex": ["f", "m", "m"], "age": [31, 7, 52]}).schema
        >>> filled_table(schema, {"id": 7, "age": None}, np.array([[1, 30]]), np.ones((1, 2), bool), "mode")
        {'id': 7, 'age': 30, 'sex': 'm'}
    """
    if isinstance(given, Mapping) and not any(is_column(cells) for cells in given.values()):
        return filled_table(schema, [given], values, gaps, how)[0]
    if isinstance(given, list | tuple):
        columns = filled_table(schema, of_records(given), values, gaps, how)
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in rows]
    if isinstance(given, Mapping):
        given = of_one_length(given)
    there = {str(name): name for name in names_of(given)}
    exact = [is_unrounded(column, how) for column in schema.columns]
    changed = {}
    for name in schema.table_names:
        places = np.flatnonzero(schema.lacking(name, gaps))
        if len(places):
            cells = cells_of_frame(given, there[name]) if name in there else [None] * len(gaps)
            for row, cell in zip(places.tolist(), _found(schema, name, values[places], exact), strict=True):
                cells[row] = cell
            changed[name] = cells
    return Layout.of(given).filled(given, changed)


def _found(schema: Schema, name: str, values: NDArray[Any], exact: list[bool]) -> list[Any]:
    """The cells of a column of the table from some rows of numbers, as that column holds them."""
    parts = [
        [schema.columns[v].decode(value, exact[v]) for value in values[:, v].tolist()]
        for v in schema.variables(name)
    ]
    cells = schema.whole(name, parts)
    return cells if schema.layout is None else schema.layout.fitted(name, cells)


def is_unrounded(column: Column, how: str) -> bool:
    """What is filled in may lie between the values that a column can take: means, but of whole numbers."""
    return how == "mean" and column.step < 1
