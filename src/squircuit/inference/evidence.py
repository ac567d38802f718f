"""Evidence at the door: rows of data of which some entries are missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from squircuit.circuits import Circuit
from squircuit.errors import DataError, ParameterError, require_unmasked
from squircuit.execution.derivatives import require_no_batch
from squircuit.families.domain import Finite
from squircuit.reference.numeric import as_tensor

ROWS = 2**16  #: checked at a time


@final
@dataclass(frozen=True, eq=False)
class Evidence:
    """Observed values and what is missing.

    Args:
        x: (n, d), with some valid value where an entry is missing in this row and not in all.
        missing: (n, d) booleans.
    """

    x: Tensor
    missing: Tensor

    def __len__(self) -> int:
        return len(self.x)

    @property
    def is_complete(self) -> bool:
        """Nothing is missing."""
        missing = self.missing[:1] if self.missing.stride(0) == 0 else self.missing
        return not bool(missing.any())

    def take(self, rows: Tensor | slice) -> Evidence:
        """Some of the rows."""
        return Evidence(self.x[rows], self.missing[rows])

    def masks(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Every mask (d,) that occurs, and the rows that have it."""
        same = self.missing.stride(0) == 0 or bool((self.missing == self.missing[:1]).all())
        if len(self) and same:
            yield self.missing[0], torch.arange(len(self), device=self.x.device)
            return
        masks, number = torch.unique(self.missing, dim=0, return_inverse=True)
        order = number.argsort(stable=True)
        counts = torch.bincount(number, minlength=len(masks)).tolist()
        yield from zip(masks, torch.split(order, counts), strict=True)


def nothing_observed(circuit: Circuit, device: torch.device) -> Evidence:
    """One row in which everything is missing."""
    dtype = torch.int64 if is_discrete(circuit) else torch.float64
    x = _anchors(circuit, device).to(dtype).unsqueeze(0)
    return Evidence(x, torch.ones_like(x, dtype=torch.bool))


def is_discrete(circuit: Circuit) -> bool:
    """All variables are discrete."""
    return all(domain.is_discrete for domain in circuit.domains.values())


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
    data = _as_table(circuit, x).to(device)
    if not data.is_floating_point() and not is_discrete(circuit):
        data = data.double()
    mask = _as_mask(missing, data) & _columns_in_scope(circuit, device)
    if has_gaps(circuit, data):
        mask = mask | (data.isnan() & ~_discrete_columns(circuit, device))
    for start in range(0, len(data), ROWS):
        part = slice(start, start + ROWS)
        _require_valid(circuit, data[part], mask if mask.ndim == 1 else mask[part], start)
    if mask.ndim == 1:  # columns that all rows lack are never read
        return Evidence(data, mask.expand(data.shape))
    return Evidence(torch.where(mask, _anchors(circuit, device).to(data.dtype), data), mask)


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
        fix = ". Fix: x.flatten(1)" if data.ndim > 2 and data[0].numel() == d else fix
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


def _require_valid(circuit: Circuit, data: Tensor, missing: Tensor, first_row: int) -> None:
    """Every observed entry is in the domain of a discrete variable, or a finite number."""
    valid = missing | ~_columns_in_scope(circuit, data.device)
    discrete, sizes = _discrete_columns(circuit, data.device), _sizes(circuit, data.device)
    if data.is_floating_point():
        whole = (data >= 0) & (data < sizes) & (data == data.floor())
        valid = valid | torch.where(discrete, whole, data.isfinite())
    else:
        valid = valid | ~discrete | ((data >= 0) & (data < sizes))
    if not bool(valid.all()):
        row, column = (int(i) for i in torch.nonzero(~valid)[0])
        value, domain, row = data[row, column].item(), circuit.domains[column].describe(), row + first_row
        fix = "correct it, or mark the entry in missing= if its value is not known"
        raise DataError(f"row {row}, column {column}: {value!r} is not in the domain, {domain}. Fix: {fix}")


def _columns_in_scope(circuit: Circuit, device: torch.device) -> Tensor:
    return torch.tensor([v in circuit.scope for v in range(circuit.num_variables)], device=device)


def _discrete_columns(circuit: Circuit, device: torch.device) -> Tensor:
    domains = circuit.domains
    flags = [v in domains and domains[v].is_discrete for v in range(circuit.num_variables)]
    return torch.tensor(flags, device=device)


def _sizes(circuit: Circuit, device: torch.device) -> Tensor:
    domains = (circuit.domains.get(v) for v in range(circuit.num_variables))
    return torch.tensor([d.size if isinstance(d, Finite) else 0 for d in domains], device=device)


def _anchors(circuit: Circuit, device: torch.device) -> Tensor:
    domains = (circuit.domains.get(v) for v in range(circuit.num_variables))
    values = [0.0 if domain is None else domain.anchor for domain in domains]
    return torch.tensor(values, dtype=torch.float64, device=device)
