"""The functions of two families, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from squircuit.families.base import Values
from squircuit.families.derived import Paired


@final
@dataclass(frozen=True)
class Concatenated(Paired):
    r"""The functions of two families on one domain,

    .. math:: \chi(x) = (\varphi_1(x), \dots, \varphi_n(x), \psi_1(x), \dots, \psi_m(x)).

    Not orthonormal, since those of one need not be orthogonal to those of the other. They arise where input
    layers of different families over one variable are joined into one. Parameters are those of the parts,
    prefixed ``"left."`` and ``"right."``.

    Reference: "How to square tensor networks and circuits without squaring them", Related Work, "Possible
    choices of orthonormal functions".

    Args:
        left: φ, n functions.
        right: ψ, m functions, on the same domain.

    Shapes: x (...,) → (..., n + m).

    Example:
        >>> from squircuit.families import Fourier, Legendre
        >>> Concatenated(Legendre(2), Legendre(1)).evaluate(torch.tensor(1.0))
        tensor([0.7071, 1.2247, 0.7071])
    """

    has_one_scale: ClassVar[bool] = False

    @property
    def size(self) -> int:
        return self.left.size + self.right.size

    def _functions(self, x: Tensor, values: Values) -> Tensor:
        dtype = x.dtype.to_complex() if self.is_complex else x.dtype
        parts = [part.evaluate(x, given).to(dtype) for part, given in self._parts(values)]
        return torch.cat(parts, dim=-1)

    def _scaled_functions(self, x: Tensor, values: Values, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        parts = [part.evaluate_scaled(x, given, dtype) for part, given in self._parts(values)]
        largest = torch.stack([scale for _, scale in parts]).amax(dim=0)
        kind = dtype.to_complex() if self.is_complex else dtype
        scaled = [(v * (s - largest).to(dtype).exp()[..., None]).to(kind) for v, s in parts]
        return torch.cat(scaled, dim=-1), largest

    def _separate_functions(self, x: Tensor, values: Values) -> tuple[Tensor, Tensor]:
        parts = [part.evaluate_separately(x, given) for part, given in self._parts(values)]
        kind = torch.complex128 if self.is_complex else torch.float64
        functions = torch.cat([v.to(kind) for v, _ in parts], dim=-1)
        return functions, torch.cat([s for _, s in parts], dim=-1)

    def integrals(self, values: Values | None = None) -> Tensor:
        dtype = torch.complex128 if self.is_complex else torch.float64
        return torch.cat([part.integrals(given).to(dtype) for part, given in self._parts(values)])

    def breakpoints(self, values: Values | None = None) -> Tensor:
        return torch.cat([part.breakpoints(given) for part, given in self._parts(values)]).sort().values

    def extents(self, values: Values | None = None) -> Tensor:
        return torch.cat([part.extents(given) for part, given in self._parts(values)])

    def pieces(self, values: Values | None = None) -> Tensor:
        return torch.cat([part.pieces(given) for part, given in self._parts(values)]).sort().values
