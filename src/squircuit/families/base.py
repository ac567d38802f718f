"""What input functions are, and those of one variable: families."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from squircuit.errors import DataError, ParameterError, StructureError
from squircuit.families.domain import Domain, Finite
from squircuit.families.quadrature import gauss_legendre, merge
from squircuit.families.tails import BOUNDED, NORMAL, Ends, Tail

Values = Mapping[str, Tensor]


class InputFunctions(ABC):
    """Functions φ_1, …, φ_n of one variable or of several: what an input layer of a circuit holds.

    They are a description, not a container of weights: immutable, compared by fields, hashable. Learnable
    numbers (a location, a scale) are kept by the caller and handed over as ``values``, a mapping from the
    names in :meth:`parameters`; a name left out stands for its initial value.

    :class:`Family` are those of one variable, at points (...,);
    :class:`squircuit.families.BlockFamily` those of D variables, at points (..., D).
    """

    if TYPE_CHECKING:  # at run time a dataclass would take an inherited property for its field's default

        @property
        def size(self) -> int:
            """Number n of functions."""

        @property
        def dimension(self) -> int:
            """Number D of variables."""

    @property
    @abstractmethod
    def domains(self) -> tuple[Domain, ...]:
        """The set of values of each variable; the functions are 0 outside."""

    @abstractmethod
    def _functions(self, x: Tensor, values: Values) -> Tensor:
        """The functions at points inside the domain, (..., n); ``values`` has all, in x's dtype."""

    @abstractmethod
    def _scaled_functions(self, x: Tensor, values: Values, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """φ(x) e^(−s), (..., n) in a precision, and s, (...,), held constant.

        Points and values are in the precision in which a location is to be subtracted.
        """

    @abstractmethod
    def _separate_functions(self, x: Tensor, values: Values) -> tuple[Tensor, Tensor]:
        """φ_i(x) e^(−s_i), (..., n), and s_i, (..., n), held constant."""

    @abstractmethod
    def _within(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Which points are inside the domain, (...,), and the points with a stand-in for all others.

        A finite stand-in keeps NaN out of the gradient.
        """

    @property
    def has_one_scale(self) -> bool:
        """Far out all functions vanish alike, up to powers of x, so that one scale holds them all."""
        return True

    @property
    def has_even_panels(self) -> bool:
        """Whether integrals take as many points whatever the values of the parameters."""
        return True

    @property
    def is_orthonormal(self) -> bool:
        """Whether ∫ φ_i φ_j* = δ_ij whatever the values of the parameters."""
        return False

    @property
    def has_unit_norms(self) -> bool:
        """Whether ∫ |φ_i|² = 1 whatever the values of the parameters."""
        return self.is_orthonormal

    @property
    def is_complex(self) -> bool:
        """Whether the functions take complex values."""
        return False

    @property
    def place(self) -> tuple[Family, float, float] | None:
        """(ψ, μ, σ) with φ_i(x) = ψ_i((x − μ)/σ)/√σ, so that placed families are evaluated together.

        None where there is no such form, or the place is learnt.
        """
        return None

    def of_one_variable(self) -> Family:
        """Itself, where it has functions of one variable; StructureError for those of several at once."""
        if isinstance(self, Family):
            return self
        raise StructureError(
            "of one variable",
            type(self).__name__,
            f"its functions of {self.dimension} variables are not integrated by quadrature",
            "use families of one variable there",
        )

    def parameters(self) -> dict[str, Tensor]:
        """The learnable parameters: name → initial value (float64, every real number is allowed)."""
        return {}

    def smoothing(self, units: int) -> Tensor | None:
        """What first weights of K units are made with: rows of Gaussian numbers times this, (n, n).

        None where no combination of the functions is more likely than another.
        """
        return None

    def evaluate(self, x: Tensor, values: Values | None = None) -> Tensor:
        """The value of every function at every point.

        Args:
            x: points (...,), or (..., D) of a block: float32, float64, or integers (then computed in
                float64).
            values: of the learnable parameters.

        Returns:
            (..., n) in the dtype of x, or its complex counterpart; 0 where x is outside the domain or NaN.
        """
        x = as_real(x)
        inside, within = self._within(x)
        return torch.where(inside[..., None], self._functions(within, self._resolve(values, x)), 0.0)

    def evaluate_scaled(
        self, x: Tensor, values: Values | None = None, dtype: torch.dtype | None = None
    ) -> tuple[Tensor, Tensor]:
        """The value of every function as v e^s: far from its place a function is too small for any float.

        Args:
            x: points as for :meth:`evaluate`; locations are subtracted in their precision.
            values: of the learnable parameters.
            dtype: float32 or float64 of the result; default that of x.

        Returns:
            v, (..., n), and s, (...,) in the dtype of x and without gradient: v carries all of it.

        Example:
            >>> from squircuit.families import Hermite
            >>> v, s = Hermite(1).evaluate_scaled(torch.tensor(100.0))  # h₀(t) = π^(−1/4) exp(−t²/2)
            >>> v, s
            (tensor([0.7511]), tensor(-5000.))
        """
        x = as_real(x)
        dtype = x.dtype if dtype is None else dtype
        inside, within = self._within(x)
        functions, scale = self._scaled_functions(within, self._resolve(values, x), dtype)
        return torch.where(inside[..., None], functions, 0.0), scale

    def evaluate_separately(self, x: Tensor, values: Values | None = None) -> tuple[Tensor, Tensor]:
        """The value of every function as v e^s with a scale of its own, unlike :meth:`evaluate_scaled`.

        Args:
            x: points as for :meth:`evaluate`.
            values: of the learnable parameters.

        Returns:
            v and s, (..., n) each, in double precision; s has no gradient, v carries all of it.

        Example:
            >>> from squircuit.families import Gaussian
            >>> v, s = Gaussian(2, loc=(0.0, 0.0), scale=(0.1, 1.0)).evaluate_separately(torch.tensor(10.0))
            >>> s  # beside e^−50 no float holds e^−4998
            tensor([-4997.6974,   -50.0000], dtype=torch.float64)
        """
        x = as_real(x).double()
        inside, within = self._within(x)
        functions, scale = self._separate_functions(within, self._resolve(values, x))
        return torch.where(inside[..., None], functions, 0.0), scale.detach()

    @abstractmethod
    def inner(self, other: Any, values: Values | None = None, other_values: Values | None = None) -> Tensor:
        """The matrix ∫ φ_i(x) ψ_j(x)* dx, (n, m), of these functions φ and others ψ on the same domain.

        A sum for discrete variables. In float64 or complex128, and differentiable in the values.
        """

    @abstractmethod
    def integrals(self, values: Values | None = None) -> Tensor:
        """The vector ∫ φ_i(x) dx, (n,), in float64 or complex128; a sum for discrete variables."""

    def gram(self, values: Values | None = None) -> Tensor:
        """The matrix ∫ φ_i(x) φ_j(x)* dx, (n, n): exactly the identity for an orthonormal family."""
        if not self.is_orthonormal:
            return self.inner(self, values, values)
        dtype = torch.complex128 if self.is_complex else torch.float64
        return torch.eye(self.size, dtype=dtype, device=device_of(values))

    def conjugate(self) -> InputFunctions:
        """The functions φ_i*: the same object if they are real."""
        return self

    def grams(self, values: Values) -> Tensor:
        """The matrices ∫ φ_i(x) φ_j(x)* dx for stacked values (F, ...): (F, n, n)."""
        if self.has_even_panels:
            return torch.func.vmap(self.gram)(dict(values))
        count = len(next(iter(values.values())))
        return torch.stack([self.gram({n: value[f] for n, value in values.items()}) for f in range(count)])

    def norms(self, values: Values | None = None) -> Tensor:
        """∫ |φ_i(x)|² dx, (n,), in float64: exactly 1 where :attr:`has_unit_norms`.

        Example:
            >>> from squircuit.families import Gaussian
            >>> Gaussian(1).norms()  # 1/(2σ√π) with σ = ½
            tensor([0.5642], dtype=torch.float64)
        """
        if self.has_unit_norms:
            return torch.ones(self.size, dtype=torch.float64, device=device_of(values))
        return self.gram(values).diagonal().real

    def _resolve(self, values: Values | None, like: Tensor) -> dict[str, Tensor]:
        """All parameters, given or else initial, in the dtype and on the device of ``like``."""
        initial, given = self.parameters(), {} if values is None else values
        for name in given:
            if name not in initial:
                raise self._unknown(name, initial)
        shaped = {name: self._shaped(name, given.get(name, first), first) for name, first in initial.items()}
        return {name: value.to(like) for name, value in shaped.items()}

    def _shaped(self, name: str, value: Tensor, first: Tensor) -> Tensor:
        if value.shape != first.shape:
            raise ParameterError(
                f"{type(self).__name__}: the value of {name} has shape {tuple(value.shape)}. "
                f"Fix: pass a tensor of shape {tuple(first.shape)}."
            )
        return value

    def _unknown(self, name: str, initial: Values) -> ParameterError:
        nearest = get_close_matches(name, initial, n=1, cutoff=0.0)
        fix = f"did you mean {nearest[0]!r}" if nearest else "pass no values, it has no learnable parameters"
        return ParameterError(f"{type(self).__name__}: unknown parameter {name!r}. Fix: {fix}.")


class Family(InputFunctions):
    """Functions φ_1, …, φ_n of one variable: the input functions of most circuits.

    A new family is a final frozen dataclass that defines ``size``, :attr:`domain`, ``_functions``, and for a
    continuous variable :meth:`breakpoints`; everything else follows, and may be overridden by a closed form.
    """

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """The set on which the functions live; they are 0 outside."""

    @property
    def domains(self) -> tuple[Domain, ...]:
        return (self.domain,)

    @property
    def dimension(self) -> int:
        return 1

    def _scaled_functions(self, x: Tensor, values: Values, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Functions and their scales s; a family overrides it where functions vanish far out, here s = 0."""
        functions = self._functions(x, values)
        return functions.to(dtype.to_complex() if functions.is_complex() else dtype), torch.zeros_like(x)

    def _separate_functions(self, x: Tensor, values: Values) -> tuple[Tensor, Tensor]:
        """Functions with a scale each; a family overrides it where the scales differ."""
        functions, scale = self._scaled_functions(x, values, x.dtype)
        return functions, scale[..., None].expand(functions.shape)

    def _within(self, x: Tensor) -> tuple[Tensor, Tensor]:
        inside = self.domain.contains(x)
        return inside, torch.where(inside, x, self.domain.anchor)

    def inner(
        self, other: InputFunctions, values: Values | None = None, other_values: Values | None = None
    ) -> Tensor:
        if not isinstance(other, Family):  # a block of one variable knows by itself whether there is one
            return other.inner(self, other_values, values).mH.resolve_conj()
        if self.domain != other.domain:
            raise ParameterError(
                f"{type(self).__name__}.inner: {self.domain.describe()} and {other.domain.describe()} "
                f"are different domains. Fix: pass a family on {self.domain.describe()}."
            )
        if self.is_orthonormal and self == other and same_values(values, other_values):
            return self.gram(values)
        nodes, weights = _common_rule(self, other, values, other_values)
        left, right = self.evaluate(nodes, values), other.evaluate(nodes, other_values)
        dtype = torch.promote_types(left.dtype, right.dtype)
        return (weights * left.mT).to(dtype) @ right.conj().to(dtype)

    def integrals(self, values: Values | None = None) -> Tensor:
        """The vector ∫ φ_i(x) dx, (n,), in float64 or complex128; a sum for discrete variables."""
        nodes, weights = self.rule(values)
        return (weights[:, None] * self.evaluate(nodes, values)).sum(0)

    def conjugate(self) -> Family:
        """The family of the functions φ_i*: the same object if they are real."""
        return self

    def breakpoints(self, values: Values | None = None) -> Tensor:
        """Sorted float64 points; 16-point Gauss–Legendre between neighbours integrates every φ_i φ_j*.

        Before the first and after the last the functions are zero or below 1e-18. Continuous variables only.
        """
        raise ParameterError(
            f"{type(self).__name__}: breakpoints and pieces exist for continuous variables only, not for "
            f"{self.domain.describe()}. Fix: sum over the states."
        )

    def extents(self, values: Values | None = None) -> Tensor:
        """Intervals where functions are not tiny, each alone or several together: float64 (m, 2)."""
        return self.breakpoints(values)[[0, -1]].unsqueeze(0)

    @property
    def ends(self) -> Ends:
        """How fast squares of the functions vanish towards both ends of a continuous domain."""
        low, high = (Tail(NORMAL if math.isinf(end) else BOUNDED) for end in self.domain.bounds)
        return low, high

    def pieces(self, values: Values | None = None) -> Tensor:
        """Sorted float64 points between which every function is analytic. Continuous variables only."""
        return self.breakpoints(values)[[0, -1]]

    def rule(self, values: Values | None = None) -> tuple[Tensor, Tensor]:
        """Nodes and weights, (q,) each, that integrate products of two functions of the family."""
        return _common_rule(self, self, values, values)


def same_values(values: Values | None, other: Values | None) -> bool:
    """Whether two mappings hold the very same tensors; equal ones elsewhere are compared by nobody."""
    first, second = values or {}, other or {}
    return first.keys() == second.keys() and all(first[name] is second[name] for name in first)


def as_real(x: Tensor) -> Tensor:
    """The points in single or double precision; integers become double."""
    if x.dtype in (torch.float32, torch.float64):
        return x
    if x.is_floating_point() or x.is_complex():
        raise DataError(f"x has dtype {x.dtype}. Fix: convert it to float32, float64 or an integer type.")
    return x.to(torch.float64)


def largest_scale(scales: Tensor, dim: int | tuple[int, ...]) -> Tensor:
    """The scale at which numbers are added up: the largest, −inf standing for zeros; 0 where all are.

    Example:
        >>> largest_scale(torch.tensor([[-3.0, -torch.inf], [-torch.inf, -torch.inf]]), dim=1)
        tensor([-3.,  0.])
    """
    largest = scales.amax(dim=dim)
    return torch.where(largest == -torch.inf, 0.0, largest)


def device_of(*mappings: Values | None) -> torch.device:
    """The device of the values; the CPU if there are none."""
    tensors = (tensor for values in mappings if values for tensor in values.values())
    return next((tensor.device for tensor in tensors), torch.device("cpu"))


def _common_rule(
    first: Family, second: Family, values: Values | None, second_values: Values | None
) -> tuple[Tensor, Tensor]:
    """Nodes and weights that integrate every product of a function of each family."""
    device = device_of(values, second_values)
    if isinstance(first.domain, Finite):
        states = torch.arange(first.domain.size, dtype=torch.float64, device=device)
        return states, torch.ones_like(states)
    breaks = first.breakpoints(values).to(device)
    if first is not second or values is not second_values:
        breaks = merge(breaks, second.breakpoints(second_values).to(device))
    return gauss_legendre(breaks)
