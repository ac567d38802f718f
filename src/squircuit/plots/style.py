"""What all figures share: dark on white, colours that all can tell apart, and which range is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from squircuit.data.optional import need
from squircuit.errors import ParameterError
from squircuit.families.domain import Domain, HalfLine, Interval
from squircuit.models import SquaredCircuit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, VERMILION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
"""Colours of the palette of Okabe and Ito."""
INK, FAINT = "#1e293b", "#cbd5e1"
DENSITY = ("white", "#9ec9e2", BLUE, "#04233b")
"""Colours of densities, from zero upwards: ever darker, also in print."""


def figure(width: float, height: float) -> Figure:
    """An empty white figure of so many inches, which lays itself out and belongs to no window."""
    made: Figure = need("matplotlib.figure", "drawing", "plot").Figure(
        figsize=(width, height), layout="constrained", facecolor="white"
    )
    return made


def panels(fig: Figure, rows: int, columns: int, **options: Any) -> list[Axes]:
    """Dressed axes in a grid, row by row."""
    grid = fig.subplots(rows, columns, squeeze=False, **options)
    return [dress(axes) for axes in np.ravel(grid)]


def dress(axes: Axes) -> Axes:
    """Dark thin lines on white, none at the top and on the right, whatever the user's settings are."""
    axes.set_facecolor("white")
    axes.tick_params(colors=INK, labelsize=8, width=0.8, length=3)
    axes.grid(visible=False)
    for side, spine in axes.spines.items():
        spine.set(visible=side in ("left", "bottom"), color=INK, linewidth=0.8)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set(color=INK, fontsize=9)
    return axes


def framed(axes: Axes) -> Axes:
    """Put a picture into a thin frame, without ticks."""
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set(visible=True, color=FAINT, linewidth=0.6)
    return axes


def titled(axes: Axes, title: str, size: float = 9) -> None:
    axes.set_title(title, color=INK, fontsize=size)


def require_model(model: object) -> None:
    if not isinstance(model, SquaredCircuit):
        raise ParameterError(f"expected a SquaredCircuit, got {model!r}. Fix: sq.SquaredCircuit(circuit).")


def name_of(model: SquaredCircuit, variable: int) -> str:
    """The name of the column where the model knows it, else the number of the variable.

    Example:
        >>> import squircuit as sq
        >>> name_of(sq.table_model({"sex": [0, 1, 1], "size": [0.2, 0.1, 0.4]}, size=4), 1)
        'size'
        >>> name_of(sq.SquaredCircuit(sq.build(sq.regions.linear(2), sq.Categorical(2), units=2)), 1)
        'x1'
    """
    return f"x{variable}" if model.schema is None else model.schema.columns[variable].name


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
