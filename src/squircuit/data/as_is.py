"""Rows whose numbers are their own codes: encoded in one go, for streams of images and other plain arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from squircuit.data.columns import Column
from squircuit.data.schema import Encoded, Schema


class AsIs:
    """Encodes like its schema where every column is continuous, or has the states 0, 1, … as its values.

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
        self.applies = all(_is_plain(column) for column in columns)
        self._discrete = np.array([column.is_discrete for column in columns])
        self._dtype = np.int64 if self._discrete.all() else np.float64
        self._low = np.where(self._discrete, 0.0, np.finfo(np.float64).min)
        sizes = np.array([float(column.size) for column in columns])
        self._high = np.where(self._discrete, sizes - 1, np.finfo(np.float64).max)

    def encode(self, rows: NDArray[Any]) -> Encoded | None:
        """The rows, (n, d); None where it does not apply or a value is not in its domain."""
        if not self.applies or rows.dtype.kind not in "fiub":
            return None
        values = rows.astype(np.float64)
        missing = np.isnan(values)
        whole = ~self._discrete | (values == np.floor(values))
        if not (missing | (values >= self._low) & (values <= self._high) & whole).all():
            return None
        values[missing & self._discrete] = 0
        return Encoded(values.astype(self._dtype), missing)


def _is_plain(column: Column) -> bool:
    if column.kind == "count":
        return column.low == 0
    return column.kind == "continuous" or column.categories == tuple(range(column.size)) != ()
