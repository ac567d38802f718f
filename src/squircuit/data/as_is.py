"""Rows whose numbers are almost their own codes: encoded in one go, for images and other wide tables."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squircuit.data.cells import numbers
from squircuit.data.columns import Column
from squircuit.data.schema import Chunk, Encoded, Schema


class AsIs:
    """Encodes like its schema where every column is continuous, or has the states a, a + 1, a + 2, ….

    Example:
        >>> plain = AsIs(Schema((Column("a", "count", high=9), Column("b", "continuous"))))
        >>> plain.encode(np.array([[3, 0.5], [np.nan, np.nan]])).rows
        array([[3. , 0.5],
               [0. , nan]])
        >>> print(plain.encode(np.array([[10, 0.5]])))  # out of range: let the schema say where
        None
    """

    def __init__(self, schema: Schema) -> None:
        columns = schema.columns
        first = [_first(column) for column in columns]
        self.applies = None not in first
        self._first = np.array([0.0 if state is None else state for state in first])
        self._discrete = np.array([column.is_discrete for column in columns])
        self._dtype = np.int64 if self._discrete.all() else np.float64
        self._low = np.where(self._discrete, 0.0, np.finfo(np.float64).min)
        sizes = np.array([float(column.size) for column in columns])
        self._high = np.where(self._discrete, sizes - 1, np.finfo(np.float64).max)

    def encode(self, rows: NDArray[Any]) -> Encoded | None:
        """The rows, (n, d); None where it does not apply or a value is not in its domain."""
        if not self.applies or rows.dtype.kind not in "fiub":
            return None
        with np.errstate(invalid="ignore"):  # of infinite numbers, which are not in any domain
            values = rows.astype(np.float64) - self._first
        missing = np.isnan(rows) if rows.dtype.kind == "f" else np.zeros(rows.shape, dtype=bool)
        whole = ~self._discrete | (values == np.floor(values))
        if not (missing | (values >= self._low) & (values <= self._high) & whole).all():
            return None
        values[missing & self._discrete] = 0
        return Encoded(values.astype(self._dtype), missing)

    def encode_chunk(self, chunk: Chunk) -> Encoded | None:
        """Rows that were read from a file; None as for `encode`, and where a cell is no number."""
        if not self.applies:
            return None
        read = [numbers(cells) for cells in chunk.cells]
        if any(wrong is not None for _, wrong in read):
            return None
        values = np.concatenate([found for found, _ in read]).reshape(len(read), -1)
        return self.encode(values.T)


def _first(column: Column) -> float | None:
    """The number of the first state, where the others follow; 0 for numbers that stay; None for others."""
    if column.kind == "count":
        return column.low
    if column.kind != "continuous" and (column.is_text or not column.categories):
        return None
    first = column.categories[0] if column.categories else 0.0
    if not math.isfinite(first):
        return None
    if column.size > 1 and column.categories != tuple(range(int(first), int(first) + column.size)):
        return None
    return float(first)
