"""What users pass as rows, as a tensor of numbers; what is none says what to pass instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from squircuit.data import Dataset, Rows, Table
from squircuit.data.cells import number
from squircuit.errors import DataError


def as_tensor(x: Any, width: int) -> Tensor:
    """A tensor of the rows, of any shape, in their own precision.

    Args:
        x: a tensor, an array, a list of rows, a data frame of numbers.
        width: d, the number of columns that are expected, for messages.

    Example:
        >>> as_tensor([[0, 1.5]], 2)
        tensor([[0.0000, 1.5000]], dtype=torch.float64)
        >>> as_tensor([["red", 1.5]], 2)
        Traceback (most recent call last):
        squircuit.errors.DataError: row 0, column 0: 'red' is not a number. Fix: encode texts...
    """
    if isinstance(x, Tensor):
        return x
    _refuse_containers(x)
    if isinstance(x, np.ma.MaskedArray) and np.ma.getmaskarray(x).any():
        raise DataError(
            "a masked array with masked entries. Fix: pass x.data, and missing=numpy.ma.getmaskarray(x)."
        )
    try:
        array = np.ascontiguousarray(x)
        array = array.astype(array.dtype.newbyteorder("="), copy=False)  # of files from other machines
    except ValueError as error:  # rows of several lengths
        raise DataError(f"the rows have several lengths. Fix: give each {width} cells.") from error
    _require_numbers(array)
    try:
        return torch.from_numpy(array)
    except TypeError as error:
        raise DataError(
            f"{array.dtype} is no type of numbers that torch has. Fix: x.astype('float64')."
        ) from error


def _refuse_containers(x: Any) -> None:
    if isinstance(x, str | Path):
        raise DataError(f"{str(x)!r} is a name, not data. Fix: read it with sq.data.read or sq.data.load.")
    if isinstance(x, Dataset):
        raise DataError(f"{x!r} has three parts. Fix: pass one, such as dataset.test.")
    if isinstance(x, Table | Rows):
        kind, name = type(x).__name__, "rows" if isinstance(x, Table) else "x"
        fix = f"pass data.{name}, and missing=data.missing"
        raise DataError(f"rows and their gaps in one {kind}. Fix: {fix}.")


def _require_numbers(array: NDArray[Any]) -> None:
    """Refuse texts and objects, by the first cell that is no number."""
    if array.dtype.kind in "fiubc":
        return
    for place, cell in np.ndenumerate(array):
        value = None if isinstance(cell, str) else number(cell)
        if value is None or value != value:
            shown = str(cell) if isinstance(cell, str) else cell  # NumPy's texts show their type
            where = ", ".join(f"{axis} {i}" for axis, i in zip(("row", "column"), place, strict=False))
            raise DataError(f"{where or 'the data'}: {shown!r} is not a number. Fix: {_fix(cell)}.")
    raise DataError(f"the numbers are {array.dtype}. Fix: make them floats, x.astype('float64').")


def _fix(cell: Any) -> str:
    if isinstance(cell, str):
        return "encode texts, with model.schema.encode(rows) where the model was made of a table"
    return "mark in missing= what is not known, and put any number there"
