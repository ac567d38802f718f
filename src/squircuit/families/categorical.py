"""Kronecker deltas: the indicator functions of a discrete variable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from squircuit.families.base import Family, Values
from squircuit.families.checks import require_count
from squircuit.families.domain import Finite


@final
@dataclass(frozen=True)
class Categorical(Family):
    r"""The Kronecker deltas of a variable with ``size`` states,

    .. math:: \varphi_k(x) = \delta_{xk}, \qquad x, k \in \{0, \dots, \mathrm{size} - 1\}.

    Every function of the variable is a combination of them.

    Reference: "How to square tensor networks and circuits without squaring them", Related Work, "Possible
    choices of orthonormal functions".

    Args:
        size: number of states.

    Shapes: x (...,) of integers or integer-valued floats → (..., size).

    Example:
        >>> Categorical(3).evaluate(torch.tensor([2, 0]))
        tensor([[0., 0., 1.],
                [1., 0., 0.]], dtype=torch.float64)
    """

    size: int
    is_orthonormal: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_count(self, "size")

    @property
    def domain(self) -> Finite:
        return Finite(self.size)

    def _functions(self, x: Tensor, values: Values) -> Tensor:
        return (x[..., None] == torch.arange(self.size, dtype=x.dtype, device=x.device)).to(x.dtype)
