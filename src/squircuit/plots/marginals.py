"""Single variables: probabilities as bars, densities as areas."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from squircuit.errors import ParameterError
from squircuit.inference import Marginals
from squircuit.models import SquaredCircuit
from squircuit.plots.style import BLUE, GREEN, extent, figure, name_of, panels, require_model, titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS, MOST = 4, 100
POINTS = 400
"""The number of points at which a density is drawn."""
LABELS, LETTERS = 12, 14
"""So many numbers are written below bars, of more only some; names with more letters are turned."""


def marginals(model: SquaredCircuit) -> Figure:
    """A panel for every variable: bars of its probabilities, or the area below its density.

    Args:
        model: of at most 100 variables; columns of a table have their names, and so have their states.

    Example:
        >>> import squircuit as sq
        >>> model = sq.table_model({"sex": ["f", "m", "m"], "height": [1.7, 1.8, 1.9]}, size=4)
        >>> fig = marginals(model)
        >>> [axes.get_title() for axes in fig.axes]
        ['sex', 'height']
    """
    require_model(model)
    variables = sorted(model.structure.scope)
    _require_few(len(variables))
    found = _found(model)
    columns = min(COLUMNS, len(variables))
    lines = math.ceil(len(variables) / columns)
    fig = figure(2.1 * columns, 1.8 * lines)
    axes = panels(fig, lines, columns)
    for one, v in zip(axes, variables, strict=False):
        _draw(one, model, found, v)
    for one in axes[len(variables) :]:
        one.remove()
    return fig


def _found(model: SquaredCircuit) -> Marginals:
    """The marginals with densities at equal steps over the range that is drawn."""
    domains, first = model.structure.domains, model.marginals()
    return model.marginals(
        grid={
            v: torch.linspace(
                *extent(domain, first.nodes[v], first.masses[v][0]), POINTS, dtype=torch.float64
            )
            for v, domain in domains.items()
            if not domain.is_discrete
        }
    )


def _draw(axes: Axes, model: SquaredCircuit, found: Marginals, v: int) -> None:
    points, values = found.points[v].cpu(), found.values[v][0].detach().cpu()
    if model.structure.domains[v].is_discrete:
        _draw_bars(axes, _states(model, v, points), values)
    else:
        axes.fill_between(points.numpy(), values.numpy(), color=BLUE, alpha=0.25, linewidth=0)
        axes.plot(points.numpy(), values.numpy(), color=BLUE, linewidth=1.5)
        axes.set_xlim(points[0].item(), points[-1].item())
    axes.set_ylim(bottom=0)
    titled(axes, name_of(model, v))


def _draw_bars(axes: Axes, states: list[object], values: Tensor) -> None:
    """Draw states at their numbers where these are consecutive, else side by side with names."""
    start = states[0] if isinstance(states[0], int) else 0
    places = list(range(start, start + len(states)))
    axes.bar(places, values.tolist(), width=0.8, color=GREEN)
    if len(states) <= LABELS or places != states:
        axes.set_xticks(places, [str(state) for state in states])
    if sum(len(str(state)) for state in states) > LETTERS and places != states:
        axes.tick_params(axis="x", rotation=30)


def _states(model: SquaredCircuit, v: int, points: Tensor) -> list[object]:
    """The states in the words of the table, else 0, 1, …"""
    if model.schema is None:
        return [int(point) for point in points]
    return [model.schema.columns[v].decode(float(point)) for point in points]


def _require_few(count: int) -> None:
    if count > MOST:
        raise ParameterError(
            f"a model of {count} variables: more than {MOST} panels cannot be read. "
            "Fix: model.marginals() gives the numbers; sq.plots.images(model.mean(), shape) draws "
            "the means of pixels."
        )
