"""The part of a variable's domain that is worth drawing."""

from __future__ import annotations

from torch import Tensor

from squircuit.families.domain import Domain, HalfLine, Interval

TAIL = 0.0005
"""Probability that is left out on either side of an unbounded domain."""
MARGIN = 0.05
"""What is added to the range of data on either side, as a share of it."""

Range = tuple[float, float]


def extent(domain: Domain, nodes: Tensor, masses: Tensor, values: Tensor | None = None) -> Range:
    """An interval as a whole; of unbounded domains the range of the values, else where the probability is.

    Args:
        domain: of the variable.
        nodes, masses: of its marginal, (Q,) each.
        values: of the data, (n,), or None.

    Example:
        >>> import torch
        >>> from squircuit.families.domain import Line
        >>> nodes, masses = torch.linspace(-9, 9, 19), torch.zeros(19)
        >>> masses[7:12] = 0.2
        >>> extent(Line(), nodes, masses)
        (-2.0, 2.0)
        >>> extent(Line(), nodes, masses, torch.tensor([0.0, 10.0]))
        (-0.5, 10.5)
    """
    if isinstance(domain, Interval):
        return domain.low, domain.high
    low, high = _range_of(values) if values is not None else _most_of(nodes, masses)
    return (max(low, domain.start), high) if isinstance(domain, HalfLine) else (low, high)


def _range_of(values: Tensor) -> Range:
    low, high = values.min().item(), values.max().item()
    margin = MARGIN * (high - low) or 1.0
    return low - margin, high + margin


def _most_of(nodes: Tensor, masses: Tensor) -> Range:
    """The nodes between which all but a little of the probability lies; they need not be in order."""
    order = nodes.argsort()
    below = masses[order].cumsum(0) / masses.sum()
    first, last = int((below < TAIL).sum()), int((below < 1 - TAIL).sum())
    return nodes[order[first]].item(), nodes[order[min(last, len(nodes) - 1)]].item()
