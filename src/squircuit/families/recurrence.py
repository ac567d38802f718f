"""Three-term recurrences that neither overflow nor underflow, shared by the orthogonal polynomials."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from squircuit.families.constants import constant

STEP = 22.0  # one rescaling divides by exp(22) ≈ 2³²; a whole number, so that sums of exponents are exact
REACH = 45.0  # exp(−45²/2) is zero in every floating-point type

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
    exponent = log_weight[..., None] + STEP * torch.stack(counts, dim=-1)
    return torch.stack(rows, dim=-1) * exponent.exp()
