"""How far matrices are from W Wᴴ = I: the one measure that checks, models and optimisers share."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

NUMBERS = 1 << 24
"""Weights that are in double precision at a time."""


def distance(stack: Tensor) -> Tensor:
    """‖WWᴴ − I‖_F of every matrix: (…, K1, K2) → (…), in double precision.

    Example:
        >>> distance(torch.eye(2, 4)[None] * torch.tensor([1.0, 2.0])[:, None, None])
        tensor([0.0000, 4.2426], dtype=torch.float64)
    """
    found = [torch.linalg.matrix_norm(errors) for errors in _errors(stack)]
    return torch.cat(found).reshape(stack.shape[:-2])


def deviation(stack: Tensor) -> float:
    """max |WWᴴ − I| over all matrices (…, K1, K2); infinite where a weight is NaN.

    Example:
        >>> deviation(torch.eye(2, 4)), deviation(2 * torch.eye(2, 4))
        (0.0, 3.0)
    """
    largest = 0.0
    for errors in _errors(stack):
        found = float(errors.abs().amax()) if errors.numel() else 0.0
        if math.isnan(found):
            return math.inf
        largest = max(largest, found)
    return largest


def _errors(stack: Tensor) -> Iterator[Tensor]:
    """WWᴴ − I of some matrices at a time, (S, K1, K1) each.

    In double precision from the weights on: in single precision a row with one large entry and thousands of
    small ones would lose the small ones, and weights that are on the manifold would seem off it.
    """
    matrices = stack.reshape(-1, *stack.shape[-2:])
    for part in torch.split(matrices, max(1, NUMBERS // max(1, matrices[:1].numel()))):
        exact = part.to(torch.promote_types(part.dtype, torch.float64))
        gram = exact @ exact.mH
        gram.diagonal(dim1=1, dim2=2).sub_(1)
        yield gram
