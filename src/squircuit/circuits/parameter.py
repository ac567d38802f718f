"""Parameters: named arrays that layers refer to, and what values they may take."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from squircuit.errors import ParameterError, StructureError


class Constraint(StrEnum):
    """The set in which the values of a parameter live."""

    SEMI_UNITARY = "semi-unitary"  #: W Wᴴ = I, property (U3) of the paper
    FREE = "free"  #: any numbers
    FIXED = "fixed"  #: part of the structure: identities, permutations
    SIMPLEX = "simplex"  #: non-negative, summing to one


@final
@dataclass(frozen=True, eq=False)
class Parameter:
    """An array that one or several layers use: two layers that hold the *same* object are tied.

    Args:
        shape: ``(K1, K2)`` for the weight of a layer.
        constraint: semi-unitary (rows orthonormal, so K1 ≤ K2), free, fixed or simplex.
        is_complex: complex numbers; one of them counts as two real parameters.
        name: unique in its circuit; the circuit makes one up where it is absent.
        value: the initial value, where it is not to be drawn at random.

    Example:
        >>> shared = Parameter((2, 4), name="shared")
        >>> shared.num_reals
        16
    """

    shape: tuple[int, ...]
    constraint: Constraint = Constraint.SEMI_UNITARY
    is_complex: bool = True
    name: str | None = None
    value: Tensor | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.shape, tuple | list | torch.Size):
            raise ParameterError(
                f"a parameter's shape is a tuple such as (2, 4), got {self.shape!r}. Fix: pass whole numbers."
            )
        object.__setattr__(self, "shape", tuple(int(s) for s in self.shape))
        if self.constraint not in tuple(Constraint):
            known = ", ".join(repr(str(c)) for c in Constraint)
            raise ParameterError(
                f"parameter {self.label}: constraint must be one of {known}, got {self.constraint!r}"
                ". Fix: pass one of these."
            )
        object.__setattr__(self, "constraint", Constraint(self.constraint))
        if any(s < 1 for s in self.shape):
            raise ParameterError(
                f"parameter {self.label}: every side of shape {self.shape} must be ≥ 1"
                ". Fix: pass numbers from 1."
            )
        if self.constraint is Constraint.SEMI_UNITARY:
            self._require_wide()
        if self.constraint is Constraint.FIXED and self.value is None:
            raise ParameterError(f"parameter {self.label} is fixed but has no value. Fix: pass value=….")
        if self.value is not None:
            object.__setattr__(self, "value", self.checked(self.value).clone())

    def __deepcopy__(self, memo: dict[int, object]) -> Parameter:
        return self  # immutable, and layers are tied by identity

    def _require_wide(self) -> None:
        if len(self.shape) != 2 or self.shape[0] > self.shape[1]:
            raise StructureError(
                "semi-unitary",
                f"parameter {self.label}",
                f"a semi-unitary weight of shape {self.shape} cannot have orthonormal rows",
                "use at most as many units as inputs, or constraint='free'",
            )

    @property
    def label(self) -> str:
        """The name, or a stand-in for messages."""
        return self.name if self.name is not None else f"of shape {self.shape}"

    @property
    def num_weights(self) -> int:
        """Number of entries; none for a fixed parameter, which is structure."""
        return 0 if self.constraint is Constraint.FIXED else math.prod(self.shape)

    @property
    def num_reals(self) -> int:
        """Number of real parameters: a complex entry counts twice, as in the paper's tables."""
        return self.num_weights * (2 if self.is_complex else 1)

    def checked(self, value: Tensor) -> Tensor:
        """``value`` if it has this parameter's shape and kind and finite entries; else one clear error."""
        value = as_tensor(value, f"the value of parameter {self.label}").resolve_conj()
        if tuple(value.shape) != self.shape:
            raise ParameterError(
                f"parameter {self.label} has shape {self.shape}, got {tuple(value.shape)}"
                ". Fix: pass a value of its shape."
            )
        if value.is_complex() and not self.is_complex:
            raise ParameterError(
                f"parameter {self.label} is real, got {value.dtype}: pass its real part"
                ". Fix: value.real, or declare it with is_complex=True."
            )
        if not _is_finite(value):
            raise ParameterError(
                f"parameter {self.label}: the value holds NaN or infinity. Fix: pass finite numbers."
            )
        if self.constraint is Constraint.SIMPLEX and (value.min() < 0 or abs(value.sum() - 1) > 1e-5):
            raise ParameterError(
                f"parameter {self.label} must be ≥ 0 and sum to 1, got {value.tolist()}"
                ". Fix: divide non-negative numbers by their sum."
            )
        return value if value.is_floating_point() or value.is_complex() else value.double()


def as_tensor(value: Any, what: str) -> Tensor:
    """A tensor, an array or nested lists of numbers as a tensor; lists of floats in double precision."""
    if isinstance(value, Tensor):
        return value
    try:
        return torch.from_numpy(np.ascontiguousarray(value))
    except (TypeError, ValueError) as error:
        raise ParameterError(
            f"{what} must be a tensor or an array of numbers, got {value!r}"
            ". Fix: pass torch.tensor of numbers."
        ) from error


def _is_finite(value: Tensor) -> bool:
    """No NaN and no infinity, in one pass: both show in the least or the largest entry.

    Tensors without memory, on the device "meta", stand for values that are filled in later.
    """
    if value.is_meta:
        return True
    if value.is_complex():
        value = torch.view_as_real(value)
    return all(bool(torch.isfinite(extreme)) for extreme in value.aminmax())
