"""Blocks of Gaussians given what is observed of them: the Gaussians of what is missing, and expectations.

|f_k|² of a square root of a Gaussian, given some of its coordinates, is a Gaussian of the others; so is
f_j f_k of two of them, up to their overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from squircuit.errors import StructureError
from squircuit.execution.plan import InputGroup
from squircuit.families import MultivariateGaussian, OrthonormalisedBlock
from squircuit.families.cache import kept
from squircuit.families.gaussian_algebra import products_of_roots
from squircuit.families.quadrature import gauss_legendre

Function: TypeAlias = Callable[[Tensor], Tensor]  #: real, of a tensor, entry by entry

BLOCK = 2**21  #: numbers in one intermediate result
REACH = 9.0
"""Standard deviations beyond which a Gaussian is below 1e-18."""
PANELS, NODES = 16, 8  #: of the rule of a Gaussian, beside panels that a transform asks for
TAIL = 40  #: how far beyond its knots a transform is looked at, in t
TOGETHER = 3  #: functions of so many variables of one block are averaged together


class GaussianTerms(NamedTuple):
    """Gaussians of the M missing coordinates, one for each function or pair of functions, in t(x)."""

    means: Tensor  #: (b, J, M)
    roots: Tensor  #: A with covariances A Aᵀ, (J, M, M)

    @property
    def widths(self) -> Tensor:
        """Standard deviations of the coordinates: (J, M)."""
        widths: Tensor = torch.linalg.vector_norm(self.roots, dim=2)
        return widths


def gaussians_of(group: InputGroup) -> MultivariateGaussian:
    """The Gaussians that the functions of a block are made of."""
    family = group.family
    base = family.base if isinstance(family, OrthonormalisedBlock) else family
    if not isinstance(base, MultivariateGaussian):
        raise StructureError(
            "made of Gaussians",
            type(family).__name__,
            "the distribution of a single variable of a block is known of square roots of Gaussians only",
            "ask for log_prob or samples, or use MultivariateGaussian",
        )
    return base


def terms_of_units(
    base: MultivariateGaussian, x: Tensor, observed: Sequence[bool], values: Mapping[str, Tensor]
) -> GaussianTerms:
    """The Gaussians |f_k|² of what is missing, given the observed coordinates of x (b, D): J = n."""
    means, factor = base.given(x, observed, values)
    return GaussianTerms(means, torch.diag_embed(factor) if factor.ndim == 2 else factor)


def terms_of_pairs(
    base: MultivariateGaussian, x: Tensor, observed: Sequence[bool], values: Mapping[str, Tensor]
) -> GaussianTerms:
    """The Gaussians that products f_j f_k are up to a factor: J = n², j slowest."""
    centres, roots = products_of_roots(*base.given(x, observed, values))
    return GaussianTerms(centres.flatten(1, 2), roots.flatten(0, 1))


def transform_of(base: MultivariateGaussian, coordinate: int) -> Any:
    """t of a coordinate, None where it is the identity."""
    return None if base.columns is None else base.columns[coordinate]


def expected_product(
    terms: GaussianTerms, places: Sequence[int], transforms: Sequence[Any], functions: Sequence[Function]
) -> Tensor:
    """E[∏_i f_i(x_i)] under each of the Gaussians: (b, J).

    By a rule for each Gaussian. One function of one variable is averaged to rounding where it is smooth on
    the scale of the Gaussian, also behind a transform; of several variables with transforms, whose pieces
    meet inside the grid, some four digits are right.

    Args:
        terms: Gaussians of t(x).
        places: of the coordinates among those that are missing.
        transforms: t of each of them, or None.
        functions: of a tensor of points (q,), entry by entry.
    """
    if len(places) > TOGETHER:
        raise StructureError(
            f"of at most {TOGETHER} variables of a block",
            "expectation",
            f"functions of {len(places)} variables of one block are averaged over a grid of all of them",
            "ask for fewer at a time, or average over samples",
        )
    means = terms.means[:, :, list(places)]
    if len(places) == 1 and transforms[0] is not None:
        widths = terms.widths[:, places[0]].expand(means.shape[:2])
        return expected_behind(transforms[0], functions[0], means.flatten(), widths.flatten()).reshape(
            means.shape[:2]
        )
    z, omega = _rule(len(places))  # (Q, m), (Q,)
    covariances = terms.roots[:, list(places)] @ terms.roots[:, list(places)].mT
    steps = z.to(covariances) @ torch.linalg.cholesky(covariances).mT  # (J, Q, m)

    def of_some(means: Tensor) -> Tensor:
        product: Tensor | None = None
        for i, (transform, function) in enumerate(zip(transforms, functions, strict=True)):
            t = means[:, :, i, None] + steps[:, :, i]  # (b, J, Q)
            x = t if transform is None else transform.inverse(t)
            value = function(x.flatten()).reshape(x.shape)
            product = value if product is None else product * value
        assert product is not None
        return product @ omega.to(product)

    size = max(1, BLOCK // max(1, len(omega) * means.shape[1]))
    return torch.cat([of_some(part) for part in torch.split(means, size)])


def expected_behind(transform: Any, function: Function, means: Tensor, widths: Tensor) -> Tensor:
    """E[f(t⁻¹(m + s z))] of Gaussians with means m and widths s, (N,) each, by a rule for each: (N,)."""
    size = max(1, BLOCK // rule_size(transform))
    found = []
    for some, wide in zip(torch.split(means, size), torch.split(widths, size), strict=True):
        x, omega = rule_behind(transform, some, wide)
        found.append((function(x.flatten()).reshape(x.shape) * omega).sum(dim=1))
    return torch.cat(found)


def rule_behind(transform: Any, means: Tensor, widths: Tensor) -> tuple[Tensor, Tensor]:
    """Nodes and weights of E[f(x)] where t(x) is Gaussian: (N,) each → (N, Q) each.

    The nodes are x, where f is smooth; panels end where those of the transform do, between which t is as
    smooth as a rule of few nodes needs it, and are short beside the width of the Gaussian. t None: x itself
    is Gaussian.
    """
    z = torch.linspace(-REACH, REACH, PANELS + 1, dtype=means.dtype, device=means.device)
    ends = means.unsqueeze(1) + widths.unsqueeze(1) * z
    if transform is not None:
        ends = transform.inverse(ends)
        inner = panels_of(transform).to(ends).expand(len(ends), -1)
        inner = torch.minimum(torch.maximum(inner, ends[:, :1]), ends[:, -1:])
        ends = torch.cat([ends, inner], dim=1).sort(dim=1).values
        used = (ends.diff(dim=1) > 0).any(dim=0)  # what is far from all of these Gaussians ends no panel
        ends = torch.cat([ends[:, :1], ends[:, 1:][:, used]], dim=1)
    x, weights = gauss_legendre(ends, NODES)
    t, log_slope = (x, 0.0 * x) if transform is None else transform.forward(x)
    z = (t - means.unsqueeze(1)) / widths.unsqueeze(1)
    omega = weights * (log_slope - z.square() / 2).exp()
    return x, omega / omega.sum(dim=1, keepdim=True)


def rule_size(transform: Any) -> int:
    """Nodes at most of the rule of one Gaussian."""
    return (PANELS + (0 if transform is None else len(panels_of(transform)))) * NODES


@kept(256)
def panels_of(transform: Any) -> Tensor:
    """Points x between which few nodes suit functions of t(x), tails included."""
    tails = torch.linspace(0.0, TAIL, TAIL + 1, dtype=torch.float64)
    first, last = transform.values[0], transform.values[-1]
    found: Tensor = transform.panels(torch.cat([first - tails.flip(0), last + tails]))
    return found


@kept(TOGETHER)
def _rule(variables: int) -> tuple[Tensor, Tensor]:
    """Nodes (Q, m) and weights (Q,) of expectations under the standard normal distribution."""
    z, omega = _smooth_rule() if variables == 1 else _hermite_rule()
    nodes = torch.cartesian_prod(*[z] * variables).reshape(-1, variables)
    weights = torch.cartesian_prod(*[omega] * variables).reshape(-1, variables).prod(dim=1)
    return nodes, weights


def _smooth_rule() -> tuple[Tensor, Tensor]:
    """Nodes and weights of quadrature for functions that are smooth: (Q,) each."""
    z, weights = gauss_legendre(torch.linspace(-REACH, REACH, PANELS + 1, dtype=torch.float64), NODES)
    omega = weights * (-z.square() / 2).exp()
    return z, omega / omega.sum()


@kept(1)
def _hermite_rule() -> tuple[Tensor, Tensor]:
    """The rule of Gauss for the normal distribution: 32 nodes, exact for polynomials of degree 63."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(32)
    return torch.from_numpy(nodes), torch.from_numpy(weights / weights.sum())
