"""Evidence: rows of data of which some entries are missing, checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from squircuit.circuits import Circuit
from squircuit.data import Rows
from squircuit.errors import DataError, ParameterError, require_unmasked
from squircuit.execution.derivatives import require_no_batch
from squircuit.reference.data import as_tensor, as_variables
from squircuit.regions.scope import describe

Variables: TypeAlias = Iterable[int] | Tensor | None  #: numbers of variables, or booleans (d,) or (n, d)

ROWS = 2**16  #: checked at a time


Evidence = Rows[Tensor]
"""What is observed of some rows, on the device of the model: x holds some valid value where an entry is
missing in this row and not in all."""


def distinct_masks(evidence: Evidence) -> Iterator[tuple[Tensor, Tensor]]:
    """Every mask (d,) that occurs, and the rows that have it."""
    missing = evidence.missing
    same = missing.stride(0) == 0 or bool((missing == missing[:1]).all())
    if len(evidence) and same:
        yield missing[0], torch.arange(len(evidence), device=evidence.x.device)
        return
    found, number = torch.unique(missing, dim=0, return_inverse=True)
    order = number.argsort(stable=True)
    counts = torch.bincount(number, minlength=len(found)).tolist()
    yield from zip(found, torch.split(order, counts), strict=True)


def nothing_observed(circuit: Circuit, device: torch.device) -> Evidence:
    """One row in which everything is missing."""
    dtype = torch.int64 if is_discrete(circuit) else torch.float64
    x = circuit.column_domains.on(device).anchors.to(dtype).unsqueeze(0)
    return Evidence(x, torch.ones_like(x, dtype=torch.bool))


def is_discrete(circuit: Circuit) -> bool:
    """All variables are discrete."""
    return circuit.column_domains.is_discrete


def has_gaps(circuit: Circuit, x: Any) -> bool:
    """Data of floats in which some entry is NaN: missing."""
    if not isinstance(x, Tensor):
        x = np.asarray(x)
        return bool(x.dtype.kind == "f" and np.isnan(x).any())
    if not x.is_floating_point() or is_discrete(circuit):
        return False
    if x.is_cuda and torch.cuda.is_current_stream_capturing():
        return False  # a captured step cannot ask the host; its data has been looked at before
    return bool(x.isnan().any())


def as_evidence(circuit: Circuit, x: Any, missing: Any, device: torch.device) -> Evidence:
    """Checked evidence on a device.

    Args:
        x: (n, d); entries that are missing may hold anything. NaN in the column of a continuous variable
            means missing, too.
        missing: booleans, True = missing, (d,) for all rows or (n, d); None: only what is NaN.
    """
    data, domains = _as_table(circuit, x).to(device), circuit.column_domains.on(device)
    if not data.is_floating_point() and not is_discrete(circuit):
        data = data.double()
    mask = _as_mask(missing, data) & domains.used
    if has_gaps(circuit, data):
        mask = mask | (data.isnan() & ~domains.discrete)
    for start in range(0, len(data), ROWS):
        part = slice(start, start + ROWS)
        gaps = mask if mask.ndim == 1 else mask[part]
        domains.require(data[part], gaps, beyond=True, first_row=start)
    if mask.ndim == 1:  # columns that all rows lack are never read
        return Evidence(data, mask.expand(data.shape))
    return Evidence(torch.where(mask, domains.anchors.to(data.dtype), data), mask)


def require_data(circuit: Circuit, x: Any) -> None:
    """Refuse None where rows of data are asked for."""
    if x is None:
        raise DataError(
            f"no data: pass x of shape (n, {circuit.num_variables}), rows being samples. Fix: pass rows."
        )


def _as_table(circuit: Circuit, x: Any) -> Tensor:
    require_no_batch()
    d = circuit.num_variables
    data = as_tensor(x, d)
    if data.is_complex() or data.layout != torch.strided:
        raise DataError(
            f"data must be dense integers or floats, got {data.layout} of {data.dtype}"
            ". Fix: x.to_dense(), or its real part."
        )
    if data.ndim != 2 or data.shape[1] != d:
        fix = "x[None] for one row" if tuple(data.shape) == (d,) else "reshape it"
        fix = "x.flatten(1)" if data.ndim > 2 and data[0].numel() == d else fix
        raise DataError(
            f"data must have shape (n, {d}), rows being samples; got {tuple(data.shape)}. Fix: {fix}"
        )
    return data if data.is_floating_point() else data.to(torch.int64)


def _as_mask(missing: Any, data: Tensor) -> Tensor:
    if missing is None:
        return torch.zeros(data.shape[1], dtype=torch.bool, device=data.device)
    n, d = data.shape
    if not isinstance(missing, Tensor):
        missing = _as_booleans(missing, d)
    if missing.dtype != torch.bool:
        raise ParameterError(
            f"missing must be booleans, True where an entry is missing; got {missing.dtype}. Fix: pass e.g. "
            f"x.isnan(), or of the numbers of variables [v in numbers for v in range({d})]"
        )
    if missing.shape not in (data.shape, data.shape[1:]):
        raise ParameterError(
            f"missing has shape {tuple(missing.shape)}. "
            f"Fix: pass ({d},), the same for all rows, or ({n}, {d})"
        )
    mask: Tensor = missing.to(data.device)
    return mask


def _as_booleans(missing: Any, d: int) -> Tensor:
    """A list, an array or a data frame as a tensor, of booleans if all is well."""
    require_unmasked(missing)
    try:
        return torch.from_numpy(np.array(missing))
    except (TypeError, ValueError) as error:  # texts, rows of several lengths
        shown = repr(missing).splitlines()[0]
        raise ParameterError(
            f"missing={shown[:60]} is no mask. Fix: pass ({d},) booleans, True where an entry is missing"
        ) from error


def require_positive(log_p: Tensor, rows: Tensor) -> None:
    """Refuse to condition on what cannot happen."""
    if bool((log_p == -torch.inf).any()):
        row = int(rows[int(torch.nonzero(log_p == -torch.inf)[0])])
        raise DataError(
            f"row {row}: the evidence has probability zero, so nothing is conditional on it. Fix: check the "
            "observed values, or mark some as missing; where all are missing, the model is 0 everywhere"
        )


def select(circuit: Circuit, variables: Variables, rows: int, device: torch.device) -> Tensor:
    """Variables as booleans (n, d); None is none of them."""
    shape = (rows, circuit.num_variables)
    if isinstance(variables, (list, tuple, np.ndarray)) and np.asarray(variables).dtype == bool:
        variables = torch.as_tensor(np.asarray(variables))
    if isinstance(variables, Tensor) and variables.dtype == torch.int64:
        variables = variables.tolist()
    if isinstance(variables, Tensor) and variables.dtype == torch.bool:
        if variables.shape not in (shape, shape[1:]):
            raise ParameterError(
                f"a mask of variables has shape {tuple(variables.shape)}. Fix: pass {shape[1:]} or {shape}."
            )
        return variables.to(device).expand(shape)
    chosen = as_variables(circuit, () if variables is None else variables)
    mask = torch.tensor([v in chosen for v in range(circuit.num_variables)], device=device)
    return mask.expand(shape)


def require_disjoint(of: Tensor, given: Tensor) -> None:
    """No variable is asked for and given at once."""
    both = (of & given).any(dim=0)
    if bool(both.any()):
        shared = frozenset(torch.nonzero(both).flatten().tolist())
        raise ParameterError(
            f"log_conditional: {describe(shared)} are both in of= and in given=. Fix: take them out of one."
        )
