"""Square roots of Gaussian densities of several variables, with a covariance each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from squircuit.errors import ParameterError
from squircuit.families.base import InputFunctions, Values, device_of, same_values
from squircuit.families.block import BlockFamily, Pattern, places
from squircuit.families.cache import kept
from squircuit.families.checks import is_finite, require_count, require_flag, wrong
from squircuit.families.domain import Domain, Line
from squircuit.families.gaussian_algebra import (
    draw_square,
    inverse,
    log_determinant,
    log_overlaps,
    squared_distances,
    triangular,
)
from squircuit.families.monotone import Monotone

COVARIANCES = ("full", "diagonal", "tied", "low-rank")


class Conditionals(NamedTuple):
    """The Gaussians of the coordinates M given the others, one for each function, of transformed values."""

    means: Tensor  #: (..., n, M)
    factor: Tensor  #: L with covariance L Lᵀ, (n, M, M); or its diagonal, (n, M), of diagonal covariances


@final
@dataclass(frozen=True)
class MultivariateGaussian(BlockFamily):
    r"""Square roots of normal densities of D variables,

    .. math:: f_k(x) = \mathcal N(t(x); \mu_k, \Sigma_k)^{1/2} \sqrt{\textstyle\prod_v t_v'(x_v)}, \qquad
              \int f_k^2 = 1, \qquad
              \int f_j f_k = (8\pi)^{D/2} |\Sigma_j|^{1/4} |\Sigma_k|^{1/4}
              \mathcal N(\mu_j - \mu_k; 0, 2 \Sigma_j + 2 \Sigma_k).

    A circuit whose root is one input layer of them, with root weights π, is the Gaussian mixture
    p = Σ_k π_k N(x; μ_k, Σ_k); products with other input layers are mixtures over more variables, of any
    kinds. Norms are exactly 1, whatever the values. They are not orthogonal.

    Parameters, where every real number is allowed: ``"loc"`` (n, D), and of the covariance

    - full: ``"factor"`` (n, D, D), the triangular factor L of Σ = L Lᵀ below the diagonal, the logarithm of
      its diagonal there, and above it numbers that are not read;
    - diagonal: ``"log_scale"`` (n, D), logarithms of standard deviations;
    - tied: ``"factor"`` (D, D), one for all;
    - low-rank: ``"log_scale"`` (n, D) and ``"loading"`` U (n, D, rank), Σ = diag(s²) + U Uᵀ.

    Args:
        size: number n of functions.
        dimension: number D of variables.
        covariance: "full", "diagonal", "tied" or "low-rank".
        rank: of U, for "low-rank" alone.
        columns: the monotone transform t of each variable, None where it is the identity; None: all are.
        learnable: whether the numbers above are parameters.
        start: initial values of the parameters, flat, in their order; default: spread like a standard normal
            distribution. See :meth:`of`.

    Shapes: x (..., D) → (..., n).

    Example:
        >>> family = MultivariateGaussian.of([[0.0, 0.0]], [[[1.0, 0.9], [0.9, 1.0]]])
        >>> family.evaluate(torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)) ** 2
        tensor([[0.3651],
                [0.2157]], dtype=torch.float64)
    """

    size: int
    dimension: int
    covariance: str = "full"
    rank: int | None = None
    columns: tuple[Monotone | None, ...] | None = None
    learnable: bool = True
    start: tuple[tuple[float, ...], ...] | None = None

    def __post_init__(self) -> None:
        require_count(self, "size")
        require_count(self, "dimension")
        require_flag(self, "learnable")
        if self.covariance not in COVARIANCES:
            raise wrong(self, "covariance", "is unknown", f"pass one of {', '.join(COVARIANCES)}")
        if (self.rank is not None) != (self.covariance == "low-rank"):
            raise wrong(self, "rank", f"does not go with covariance={self.covariance!r}", self._rank_fix)
        if self.rank is not None:
            require_count(self, "rank")
        if self.columns is not None:
            self._check_columns()
        if self.start is not None:
            self._check_start()

    @property
    def _rank_fix(self) -> str:
        return "pass rank=1 or more" if self.rank is None else "pass rank with covariance='low-rank' only"

    @classmethod
    def of(
        cls,
        means: Any,
        covariances: Any,
        covariance: str = "full",
        columns: tuple[Monotone | None, ...] | None = None,
        learnable: bool = False,
    ) -> MultivariateGaussian:
        """The family with given means and covariances, which are kept in it.

        Args:
            means: (n, D).
            covariances, covariance: as for :meth:`values_of`.
            columns, learnable: of the family.
        """
        loc = torch.as_tensor(means, dtype=torch.float64)
        rank = torch.as_tensor(covariances[1]).shape[-1] if covariance == "low-rank" else None
        size, dimension = loc.shape
        bare = cls(size, dimension, covariance, rank, columns, learnable)
        values = bare.values_of(loc, covariances)
        start = tuple(tuple(value.flatten().tolist()) for value in values.values())
        return cls(size, dimension, covariance, rank, columns, learnable, start)

    def values_of(self, means: Any, covariances: Any) -> dict[str, Tensor]:
        """The values of the parameters of Gaussians with given moments of t(x).

        Args:
            means: (n, D).
            covariances: full (n, D, D); diagonal: variances (n, D); tied (D, D); low-rank: the pair of the
                variances s² (n, D) and of U (n, D, rank).

        Returns:
            Tensors in double precision, by the names of the parameters.
        """
        found = {"loc": _numbers(means)}
        if self.covariance == "low-rank":
            variances, loading = (_numbers(part) for part in covariances)
            found |= {"log_scale": self._log_scale(variances), "loading": loading}
        elif self.covariance == "diagonal":
            found |= {"log_scale": self._log_scale(_numbers(covariances))}
        else:
            found |= {"factor": self._log_factor(_numbers(covariances))}
        shapes = self._shapes()
        return {name: self._shaped(name, value, torch.empty(shapes[name])) for name, value in found.items()}

    @property
    def domains(self) -> tuple[Domain, ...]:
        return tuple(Line() if column is None else column.domain for column in self._transforms)

    @property
    def _transforms(self) -> tuple[Monotone | None, ...]:
        """The transform of each variable, None where it is the identity."""
        return (None,) * self.dimension if self.columns is None else self.columns

    @property
    def has_unit_norms(self) -> bool:
        return True

    def parameters(self) -> dict[str, Tensor]:
        return dict(self._initial()) if self.learnable else {}

    def _separate_functions(self, x: Tensor, values: Values) -> tuple[Tensor, Tensor]:
        logs = self._log_squares(x, (True,) * self.dimension, values) / 2
        held = logs.detach()
        return (logs - held).exp(), held  # 1, with its gradient

    def _scaled_functions(self, x: Tensor, values: Values, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        logs = self._log_squares(x, (True,) * self.dimension, values) / 2
        largest = logs.detach().amax(dim=-1)
        return (logs - largest[..., None]).to(dtype).exp(), largest

    def _log_squares(self, x: Tensor, observed: Pattern, values: Values) -> Tensor:
        seen, _ = places(observed)
        loc, factor = self._gaussians(seen, values)
        t, log_slope = self._transformed(x, seen)
        distances = squared_distances(t.reshape(-1, len(seen)), loc, factor).reshape(*x.shape[:-1], self.size)
        constant = log_determinant(factor) + len(seen) / 2 * math.log(2 * math.pi)
        return log_slope[..., None] - constant - distances / 2

    def _cross(
        self, other: BlockFamily, x: Tensor, observed: Pattern, values: Values, other_values: Values
    ) -> tuple[Tensor, Tensor]:
        """√p_j(x_O) √p_k(x_O) times the overlap of the square roots of what is left, given x_O."""
        if not isinstance(other, MultivariateGaussian):
            pairs, scale = other._cross(self, x, observed, other_values, values)
            return pairs.mH.resolve_conj(), scale
        self._require_same_columns(other)
        halves = self._log_squares(x, observed, values) / 2
        is_same = other is self and same_values(values, other_values)
        others = halves if is_same else other._log_squares(x, observed, other_values) / 2
        logs = halves[..., :, None] + others[..., None, :]
        if not all(observed):
            given, beside = self._given(x, observed, values), other._given(x, observed, other_values)
            logs = logs + log_overlaps(*given, *beside)
        largest = logs.detach().amax(dim=(-2, -1))
        return (logs - largest[..., None, None]).exp(), largest

    def given(self, x: Tensor, observed: Pattern, values: Values | None = None) -> Conditionals:
        """The Gaussian of t(x_M) given the observed coordinates, for each of the functions.

        Args:
            x: points, (..., D); coordinates that are not observed are not read.
            observed: the pattern, D booleans.
            values: of the learnable parameters.
        """
        pattern = self._pattern(observed)
        x = x.double()
        _, within = self._inside(x, pattern) if any(pattern) else (None, x)
        return self._given(within, pattern, self._resolve(values, x))

    def _given(self, x: Tensor, observed: Pattern, values: Values) -> Conditionals:
        seen, left = places(observed)
        loc, factor = self._gaussians([*seen, *left], values)
        known = len(seen)
        if factor.ndim == 2 or not seen:
            means = loc[:, known:].expand(*x.shape[:-1], -1, -1)
            return Conditionals(means, factor[:, known:] if factor.ndim == 2 else factor)
        t, _ = self._transformed(x, seen)
        # of L = [[A, 0], [B, C]] the mean is μ + B A⁻¹ (t − μ), and C is the factor of what is left
        gain = factor[:, known:, :known] @ inverse(factor[:, :known, :known])  # (n, M, O)
        apart = t[..., None, :] - loc[:, :known]  # (..., n, O)
        means = loc[:, known:] + (gain @ apart[..., None])[..., 0]
        return Conditionals(means, factor[:, known:, known:])

    def means_and_roots(self, values: Values | None = None) -> tuple[Tensor, Tensor]:
        """Means of t(x), (n, D), and A with covariances A Aᵀ, (n or 1, D, Q)."""
        like = torch.empty(0, dtype=torch.float64, device=device_of(values))
        found = self._resolve(values, like) if self.learnable else self._fixed(like.device)
        if self.covariance == "diagonal":
            return found["loc"], torch.diag_embed(found["log_scale"].exp())
        if self.covariance == "low-rank":
            noise = torch.diag_embed(found["log_scale"].exp())
            return found["loc"], torch.cat([noise, found["loading"]], dim=-1)
        raw = found["factor"] if self.covariance == "full" else found["factor"][None]
        return found["loc"], raw.tril(-1) + torch.diag_embed(raw.diagonal(dim1=-2, dim2=-1).exp())

    def transform(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """t of all coordinates and log t′ of each: (..., D) twice."""
        same = [(column, torch.zeros_like(column)) for column in x.unbind(-1)]
        found = [
            pair if t is None else t.forward(pair[0]) for t, pair in zip(self._transforms, same, strict=True)
        ]
        return torch.stack([t for t, _ in found], dim=-1), torch.stack([s for _, s in found], dim=-1)

    def inner(
        self, other: InputFunctions, values: Values | None = None, other_values: Values | None = None
    ) -> Tensor:
        self.require_same_domains(other)
        if not isinstance(other, MultivariateGaussian):
            if not isinstance(other, BlockFamily):
                kind = type(other).__name__
                raise self.no_closed_form("its overlap", f"{kind} is no Gaussian", f"use no {kind} beside it")
            return other.inner(self, other_values, values).mH.resolve_conj()
        self._require_same_columns(other)
        everything = list(range(self.dimension))
        here, there = self._gaussians(everything, values), other._gaussians(everything, other_values)
        return log_overlaps(*here, *there).exp()

    def _require_same_columns(self, other: MultivariateGaussian) -> None:
        if self._transforms != other._transforms:
            raise self.no_closed_form(
                "the overlap of Gaussians", "their columns are transformed differently", "use equal columns"
            )

    def integrals(self, values: Values | None = None) -> Tensor:
        self._require_no_columns()
        _, factor = self._gaussians(list(range(self.dimension)), values)
        return _log_integral(factor).exp()

    def _partial(self, x: Tensor, observed: Pattern, values: Values) -> Tensor:
        self._require_no_columns()
        rest = _log_integral(self._given(x, observed, values).factor)
        return (self._log_squares(x, observed, values) / 2 + rest).exp()

    def _require_no_columns(self) -> None:
        if any(column is not None for column in self._transforms):
            raise self.no_closed_form(
                "the integral of the functions themselves", "their columns are transformed", "use no columns"
            )

    def sample(
        self,
        units: Tensor,
        x: Tensor,
        observed: Pattern,
        values: Values | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        pattern = self._pattern(observed)
        seen, left = places(pattern)
        loc, factor = self._gaussians([*seen, *left], values)
        loc, factor = loc[units], factor[units if len(factor) > 1 else units.new_zeros(units.shape)]
        noise = torch.randn(len(units), len(left), dtype=torch.float64, generator=generator).to(loc.device)
        if factor.ndim == 2:
            return self._completed(x, left, loc[:, len(seen) :] + factor[:, len(seen) :] * noise)
        t, _ = self._transformed(x.double(), seen)
        lower = factor[:, : len(seen), : len(seen)]
        z = torch.linalg.solve_triangular(lower, (t - loc[:, : len(seen)])[..., None], upper=False)
        drawn = factor[:, len(seen) :] @ torch.cat([z, noise[..., None]], dim=1)
        return self._completed(x, left, loc[:, len(seen) :] + drawn[..., 0])

    def sample_square(
        self,
        amplitudes: Tensor,
        x: Tensor,
        observed: Pattern,
        values: Values | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        pattern = self._pattern(observed)
        _, left = places(pattern)
        pairs, _ = self.pair_integrals(x, pattern, values)
        weights = (amplitudes[:, :, None] * amplitudes[:, None].conj()).real.double() * pairs
        given = self.given(x, pattern, values)
        return self._completed(x, left, draw_square(weights, given.means, given.factor, generator))

    def _completed(self, x: Tensor, left: list[int], t: Tensor) -> Tensor:
        """The rows with t⁻¹ of what was drawn at the coordinates that were left."""
        rows = x.double().clone()
        for i, v in enumerate(left):
            column = self._transforms[v]
            rows[:, v] = t[:, i] if column is None else column.inverse(t[:, i])
        return rows

    def _transformed(self, x: Tensor, seen: list[int]) -> tuple[Tensor, Tensor]:
        """t of the coordinates that are seen, (..., O), and log ∏ t′ of them, (...,)."""
        columns = [self._transforms[v] for v in seen]
        if not any(column is not None for column in columns):
            there = x if len(seen) == x.shape[-1] else x[..., seen]
            return there, x.new_zeros(x.shape[:-1])
        same = [(x[..., v], torch.zeros_like(x[..., v])) for v in seen]
        found = [
            pair if column is None else column.forward(pair[0])
            for pair, column in zip(same, columns, strict=True)
        ]
        return torch.stack([t for t, _ in found], dim=-1), torch.stack([s for _, s in found]).sum(dim=0)

    def gaussians(self, values: Values | None = None) -> tuple[Tensor, Tensor]:
        """The means μ, (n, D), and factors L with Σ = L Lᵀ, (n, D, D), or standard deviations, (n, D).

        Example:
            >>> family = MultivariateGaussian.of([[0.0, 0.0], [2.0, 0.0]], [[1.0, 4.0]] * 2, "diagonal")
            >>> family.gaussians()[1]
            tensor([[1., 2.],
                    [1., 2.]], dtype=torch.float64)
        """
        return self._gaussians(list(range(self.dimension)), values)

    def _gaussians(self, order: list[int], values: Values | None) -> tuple[Tensor, Tensor]:
        """Means, (n, M), and factors, (n, M, M) or (n, M), of some coordinates in an order."""
        like = torch.empty(0, dtype=torch.float64, device=device_of(values))
        found = self._resolve(values, like) if self.learnable else self._fixed(like.device)
        loc = found["loc"][:, order]
        if self.covariance == "diagonal":
            return loc, found["log_scale"][:, order].exp()
        if self.covariance == "low-rank":
            noise = torch.diag_embed(found["log_scale"].exp())
            return loc, triangular(torch.cat([noise, found["loading"]], dim=-1)[:, order])
        raw = found["factor"] if self.covariance == "full" else found["factor"][None]
        factor = raw.tril(-1) + torch.diag_embed(raw.diagonal(dim1=-2, dim2=-1).exp())
        count = len(order)
        if order == list(range(count)):  # the first rows of a triangular factor are one
            return loc, factor[:, :count, :count].expand(self.size, -1, -1)
        return loc, triangular(factor[:, order]).expand(self.size, -1, -1)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        n, d = self.size, self.dimension
        shapes: dict[str, dict[str, tuple[int, ...]]] = {
            "full": {"factor": (n, d, d)},
            "diagonal": {"log_scale": (n, d)},
            "tied": {"factor": (d, d)},
            "low-rank": {"log_scale": (n, d), "loading": (n, d, self.rank or 0)},
        }
        return {"loc": (n, d), **shapes[self.covariance]}

    def _initial(self) -> Values:
        """The first values: as given, or else spread so that their mixture has the moments of N(0, 1)."""
        return _start(self) if self.start is not None else _spread(self)

    def _fixed(self, device: torch.device) -> Values:
        return {name: value.to(device) for name, value in self._initial().items()}

    def _check_columns(self) -> None:
        given = tuple(self.columns or ())
        fix = f"pass a tuple of {self.dimension} maps onto the line, None where there is none"
        if len(given) != self.dimension or not all(t is None or isinstance(t, Monotone) for t in given):
            raise wrong(self, "columns", f"are not {self.dimension} maps", fix)
        if any(t is not None and t.image != Line() for t in given):  # a Gaussian has mass everywhere
            raise wrong(self, "columns", "has a map onto an interval only", fix)
        object.__setattr__(self, "columns", given)

    def _check_start(self) -> None:
        shapes = list(self._shapes().values())
        counts = [math.prod(shape) for shape in shapes]
        rows = [tuple(row) for row in self.start or ()]
        if [len(row) for row in rows] != counts or not all(is_finite(x) for row in rows for x in row):
            raise ParameterError(
                f"{type(self).__name__}: start does not hold finite numbers for {self._shapes()}. Fix: pass "
                f"tuples of {counts} floats, or make the family with MultivariateGaussian.of."
            )
        object.__setattr__(self, "start", tuple(tuple(float(x) for x in row) for row in rows))

    def _log_scale(self, variances: Tensor) -> Tensor:
        if not bool((variances > 0).all()):
            raise ParameterError(
                f"{type(self).__name__}: a variance is {variances.min().item():.3g}. Fix: pass variances > 0."
            )
        return variances.log() / 2

    def _log_factor(self, covariances: Tensor) -> Tensor:
        lower, wrong_at = torch.linalg.cholesky_ex(covariances)
        if bool(wrong_at.any()):
            first = int(wrong_at.reshape(-1).nonzero()[0])
            raise ParameterError(
                f"{type(self).__name__}: covariance {first} is not positive definite. Fix: add a small "
                "number to its diagonal."
            )
        found: Tensor = lower.tril(-1) + torch.diag_embed(lower.diagonal(dim1=-2, dim2=-1).log())
        return found


def _log_integral(factor: Tensor) -> Tensor:
    """log ∫ N(t; μ, C)^½ dt = ¼ log |C| + M/4 log 8π: (n, M, M) or (n, M) → (n,)."""
    return log_determinant(factor) / 2 + factor.shape[-1] / 4 * math.log(8 * math.pi)


def _numbers(value: Any) -> Tensor:
    return torch.as_tensor(value, dtype=torch.float64)


@kept(256)
def _start(family: MultivariateGaussian) -> Values:
    rows = zip(family._shapes().items(), family.start or (), strict=True)
    return {name: torch.tensor(row, dtype=torch.float64).reshape(s) for (name, s), row in rows}


def _spread(family: MultivariateGaussian) -> Values:
    """Half of the variance is between the means, quantiles of a low-discrepancy sequence, half is within."""
    shapes = family._shapes()
    found = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in shapes.items()}
    if family.size > 1:
        engine = torch.quasirandom.SobolEngine(family.dimension)  # type: ignore[no-untyped-call]
        uniform = (engine.draw(family.size + 1)[1:].double() + 0.5 / family.size).clamp(0.01, 0.99)
        found["loc"] = torch.special.ndtri(uniform) * math.sqrt(0.5)
        within = math.log(0.5) / 2
        for name, diagonal in found.items():
            if name == "log_scale":
                diagonal.fill_(within)
            elif name == "factor":
                diagonal.diagonal(dim1=-2, dim2=-1).fill_(within)
    if "loading" in found:  # at zero a loading has no gradient
        signs = torch.arange(family.dimension)[:, None] // 2 ** torch.arange(shapes["loading"][-1])
        found["loading"] += 0.1 * (1 - 2 * (signs % 2).double())
    return found
