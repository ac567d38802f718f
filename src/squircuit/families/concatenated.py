"""The functions of two families, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from squircuit.families.base import Family, Values
from squircuit.families.checks import wrong
from squircuit.families.conjugated import conjugate_of
from squircuit.families.domain import Domain


@final
@dataclass(frozen=True)
class Concatenated(Family):
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

    left: Family
    right: Family

    def __post_init__(self) -> None:
        for name in ("left", "right"):
            if not isinstance(getattr(self, name), Family):
                raise wrong(self, name, "is not a family", "pass a family such as Legendre(4)")
        if self.left.domain != self.right.domain:
            problem = f"is on {self.right.domain.describe()}, left on {self.left.domain.describe()}"
            raise wrong(self, "right", problem, "pass two families on the same domain")

    @property
    def size(self) -> int:
        return self.left.size + self.right.size

    @property
    def domain(self) -> Domain:
        return self.left.domain

    @property
    def is_complex(self) -> bool:
        return self.left.is_complex or self.right.is_complex

    def parameters(self) -> dict[str, Tensor]:
        parts = {"left.": self.left, "right.": self.right}
        return {p + name: value for p, part in parts.items() for name, value in part.parameters().items()}

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

    @property
    def has_one_scale(self) -> bool:
        return False

    @property
    def has_even_panels(self) -> bool:
        return self.left.has_even_panels and self.right.has_even_panels

    def integrals(self, values: Values | None = None) -> Tensor:
        dtype = torch.complex128 if self.is_complex else torch.float64
        return torch.cat([part.integrals(given).to(dtype) for part, given in self._parts(values)])

    def conjugate(self) -> Family:
        return conjugate_of(self)

    def breakpoints(self, values: Values | None = None) -> Tensor:
        return torch.cat([part.breakpoints(given) for part, given in self._parts(values)]).sort().values

    def extents(self, values: Values | None = None) -> Tensor:
        return torch.cat([part.extents(given) for part, given in self._parts(values)])

    def pieces(self, values: Values | None = None) -> Tensor:
        return torch.cat([part.pieces(given) for part, given in self._parts(values)]).sort().values

    def _parts(self, values: Values | None) -> list[tuple[Family, Values | None]]:
        """Each part with its values; None where none of its are given."""
        found: list[tuple[Family, Values | None]] = []
        for prefix, part in (("left.", self.left), ("right.", self.right)):
            given = {n.removeprefix(prefix): v for n, v in (values or {}).items() if n.startswith(prefix)}
            found.append((part, given or None))
        return found
