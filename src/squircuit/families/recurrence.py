"""Three-term recurrences that neither overflow nor underflow, shared by the orthogonal polynomials."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from squircuit.families.cache import constant

STEP = 22.0  # one rescaling divides by exp(22) ≈ 2³²; a whole number, so that sums of exponents are exact
REACH = 45.0  # exp(−45²/2) is zero in every floating-point type
FARTHEST = {torch.float32: 1e18, torch.float64: 1e150}  # squares of what is nearer do not overflow
GROWTH = 1e9  # of a polynomial in one step, at most: below exp(22), by which one rescaling divides

Coefficients = Sequence[tuple[float, float, float]]


def standardise(x: Tensor, loc: Tensor | float, scale: Tensor | float, reach: float) -> Tensor:
    """(x − loc)/scale, and reach where it is further than that from 0.

    Far points are replaced before the division, as its overflow would put 0 · ∞ into the gradient.
    """
    middle, width = (v.detach() if isinstance(v, Tensor) else constant(v, x) for v in (loc, scale))
    far = ((x.detach() - middle) / width).abs() > reach
    return torch.where(far, reach, (torch.where(far, middle, x) - loc) / scale)


def three_term(t: Tensor, coefficients: Coefficients, log_weight: Tensor) -> Tensor:
    r"""Evaluate w(t) p_n(t), n = 0, …, len(coefficients), for the polynomials

    .. math:: p_0 = 1, \qquad p_{n+1}(t) = (a_n + b_n t)\, p_n(t) - c_n\, p_{n-1}(t)

    and the weight w = exp(log_weight). Where p_n grows beyond exp(22), p_n and p_{n−1} are divided by that
    factor and the division is remembered in the exponent: w may underflow long before w p_n does. The
    rescaling is piecewise constant in t, hence the derivative by automatic differentiation is exact.

    Args:
        t: points, (...,).
        coefficients: (a_n, b_n, c_n) for n = 0, 1, …
        log_weight: (...,).

    Returns:
        (..., len(coefficients) + 1).

    Example:
        >>> t = torch.tensor(2.0)
        >>> three_term(t, [(0.0, 1.0, 0.0), (0.0, 1.0, 1.0)], torch.zeros(()))  # 1, t, t² − 1
        tensor([1., 2., 3.])
    """
    rows, counts = _rescaled(t, coefficients)
    return rows * (log_weight[..., None] + STEP * counts).exp()


def three_term_scaled(
    t: Tensor, coefficients: Coefficients, log_weight: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """The same as v e^s with s held constant, so that nothing underflows however far t is.

    s = log w + 22·(the most divisions): what is left of an exponent are whole multiples of 22. The factor
    w/w, which is 1, carries the gradient of w. Beyond |t| = 10⁹ polynomials stay as they are there: beside
    the weight they do not count any more.

    Args:
        t, log_weight: (...,), in the precision in which s is wanted.
        coefficients: as above.
        dtype: of v.

    Returns:
        v, (..., len(coefficients) + 1), and s, (...,).
    """
    rows, counts = _rescaled(t.to(dtype).clamp(-GROWTH, GROWTH), coefficients)
    most, held = counts.amax(dim=-1), log_weight.detach()
    factor = (log_weight - held).to(dtype).exp()
    scaled = rows * (STEP * (counts - most[..., None])).exp() * factor[..., None]
    return scaled, held + STEP * most.to(held.dtype)


def _rescaled(t: Tensor, coefficients: Coefficients) -> tuple[Tensor, Tensor]:
    """p_n(t) e^(−22 m_n) and the numbers m_n of divisions: (..., len(coefficients) + 1) each."""
    limit, factor = math.exp(STEP), math.exp(-STEP)
    previous, current, count = torch.zeros_like(t), torch.ones_like(t), torch.zeros_like(t)
    rows, counts = [current], [count]
    for a, b, c in coefficients:
        previous, current = current, (a + b * t) * current - c * previous
        large = current.detach().abs() > limit
        previous, current = (torch.where(large, factor * p, p) for p in (previous, current))
        count = count + large
        rows.append(current)
        counts.append(count)
    return torch.stack(rows, dim=-1), torch.stack(counts, dim=-1)
