"""Tables with their gaps filled, written as they were read: text as text, types as types."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from squircuit.cli.reading import Form, schema_of
from squircuit.cli.tables import (
    ARROW,
    harmless,
    is_standard,
    write_arrow,
    write_bytes,
    write_decoded,
    write_rows,
)
from squircuit.data.cells import Mask, escaped
from squircuit.data.csv_files import CsvSource
from squircuit.data.csv_text import completed_csv
from squircuit.data.layout import Layout
from squircuit.data.parquet import ArrowSource
from squircuit.data.reading import Source
from squircuit.data.schema import Schema
from squircuit.models import SquaredCircuit

Words = Sequence[Sequence[Any]]
"""Rows in the words of the data."""


def write_completed(
    out: Path | None,
    model: SquaredCircuit,
    source: Source | None,
    values: Words,
    missing: Tensor,
    form: Form,
    safe: bool,
) -> None:
    """Completions, in the form of the file that had the gaps where it has one.

    Args:
        out: the file; None or "-": standard output.
        model: whose columns the values have.
        source: of the n rows; None: a data set.
        values: completions of the first row, then of the second, …: (n · m, d).
        missing: what was filled, (n, d).
        form: of CSV.
        safe: put ' before texts that a spreadsheet would take for a formula.
    """
    schema = schema_of(model)
    gaps = schema.table_mask(missing.cpu().numpy())
    ending = "" if out is None or is_standard(out) else out.suffix.lower()
    if isinstance(source, CsvSource) and ending not in (".npy", *ARROW):
        write_bytes(out, _completed_text(source, schema, values, gaps, safe))
    elif isinstance(source, ArrowSource) and ending in ARROW and out is not None:
        write_arrow(out, _completed_table(source, schema, values, gaps))
    elif isinstance(source, ArrowSource) and ending != ".npy":
        table = _completed_table(source, schema, values, gaps)
        columns = [_cells(column) for column in table.columns]
        write_rows(out, table.column_names, list(zip(*columns, strict=True)), form, safe)
    else:
        write_decoded(out, model, values, form, safe)


def _completed_text(source: CsvSource, schema: Schema, values: Words, gaps: Mask, safe: bool) -> bytes:
    positions = _positions(source, schema)
    times = len(values) // max(1, len(gaps))
    filled = []
    for row, own in enumerate(gaps):
        places = np.flatnonzero(own).tolist()
        versions = values[row * times : (row + 1) * times]
        filled.append([{positions[v]: _safe(version[v], safe) for v in places} for version in versions])
    of_dates = {one.name for one in schema.calendars}
    texts = {
        position
        for position, name in zip(positions, schema.table_names, strict=True)
        if name in of_dates or schema.columns[schema.variables(name)[0]].is_text
    }

    def mark(position: int, cell: str) -> str:
        return str(harmless(cell) if position in texts else escaped(cell))

    return completed_csv(source, filled, mark if safe else None)


def _completed_table(source: ArrowSource, schema: Schema, values: Words, gaps: Mask) -> Any:
    """The table as it is in the file, each row as often as it has completions, with its gaps filled."""
    times = len(values) // max(1, len(gaps))
    whole = source.whole().slice(0, len(gaps))
    table = whole.take(np.repeat(np.arange(len(gaps)), times))
    many = np.repeat(gaps, times, axis=0)
    changed = {}
    for v, name in enumerate(schema.table_names if source.named else source.names):
        if many[:, v].any():
            cells = table.column(name).to_pylist()
            for row in np.flatnonzero(many[:, v]).tolist():
                cells[row] = values[row][v]
            changed[name] = cells
    return Layout.of(table).filled(table, changed)


def _positions(source: Source, schema: Schema) -> list[int]:
    """The positions in a file of the columns of a model."""
    return source.positions(schema.table_names if source.named else source.names)


def _safe(cell: Any, safe: bool) -> Any:
    return harmless(cell) if safe else cell


def _cells(column: Any) -> list[Any]:
    """A column of Arrow as CSV has it: single precision with its own digits."""
    if str(column.type) != "float":
        return list(column.to_pylist())
    return [None if cell is None else float(str(np.float32(cell))) for cell in column.to_pylist()]
