"""Rows as users of scikit-learn have them, arrays and data frames, to numbers and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squircuit.data import Column, Rows, Schema
from squircuit.data.cells import Cells, Mask, as_cells
from squircuit.data.optional import need
from squircuit.data.schema import Chunk
from squircuit.data.tabular import Wishes
from squircuit.errors import DataError


def frame_kind(X: Any) -> str | None:
    """The package of a data frame, "pandas" or "polars"; None for arrays.

    Example:
        >>> frame_kind([[1.0]]) is None
        True
    """
    is_frame = hasattr(X, "columns") and hasattr(X, "dtypes")
    return type(X).__module__.partition(".")[0] if is_frame else None


def require_no_texts(X: Any, cause: Exception) -> None:
    """Refuse arrays of texts: only frames may hold them."""
    text = next((cell for cell in np.asarray(X).flat if isinstance(cell, str)), None)
    if text is not None:
        raise DataError(
            f"an array with texts, such as {str(text)!r}. Fix: pass a data frame, pandas.DataFrame(X)."
        ) from cause


def names_of(X: Any) -> list[str]:
    """The names of the columns as errors and ``columns=`` say them: "0", "1", … of arrays."""
    return [str(name) for name in (X.columns if frame_kind(X) else range(X.shape[1]))]


def wishes(columns: Any, names: Sequence[str]) -> Wishes:
    """Types of columns as :func:`squircuit.data.table` takes them.

    Example:
        >>> wishes("continuous", ["a", "b"]), wishes({0: "drop"}, ["0", "1"])
        ({'a': 'continuous', 'b': 'continuous'}, {'0': 'drop'})
    """
    if isinstance(columns, str):
        return dict.fromkeys(names, columns)
    if isinstance(columns, Mapping):
        return {str(name): wish for name, wish in columns.items()}
    return None if columns is None else [str(name) for name in columns]


def cells_of(X: Any) -> list[Cells]:
    """The columns one by one, as copies."""
    if frame_kind(X):
        return [as_cells(np.asarray(X[name])).copy() for name in X.columns]
    return [as_cells(column) for column in X.T]


def encoded(schema: Schema, cells: Sequence[Cells]) -> tuple[Rows[NDArray[Any]], Mask]:
    """Cells as rows, and which of them no discrete column had in training: these count as missing, too.

    Example:
        >>> schema = Schema((Column("n", "count", high=3.0), Column("sex", "binary", ("f", "m"))))
        >>> encoded(schema, [np.array([2.0, 7.0]), np.array(["x", "m"], dtype=object)])[1].tolist()
        [[False, True], [True, False]]
    """
    unknown = np.zeros((len(cells[0]), len(cells)), dtype=bool)
    chunk = Chunk(schema.names, tuple(cells), lambda row: f"row {row}")
    return schema.encode_chunk(chunk, unknown), unknown


def levels(column: Column) -> NDArray[Any]:
    """What the states of a discrete column stand for: numbers, or texts (then of dtype object)."""
    if column.kind == "count":
        return np.arange(column.low, column.high + 1)
    return np.array(column.categories, dtype=object if column.is_text else np.float64)


def decoded(column: Column, values: NDArray[Any]) -> NDArray[Any]:
    """Encoded values of a column, all known, as they were before."""
    return levels(column)[values.astype(np.int64)] if column.is_discrete else values


def as_array(columns: Sequence[Cells]) -> NDArray[Any]:
    """Columns side by side: (n, d) of floats, or of objects where some hold texts."""
    return np.stack(columns, axis=1)


def as_frame(kind: str, names: Sequence[str], columns: Sequence[Cells], index: Any = None) -> Any:
    """Columns as a data frame of pandas or polars; ``index`` is pandas'."""
    package = need(kind, "this data frame", "estimators")
    named = {
        name: cells if cells.dtype != object else cells.tolist()
        for name, cells in zip(names, columns, strict=True)
    }
    return package.DataFrame(named, index=index) if kind == "pandas" else package.DataFrame(named)
