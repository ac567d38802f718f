"""Rows with gaps: the one type in which data goes from a file to a question or a step of training."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = TypeVar("Array", NDArray[Any], Tensor)


@final
@dataclass(frozen=True, eq=False)
class Rows(Generic[Array]):
    """Some rows as a model takes them, which of their cells are missing, and how much each row counts.

    Args:
        x: (n, d) numbers, an array or a tensor; cells that are missing hold anything.
        gaps: (n, d), True = missing; None: nothing is missing, which nobody has to look for any more.
        weights: (n,), from 0 upwards: a row of weight 2 counts as two rows; None: all count alike.

    Example:
        >>> rows = Rows(np.array([[1.0, 2.0], [3.0, 0.0]]), np.array([[False, False], [False, True]]))
        >>> len(rows), rows.is_complete, rows.take(slice(1)).is_complete
        (2, False, True)
        >>> rows.to(torch.device("cpu")).x
        tensor([[1., 2.],
                [3., 0.]], dtype=torch.float64)
        >>> x, missing = rows  # as models take them: model.log_prob(x, missing)
    """

    x: Array
    gaps: Array | None = None
    weights: Array | None = None

    @staticmethod
    def of(x: NDArray[Any]) -> Rows[NDArray[Any]]:
        """Rows of numbers in which NaN means missing."""
        return Rows(x, np.isnan(x) if x.dtype.kind == "f" else np.zeros(x.shape, dtype=bool))

    @staticmethod
    def joined(parts: Sequence[Rows[NDArray[Any]]]) -> Rows[NDArray[Any]]:
        """The rows of all parts, one after the other; all have weights, or none has."""
        if len(parts) == 1:
            return parts[0]
        weights = [part.weights for part in parts if part.weights is not None]
        return Rows(
            np.concatenate([part.x for part in parts]),
            np.concatenate([part.missing for part in parts]),
            np.concatenate(weights) if weights else None,
        )

    @property
    def missing(self) -> Array:
        """Which cells are missing, (n, d), also where none is."""
        if self.gaps is not None:
            return self.gaps
        if isinstance(self.x, Tensor):
            return torch.zeros_like(self.x, dtype=torch.bool)
        return np.zeros(self.x.shape, dtype=bool)

    @property
    def rows(self) -> Array:
        """What `x` was called before."""
        warnings.warn("rows.rows is now rows.x", DeprecationWarning, stacklevel=2)
        return self.x

    @property
    def is_complete(self) -> bool:
        """Nothing is missing."""
        if isinstance(self.gaps, Tensor) and self.gaps.stride(0) == 0:  # one mask for all rows
            return not bool(self.gaps[:1].any())
        return self.gaps is None or not bool(self.gaps.any())

    def __len__(self) -> int:
        return len(self.x)

    def __iter__(self) -> Iterator[Array]:
        """First `x`, then `missing`."""
        return iter((self.x, self.missing))

    def take(self, chosen: Any) -> Rows[Array]:
        """Some of the rows: a slice, their numbers, or a mask (n,)."""
        gaps, weights = (None if part is None else part[chosen] for part in (self.gaps, self.weights))
        return Rows(self.x[chosen], gaps, weights)

    def to(self, device: torch.device, dtype: torch.dtype | None = None) -> Rows[Tensor]:
        """The rows as tensors on a device, and of a type of numbers; weights keep theirs."""
        x, gaps, weights = (
            part if part is None or isinstance(part, Tensor) else torch.from_numpy(np.ascontiguousarray(part))
            for part in (self.x, self.gaps, self.weights)
        )
        assert x is not None
        return Rows(
            x.to(device, dtype or x.dtype),
            None if gaps is None else gaps.to(device),
            None if weights is None else weights.to(device),
        )
