"""Kronecker deltas: the indicator functions of a discrete variable."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, final

import torch
from torch import Tensor

from squircuit.families.base import Family, Values
from squircuit.families.cache import kept
from squircuit.families.checks import require_count, require_flag
from squircuit.families.domain import Finite


@final
@dataclass(frozen=True, repr=False)
class Categorical(Family):
    r"""The Kronecker deltas of a variable with ``size`` states,

    .. math:: \varphi_k(x) = \delta_{xk}, \qquad x, k \in \{0, \dots, \mathrm{size} - 1\}.

    Every function of the variable is a combination of them. Where states are ordered, as grey levels and
    counts are, neighbours are alike to begin with: first weights are random combinations of discrete cosines,
    that of frequency f weighted by (1 + f/K)⁻², so that rare states are not left to chance.

    Reference: "How to square tensor networks and circuits without squaring them", Related Work, "Possible
    choices of orthonormal functions".

    Args:
        size: number of states.
        ordered: whether neighbouring states are alike. The functions are the same, so families that differ in
            this are equal.

    Shapes: x (...,) of integers or integer-valued floats → (..., size).

    Example:
        >>> Categorical(3).evaluate(torch.tensor([2, 0]))
        tensor([[0., 0., 1.],
                [1., 0., 0.]], dtype=torch.float64)
    """

    size: int
    ordered: bool = field(default=False, compare=False)
    is_orthonormal: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_count(self, "size")
        require_flag(self, "ordered")

    def __repr__(self) -> str:
        return f"Categorical(size={self.size}{', ordered=True' if self.ordered else ''})"

    @property
    def domain(self) -> Finite:
        return Finite(self.size)

    def smoothing(self, units: int) -> Tensor | None:
        """Discrete cosines from smooth to rough where states are ordered."""
        return _cosines(self.size, units) if self.ordered else None

    def _functions(self, x: Tensor, values: Values) -> Tensor:
        return (x[..., None] == torch.arange(self.size, dtype=x.dtype, device=x.device)).to(x.dtype)


@kept(16)
def _cosines(size: int, units: int) -> Tensor:
    """Orthonormal cosines, (n, n), scaled by (1 + f/K)⁻² and all together so that the squares sum to n."""
    frequency = torch.arange(size, dtype=torch.float64)[:, None]
    cosines = torch.cos(math.pi * frequency * (torch.arange(size) + 0.5) / size)
    scaled = cosines / cosines.norm(dim=1, keepdim=True) * (1 + frequency / units) ** -2
    smooth: Tensor = scaled * math.sqrt(size) / scaled.norm()
    return smooth
