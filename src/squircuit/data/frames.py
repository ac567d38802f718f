"""Data in memory: arrays, tensors, mappings, and data frames of any library that narwhals knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from squircuit.data.cells import Cells, as_cells, objects, read_as
from squircuit.data.optional import need
from squircuit.errors import DataError, require_unmasked
from squircuit.storage.words import listed, one_line, printable

KNOWN_TO_NUMPY = (torch.float16, torch.float32, torch.float64)
"""It knows neither bfloat16 nor float8."""


def plain(values: Any) -> NDArray[Any]:
    """Numbers as a NumPy array, from a tensor on any device and of any precision, too.

    Example:
        >>> import torch
        >>> plain(torch.tensor([0.5], dtype=torch.bfloat16))
        array([0.5], dtype=float32)
    """
    require_unmasked(values)
    try:
        return _of_tensor(values) if isinstance(values, Tensor) else np.asarray(values)
    except (TypeError, ValueError, RuntimeError, MemoryError) as error:  # ragged, sparse, without values
        raise DataError(
            f"the data is no table of numbers or texts ({one_line(error)}). "
            "Fix: pass a dense array or tensor, or rows with equally many cells."
        ) from error


def _of_tensor(values: Tensor) -> NDArray[Any]:
    found = values.detach().cpu().resolve_conj().resolve_neg()
    if found.is_floating_point() and found.dtype not in KNOWN_TO_NUMPY:
        found = found.float()
    return found.numpy()


def is_frame(rows: Any) -> bool:
    """Whether rows have named columns: a mapping, or a data frame of any library."""
    return isinstance(rows, Mapping) or hasattr(rows, "columns") or hasattr(rows, "column_names")


def names_of(rows: Any) -> list[Any]:
    """The names of the columns of a mapping or a data frame; those of Arrow are in another attribute."""
    if isinstance(rows, Mapping):
        return list(rows)
    return list(rows.column_names if hasattr(rows, "column_names") else rows.columns)


def named_columns(rows: Any, names: Sequence[Any] | None = None) -> dict[str, Cells]:
    """The columns of a mapping or a data frame, of one length.

    Args:
        rows: of pandas, polars, pyarrow and others.
        names: those wanted; default all.

    Raises:
        DataError: for columns that are not there, are of several lengths, or hold neither numbers nor texts.

    Example:
        >>> named_columns({"a": [1, None], "b": ["x", "y"]}, ["a"])
        {'a': array([ 1., nan])}
    """
    there = names_of(rows)
    wanted = there if names is None else list(names)
    for name in wanted:
        if name not in there:
            raise DataError(
                f"there is no column {name!r}, only {listed(there)}", value=name, fix="add it or rename one"
            )
    of_frame = None if isinstance(rows, Mapping) else _narwhal(rows)
    columns = {str(name): _column(rows if of_frame is None else of_frame, name) for name in wanted}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        some = printable(dict(list(lengths.items())[:8]))
        raise DataError(
            f"columns of different lengths, {some}, are no table", fix="give one cell for each row"
        )
    return columns


def cells_of_frame(rows: Any, name: Any) -> list[Any]:
    """One column of a mapping or a data frame, as Python's objects."""
    return list(rows[name]) if isinstance(rows, Mapping) else list(_narwhal(rows).get_column(name).to_list())


def _narwhal(rows: Any) -> Any:
    """A data frame with the methods of narwhals, whatever its library."""
    narwhals = need("narwhals", "reading data frames", None)
    try:
        if hasattr(rows, "column_names") and hasattr(rows, "__arrow_c_array__"):  # a batch of Arrow
            return narwhals.from_arrow(rows, backend="pyarrow")
        return narwhals.from_native(rows, eager_only=True)
    except (TypeError, ValueError, narwhals.exceptions.NarwhalsError) as error:
        raise DataError(
            f"the data is a {type(rows).__name__}, which cannot be read ({one_line(error)})",
            fix="pass one in memory of pandas, polars or pyarrow, or a mapping from names to columns",
        ) from error


def _column(rows: Any, name: Any) -> Cells:
    """One column of a mapping, or of a frame of narwhals: (n,)."""
    try:
        column = rows[name] if isinstance(rows, Mapping) else _cells_of(rows, name)
        array = plain(column)
    except DataError as error:
        raise error.at(f"column {name!r}") from error
    except Exception as error:  # libraries have errors of their own
        raise DataError(
            f"no array can be made of it ({one_line(error)})",
            where=f"column {name!r}",
            fix="give numbers or texts",
        ) from error
    if array.ndim != 1:
        raise DataError(
            f"an array of shape {array.shape}",
            where=f"column {name!r}",
            fix="give one cell for each row, and each column a name of its own",
        )
    if array.dtype.kind == "m":
        raise DataError(
            f"column {name!r} holds durations",
            fix="make numbers of them, such as seconds, or leave it out, " + read_as(str(name), "drop"),
        )
    return as_cells(array)


def _cells_of(frame: Any, name: Any) -> Any:
    """The cells of a column of a frame of narwhals; times of a zone are objects that know it.

    NumPy would get some category where one of a dictionary of Arrow is missing.
    """
    series = frame.get_column(name)
    kind = str(series.dtype)
    has_zone = series.dtype.is_temporal() and getattr(series.dtype, "time_zone", None) is not None
    if has_zone or kind.startswith(("Categorical", "Enum", "Time")):
        return objects(series.to_list())
    return series.to_numpy()
