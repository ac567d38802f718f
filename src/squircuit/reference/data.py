"""Data that is asked about: the right shape and type, every value in its variable's domain."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from squircuit.circuits import Circuit
from squircuit.circuits.validation import check_structure
from squircuit.errors import DataError, ParameterError, is_whole
from squircuit.reference.numeric import as_tensor
from squircuit.regions.scope import Scope, describe


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
