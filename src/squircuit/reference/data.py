"""Data that is asked about: the right shape and type, every value in its variable's domain."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from squircuit.circuits import Circuit
from squircuit.circuits.validation import check_structure
from squircuit.data import Dataset, Rows, Table
from squircuit.data.cells import number
from squircuit.errors import DataError, ParameterError, is_whole, require_unmasked
from squircuit.regions.scope import Scope, describe


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
    require_unmasked(x)
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


def as_variables(circuit: Circuit, variables: Iterable[int] | None) -> Scope:
    """A set of variables of the circuit; None means all of them."""
    if variables is None:
        return circuit.scope
    try:
        items = list(variables)
    except TypeError:
        raise ParameterError(
            f"expected a list of variables such as [0, 2], got {variables!r}. Fix: pass such a list."
        ) from None
    for item in items:
        if not is_whole(item):
            raise ParameterError(
                f"variables are given by their numbers, such as [0, 2]; got {item!r}"
                ". Fix: pass whole numbers."
            )
    chosen = frozenset(int(item) for item in items)
    unknown = chosen - circuit.scope
    if unknown:
        raise ParameterError(
            f"unknown variables {describe(unknown)}: the circuit is over {describe(circuit.scope)}"
            ". Fix: pass some of these."
        )
    return chosen


def require_valid(circuit: Circuit) -> None:
    """Refuse to integrate circuits, made with validate=False, that are not smooth and decomposable."""
    if not circuit.validated:
        check_structure(circuit.layers, circuit.roots, circuit.root_weights, strict=True)


def observed_data(circuit: Circuit, x: Any, integrated: Scope) -> Tensor:
    """The data for a query that integrates some variables: checked columns of the others."""
    observed = circuit.scope - integrated
    return no_data(circuit) if x is None and not observed else as_data(circuit, x, observed)


def as_data(circuit: Circuit, x: Any, observed: Iterable[int] | None = None) -> Tensor:
    """``x`` as a tensor of shape (n, d) whose ``observed`` columns (default: all) hold valid values.

    A continuous value outside its domain is allowed (its density is zero); NaN, infinity and
    categories out of range are errors that name the row, the column, the value and the domain.
    """
    if x is None:
        raise DataError(
            f"no data: pass x of shape (n, {circuit.num_variables}) with values for the observed variables"
            ". Fix: pass rows."
        )
    data = as_tensor(x, circuit.num_variables)  # lists of floats in double
    if data.is_complex() or data.dtype == torch.bool:
        raise DataError(
            f"data must be integers or floats, got {data.dtype}. Fix: x.double(), or x.long() for states."
        )
    if data.ndim != 2 or data.shape[1] != circuit.num_variables:
        raise DataError(
            f"data must have shape (n, {circuit.num_variables}), rows being samples; got {tuple(data.shape)}"
            ". Fix: reshape it."
        )
    known = as_variables(circuit, observed)
    unread = torch.tensor([v not in known for v in range(circuit.num_variables)], device=data.device)
    circuit.column_domains.require(data, unread, beyond=True, fix="correct it")
    return data


def no_data(circuit: Circuit) -> Tensor:
    """One row for integrals over every variable: nobody reads its values."""
    return torch.zeros(1, circuit.num_variables, dtype=torch.float64)
