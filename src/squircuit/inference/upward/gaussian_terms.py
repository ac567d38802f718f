"""Blocks of Gaussians given what is observed of them: the Gaussians of what is missing, and expectations.

|f_k|² of a square root of a Gaussian, given some of its coordinates, is a Gaussian of the others; so is
f_j f_k of two of them, up to their overlap.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from squircuit.errors import StructureError
from squircuit.execution.plan import InputGroup
from squircuit.families import MultivariateGaussian, OrthonormalisedBlock
from squircuit.families.cache import kept
from squircuit.families.gaussian_algebra import products_of_roots
from squircuit.families.quadrature import gauss_legendre
from squircuit.inference.upward.finite import not_finite

Function: TypeAlias = Callable[[Tensor], Tensor]  #: real, of a tensor, entry by entry

BLOCK = 2**21  #: numbers in one intermediate result
REACH = 9.0
"""Standard deviations beyond which a Gaussian is below 1e-18."""
LARGEST = 700.0  #: logarithm of numbers that doubles hold
PANELS, NODES = 24, 8  #: of the rule of a Gaussian, beside panels that a transform asks for
TAIL = 40  #: how far beyond its knots a transform is looked at, in t; twice as far where a Gaussian is there
GROWTH = 4  #: functions are taken to grow like x⁴ at most, which counts where tails are heavy
TOGETHER = 3  #: functions of so many variables of one block are averaged together
MOST_PANELS = 256  #: of the rule of a variable that others nearly tell
MISSED = 1e-8  #: the share of an integral that the ends of its rule may have
RESOLVED = 1e-9  #: how far the mass that a rule finds may be from 1


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
    """E[∏_i f_i(x_i)] under each of the Gaussians, to rounding where f is smooth: (b, J).

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
    roots = terms.roots[:, list(places)]
    shape = terms.means.shape[:2]
    covariances = (roots @ roots.mT).expand(*shape, -1, -1)
    first, again = _distinct(terms.means)  # rows that show nothing of a block have the same Gaussians
    means, covariances = (
        terms.means[first][:, :, list(places)].flatten(0, 1),
        covariances[first].flatten(0, 1),
    )
    size = max(1, BLOCK // max(rule_size(transform) for transform in transforms) ** min(len(places), 2))
    found = [
        _expected(some, around, transforms, functions)
        for some, around in zip(torch.split(means, size), torch.split(covariances, size), strict=True)
    ]
    return torch.cat(found).reshape(-1, shape[1])[again]


def _distinct(means: Tensor) -> tuple[Tensor, Tensor]:
    """One row of each of the distinct (b, J, M), and where every row is among them: (u,) and (b,)."""
    rows = torch.arange(len(means), device=means.device)
    _, again = torch.unique(means.detach(), dim=0, return_inverse=True)
    first = rows.new_zeros(int(again.max()) + 1).scatter(0, again.flip(0), rows.flip(0))
    return first, again


def _expected(
    means: Tensor, covariances: Tensor, transforms: Sequence[Any], functions: Sequence[Function]
) -> Tensor:
    r"""E[∏_i f_i(x_i)] of Gaussians of one to three variables: (N, m), (N, m, m) → (N,).

    Each variable has a rule of its own, whose panels end where those of its transform do. With z standardised
    and P the inverse of its correlations, the density beside that of independent variables is

    .. math:: \frac{1}{\sqrt{|C|}} \prod_i e^{-(P_{ii} - 1 - \sum_j |P_{ij}|) z_i^2 / 2}
              \prod_{i<j} e^{-|P_{ij}| (z_i \pm z_j)^2 / 2} ,

    a product of matrices over pairs of nodes, so that sums over three variables are products of matrices.
    """
    widths = covariances.diagonal(dim1=1, dim2=2).sqrt()
    inverse = torch.linalg.inv(covariances / (widths[:, :, None] * widths[:, None]))
    sharpness = float(inverse.detach().diagonal(dim1=1, dim2=2).amax().sqrt())
    nodes, weights, values = list[Tensor](), list[Tensor](), list[Tensor]()
    for i, (transform, function) in enumerate(zip(transforms, functions, strict=True)):
        x, z, omega = rule_behind(transform, means[:, i], widths[:, i], sharpness)
        own = 2 * inverse[:, i, i] - inverse[:, i].abs().sum(dim=1) - 1  # without what goes to the pairs
        nodes.append(z)
        weights.append(omega * (-own[:, None] * z.square() / 2).exp())
        value = function(x.flatten()).reshape(x.shape)
        _require_vanishing(z, omega * value.detach())
        values.append(weights[-1] * value)
    if len(nodes) == 1:
        return values[0].sum(dim=1)
    pairs = {
        (i, j): _coupled(nodes[i], nodes[j], inverse[:, i, j])
        for i, j in itertools.combinations(range(len(nodes)), 2)
    }
    mass = _summed(pairs, weights)
    _require_resolved(mass * torch.linalg.det(inverse).sqrt())
    return _summed(pairs, values) / mass


def _coupled(z: Tensor, other: Tensor, entry: Tensor) -> Tensor:
    """exp(−|P| (z ± z′)² / 2) with the sign of P at pairs of nodes: (N, Q), (N, Q′), (N,) → (N, Q, Q′)."""
    apart = z[:, :, None] + entry.sign()[:, None, None] * other[:, None]
    found: Tensor = (-entry.abs()[:, None, None] * apart.square() / 2).exp()
    return found


def _summed(pairs: Mapping[tuple[int, int], Tensor], values: Sequence[Tensor]) -> Tensor:
    """Σ over the nodes of two or three variables of the products of values and pairs: (N,)."""
    first = pairs[0, 1]
    if len(values) > 2:
        first = first * ((pairs[0, 2] * values[2][:, None]) @ pairs[1, 2].mT)
    return ((values[0][:, None] @ first).squeeze(1) * values[1]).sum(dim=1)


def _require_resolved(masses: Tensor) -> None:
    """Refuse Gaussians so flat that the rule does not find their mass, which is 1."""
    if bool((masses.detach() - 1).abs().amax() < RESOLVED):
        return
    raise StructureError(
        "of variables that are not nearly functions of each other",
        "expectation",
        "the variables of a block are so strongly correlated that a product is not averaged exactly",
        "ask for fewer at a time, or average over samples",
    )


def rule_behind(
    transform: Any, means: Tensor, widths: Tensor, sharpness: float = 1.0, growth: int = GROWTH
) -> tuple[Tensor, Tensor, Tensor]:
    """Nodes x, their z = (t(x) − m)/s, and weights of E[f(x)] where t(x) is Gaussian: (N,) → (N, Q) each.

    The nodes are x, where f is smooth; panels end where those of the transform do, between which t is as
    smooth as a rule of few nodes needs it, and are short beside the width of the Gaussian.

    Args:
        transform: t, or None where x itself is Gaussian.
        means, widths: of t(x).
        sharpness: how much narrower than the Gaussian what f is multiplied by may be.
        growth: f grows like this power of x at most.
    """
    reach = reach_of(transform, widths, growth)
    panels = min(MOST_PANELS, math.ceil(PANELS * sharpness * reach / REACH))
    z = torch.linspace(-reach, reach, panels + 1, dtype=means.dtype, device=means.device)
    ends = means.unsqueeze(1) + widths.unsqueeze(1) * z
    if transform is not None:
        inner = panels_around(transform, ends).to(ends).expand(len(ends), -1)
        ends = transform.inverse(ends)
        inner = torch.minimum(torch.maximum(inner, ends[:, :1]), ends[:, -1:])
        ends = torch.cat([ends, inner], dim=1).sort(dim=1).values
        used = (ends.diff(dim=1) > 0).any(dim=0)  # what is far from all of these Gaussians ends no panel
        ends = torch.cat([ends[:, :1], ends[:, 1:][:, used]], dim=1)
    x, weights = gauss_legendre(ends, NODES)
    t, log_slope = (x, 0.0 * x) if transform is None else transform.forward(x)
    z = (t - means.unsqueeze(1)) / widths.unsqueeze(1)
    omega = weights * (log_slope - z.square() / 2).exp()
    return x, z, omega / omega.sum(dim=1, keepdim=True)


def outermost(z: Tensor, sizes: Tensor) -> Tensor:
    """The part of a sum that is at the ends of a rule, where nothing may be left: (N, Q) → (N,)."""
    far = z.detach().abs()
    return (sizes * (far > far.amax(dim=1, keepdim=True) - 1)).sum(dim=1)


def _require_vanishing(z: Tensor, integrand: Tensor) -> None:
    """Refuse functions that are so large far out that the rule does not see all of their mean."""
    sizes = integrand.detach().abs()
    if not bool((outermost(z, sizes) <= MISSED * sizes.sum(dim=1)).all()):
        raise not_finite("variables of a block", "expectation")


def reach_of(transform: Any, widths: Tensor, growth: int) -> float:
    """Standard deviations within which the integral of x^growth is.

    Beyond its knots x is e^(κ t), and e^(g κ s z − z²/2) has its top at z = g κ s.
    """
    steepest: float = 0.0 if transform is None or transform.tails is None else max(transform.tails)
    top = growth * steepest * float(widths.detach().amax())
    return min(REACH + top, math.sqrt(2 * LARGEST), LARGEST / max(top, 1.0))


def rule_size(transform: Any) -> int:
    """Nodes at most of the rule of one Gaussian."""
    return (PANELS + (0 if transform is None else len(panels_of(transform)))) * NODES


def panels_around(transform: Any, t: Tensor) -> Tensor:
    """Points x between which few nodes suit functions of t(x), as far out as t is."""
    first, last = transform.values[0], transform.values[-1]
    farthest = max(first - float(t.detach().amin()), float(t.detach().amax()) - last, TAIL)
    if not math.isfinite(farthest):
        farthest = TAIL
    return panels_of(transform, TAIL * 2 ** math.ceil(math.log2(farthest / TAIL)))


@kept(256)
def panels_of(transform: Any, tail: int = TAIL) -> Tensor:
    """Points x between which few nodes suit functions of t(x), so far beyond its knots."""
    tails = torch.linspace(0.0, tail, tail + 1, dtype=torch.float64)
    first, last = transform.values[0], transform.values[-1]
    found: Tensor = transform.panels(torch.cat([first - tails.flip(0), last + tails]))
    return found
