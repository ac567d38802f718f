"""What a family of input functions of several variables is."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from squircuit.errors import ParameterError, StructureError
from squircuit.families.base import InputFunctions, Values, as_real, largest_scale, same_values
from squircuit.families.cache import kept
from squircuit.families.domain import Domain, Domains

Pattern = Sequence[bool]
"""Which of the D coordinates are observed."""


class BlockFamily(InputFunctions):
    r"""Functions f_1, …, f_n of D variables at once: the input functions of a block of variables.

    A block captures what products of functions of one variable do not, such as correlations. Everything that
    an input layer is asked is asked for one *pattern* of observed coordinates O, the others M being
    integrated: the pair integrals

    .. math:: R_{jk}(x_O) = \int f_j(x_O, x_M)\, f_k(x_O, x_M)^*\, dx_M,

    of which log-squares are the diagonal. Points are computed in double precision, whatever their type. What
    has no closed form is refused with a StructureError: no grid of several variables is integrated over.

    A new block family is a final frozen dataclass that defines ``size``, ``domains``,
    ``_separate_functions``, ``_cross``, ``_partial``, ``inner``, ``integrals`` and :meth:`sample_square`.
    """

    @abstractmethod
    def _cross(
        self, other: BlockFamily, x: Tensor, observed: Pattern, values: Values, other_values: Values
    ) -> tuple[Tensor, Tensor]:
        """:meth:`cross_integrals` at points inside the domain, with all values; something is observed."""

    @abstractmethod
    def _partial(self, x: Tensor, observed: Pattern, values: Values) -> Tensor:
        """:meth:`partial_integrals` at points inside the domain, with all values; something is observed."""

    def _within(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self._inside(x, (True,) * self.dimension)

    def _inside(self, x: Tensor, observed: Pattern) -> tuple[Tensor, Tensor]:
        """Which points lie in the domain where they are observed, and the points with stand-ins elsewhere."""
        self._require_coordinates(x)
        known = _domains(self.domains).on(x.device)
        there = known.contain(x)
        inside = there
        if not all(observed):
            seen, _ = places(observed)
            inside, there = there[..., seen], there & torch.tensor(observed, device=x.device)
        return inside.all(dim=-1), torch.where(there, x, known.anchors.to(x.dtype))

    def _functions(self, x: Tensor, values: Values) -> Tensor:
        functions, scale = self._separate_functions(x, values)
        return functions * scale.exp()

    def _scaled_functions(self, x: Tensor, values: Values, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        functions, scale = self._separate_functions(x, values)
        largest = largest_scale(torch.where(functions != 0, scale, -torch.inf), dim=-1)
        scaled = functions * (scale - largest[..., None]).exp()
        return scaled.to(dtype.to_complex() if self.is_complex else dtype), largest

    def evaluate(self, x: Tensor, values: Values | None = None) -> Tensor:
        dtype = as_real(x).dtype
        found = super().evaluate(as_real(x).double(), values)
        return found.to(dtype.to_complex() if self.is_complex else dtype)

    def evaluate_scaled(
        self, x: Tensor, values: Values | None = None, dtype: torch.dtype | None = None
    ) -> tuple[Tensor, Tensor]:
        x = as_real(x)
        return super().evaluate_scaled(x.double(), values, x.dtype if dtype is None else dtype)

    @property
    def has_one_scale(self) -> bool:
        return self.size == 1

    def pair_integrals(
        self, x: Tensor, observed: Pattern, values: Values | None = None
    ) -> tuple[Tensor, Tensor]:
        """∫ f_j(x) f_k(x)* dx_M at the observed coordinates of the points, as R e^s.

        Args:
            x: points, (..., D); coordinates that are not observed are not read.
            observed: the pattern, D booleans.
            values: of the learnable parameters.

        Returns:
            R, (..., n, n), and s, (...,), in double precision; s has no gradient. R is 0 outside the domain.

        Example:
            >>> from squircuit.families import MultivariateGaussian
            >>> family = MultivariateGaussian.of([[0.0, 0.0], [2.0, 0.0]], [[1.0, 1.0]] * 2, "diagonal")
            >>> family.pair_integrals(torch.zeros(1, 2), (False, False))[0]  # e^(−¼·4/2) between the two
            tensor([[[1.0000, 0.6065],
                     [0.6065, 1.0000]]], dtype=torch.float64)
        """
        return self.cross_integrals(self, x, observed, values, values)

    def cross_integrals(
        self,
        other: BlockFamily,
        x: Tensor,
        observed: Pattern,
        values: Values | None = None,
        other_values: Values | None = None,
    ) -> tuple[Tensor, Tensor]:
        """∫ f_j(x) g_k(x)* dx_M of this family f and another g, as R e^s; see :meth:`pair_integrals`.

        Returns:
            R, (..., n, m), and s, (...,).
        """
        self.require_same_domains(other)
        x = as_real(x).double()
        pattern = self._pattern(observed)
        if not any(pattern):
            is_same = other is self and same_values(values, other_values)
            inner = self.gram(values) if is_same else self.inner(other, values, other_values)
            return inner.expand(*x.shape[:-1], -1, -1), x.new_zeros(x.shape[:-1])
        inside, within = self._inside(x, pattern)
        given = self._resolve(values, x), other._resolve(other_values, x)
        pairs, scale = self._cross(other, within, pattern, *given)
        return torch.where(inside[..., None, None], pairs, 0.0), scale.detach()

    def partial_integrals(self, x: Tensor, observed: Pattern, values: Values | None = None) -> Tensor:
        """∫ f_k(x) dx_M of the functions themselves at the observed coordinates of the points: (..., n)."""
        x = as_real(x).double()
        pattern = self._pattern(observed)
        if not any(pattern):
            return self.integrals(values).expand(*x.shape[:-1], -1)
        inside, within = self._inside(x, pattern)
        return torch.where(inside[..., None], self._partial(within, pattern, self._resolve(values, x)), 0.0)

    def log_squares(self, x: Tensor, observed: Pattern, values: Values | None = None) -> Tensor:
        """log ∫ |f_k(x)|² dx_M at the observed coordinates of the points; −inf outside the domain.

        With all coordinates observed it is log |f_k(x)|², with none the logarithm of the norms.

        Args:
            x: points, (..., D); coordinates that are not observed are not read.
            observed: the pattern, D booleans.
            values: of the learnable parameters.

        Returns:
            (..., n), in double precision, and differentiable.
        """
        x = as_real(x).double()
        pattern = self._pattern(observed)
        if not any(pattern):
            return self.norms(values).log().expand(*x.shape[:-1], -1)
        inside, within = self._inside(x, pattern)
        found = self._log_squares(within, pattern, self._resolve(values, x))
        return torch.where(inside[..., None], found, -torch.inf)

    def _log_squares(self, x: Tensor, observed: Pattern, values: Values) -> Tensor:
        """:meth:`log_squares` at points inside the domain, with all values."""
        pairs, scale = self._cross(self, x, observed, values, values)
        squares = pairs.diagonal(dim1=-2, dim2=-1).real
        positive = squares > 0
        logs = torch.where(positive, squares, 1.0).log() + scale[..., None]
        return torch.where(positive, logs, -torch.inf)

    def sample(
        self,
        units: Tensor,
        x: Tensor,
        observed: Pattern,
        values: Values | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Draw the coordinates that are not observed from |f_k|², exactly, with a function k for each row.

        Args:
            units: k of every row, (B,).
            x: rows, (B, D); coordinates that are not observed are not read.
            observed: the pattern, D booleans.
            values: of the learnable parameters.
            generator: of the random numbers, on the CPU.

        Returns:
            The rows completed, (B, D), in double precision.
        """
        chosen = torch.nn.functional.one_hot(units, self.size).double()
        return self.sample_square(chosen, x, observed, values, generator)

    @abstractmethod
    def sample_square(
        self,
        amplitudes: Tensor,
        x: Tensor,
        observed: Pattern,
        values: Values | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Draw the coordinates that are not observed from |Σ_k e_k f_k(x)|², exactly: below a sum.

        Args:
            amplitudes: e of every row, (B, n), real or complex.
            x, observed, values, generator: as for ``sample``.

        Returns:
            The rows completed, (B, D), in double precision.
        """

    def conjugate(self) -> BlockFamily:
        """The family of the functions f_k*: block families are real so far, so it is the same object."""
        return self

    def require_same_domains(self, other: InputFunctions) -> None:
        """Refuse inner products with functions that live elsewhere."""
        if self.domains != other.domains:
            here, there = (" × ".join(d.describe() for d in f.domains) for f in (self, other))
            raise ParameterError(
                f"{type(self).__name__}.inner: {here} and {there} are different domains. "
                "Fix: pass a family on the same domains."
            )

    def no_closed_form(self, what: str, why: str, fix: str) -> StructureError:
        """The error to raise where an integral is not Gaussian algebra."""
        return StructureError("integrable in closed form", type(self).__name__, f"{what}: {why}", fix)

    def _pattern(self, observed: Pattern) -> tuple[bool, ...]:
        if len(observed) != self.dimension:
            raise ParameterError(
                f"{type(self).__name__}: a pattern of {len(observed)} coordinates, {self.dimension} are "
                "expected. Fix: pass one boolean for each variable of the block."
            )
        return tuple(bool(is_seen) for is_seen in observed)

    def _require_coordinates(self, x: Tensor) -> None:
        if x.ndim == 0 or x.shape[-1] != self.dimension:
            raise ParameterError(
                f"{type(self).__name__}: points of shape {tuple(x.shape)} do not have {self.dimension} "
                f"coordinates. Fix: pass x of shape (..., {self.dimension})."
            )


def places(observed: Pattern) -> tuple[list[int], list[int]]:
    """The coordinates that are observed, and those that are not.

    Example:
        >>> places((True, False, True))
        ([0, 2], [1])
    """
    seen = [v for v, is_seen in enumerate(observed) if is_seen]
    return seen, [v for v, is_seen in enumerate(observed) if not is_seen]


@kept(1024)
def _domains(domains: tuple[Domain, ...]) -> Domains:
    return Domains(domains)
