"""A density of the plane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from squircuit.data.given import rows_of
from squircuit.data.optional import need
from squircuit.errors import DataError, ParameterError, is_whole
from squircuit.models import SquaredCircuit
from squircuit.plots.images import as_floats
from squircuit.plots.style import (
    DENSITY,
    INK,
    VERMILION,
    Range,
    extent,
    figure,
    name_of,
    panels,
    require_model,
    titled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLOCK = 8192
"""Points whose density is computed together."""


def density(model: SquaredCircuit, size: int = 200, data: Any = None) -> Figure:
    """p(x₀, x₁) of a model of two continuous or periodic variables, in the middle of size × size cells.

    Intervals and periods are drawn as a whole. Of variables on a line, the range of the data is drawn, or
    where the model has all but a thousandth of its probability.

    Args:
        model: of two variables, none discrete.
        size: cells along each axis.
        data: rows (n, 2), drawn beside the density; those with NaN are left out. Where the model has a
            ``schema``, also a data frame, a mapping or a `Table`.

    Example:
        >>> import squircuit as sq
        >>> model = sq.SquaredCircuit(sq.build(sq.regions.linear(2), sq.Fourier(5, period=6.0), units=2))
        >>> axes = density(model, size=20).axes[0]
        >>> axes.images[0].get_extent(), axes.images[0].get_array().shape
        ([-3.0, 3.0, -3.0, 3.0], (20, 20))
    """
    require_model(model)
    _require_plane(model)
    _require_size(size)
    points = None if data is None else _points(_numbers(model, data))
    first, second = _extents(model, points)
    fig = figure(4.6 if points is None else 8.2, 3.8)
    axes = panels(fig, 1, 1 if points is None else 2, sharex=True, sharey=True)
    if points is not None:
        _draw_points(axes[0], points)
    _draw_density(axes[-1], _density_on(model, first, second, size), (*first, *second))
    for one in axes:
        one.set(xlabel=name_of(model, 0), xlim=first, ylim=second)
    axes[0].set_ylabel(name_of(model, 1))
    return fig


def _extents(model: SquaredCircuit, points: Tensor | None) -> tuple[Range, Range]:
    found = model.marginals()
    first, second = (
        extent(
            model.structure.domains[v],
            found.nodes[v].cpu(),
            found.masses[v][0].cpu(),
            None if points is None else points[:, v],
        )
        for v in (0, 1)
    )
    return first, second


@torch.no_grad()
def _density_on(model: SquaredCircuit, first: Range, second: Range, size: int) -> Tensor:
    """p in the middle of every cell, x₁ down the rows: (size, size)."""
    middles = (torch.arange(size, dtype=torch.float64) + 0.5) / size
    x, y = (low + (high - low) * middles for low, high in (first, second))
    grid = torch.cartesian_prod(y, x).flip(1).to(model.device)  # (size², 2)
    log_p = torch.cat([model.log_prob(part) for part in torch.split(grid, BLOCK)])
    return log_p.exp().reshape(size, size).cpu()


def _draw_density(axes: Axes, values: Tensor, place: tuple[float, float, float, float]) -> None:
    colours = need("matplotlib.colors", "drawing", "plot").LinearSegmentedColormap.from_list("", DENSITY)
    picture = axes.imshow(
        values.numpy(),
        origin="lower",
        extent=place,
        cmap=colours,
        vmin=0,
        aspect="auto",
        interpolation="nearest",
    )
    bar = axes.figure.colorbar(picture, ax=axes, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=INK, labelsize=8, width=0.8, length=3)
    titled(axes, "density of the model")


def _draw_points(axes: Axes, points: Tensor) -> None:
    """Fainter where there are many."""
    opacity = min(1.0, max(0.2, 1500 / len(points)))
    axes.plot(*points.T.numpy(), ".", color=VERMILION, markersize=3, alpha=opacity, markeredgewidth=0)
    titled(axes, f"data: {len(points)} points")


def _numbers(model: SquaredCircuit, data: Any) -> Any:
    """Rows as the model takes them, NaN where a cell is missing."""
    rows, missing = rows_of(model.schema, data)
    return rows if missing is None else np.where(missing, np.nan, rows)


def _points(data: Any) -> Tensor:
    rows = torch.from_numpy(as_floats("data", data))
    if rows.ndim != 2 or rows.shape[1] != 2:
        raise DataError(f"data: shape {tuple(rows.shape)}. Fix: pass rows (n, 2).")
    known = rows[~rows.isnan().any(dim=1)]
    if not len(known) or bool(known.isinf().any()):
        raise DataError("data: no row without NaN, or infinite values. Fix: pass finite points.")
    return known


def _require_plane(model: SquaredCircuit) -> None:
    domains = model.structure.domains
    if sorted(domains) != [0, 1] or any(domain.is_discrete for domain in domains.values()):
        words = "; ".join(f"{v}: {domain.describe()}" for v, domain in sorted(domains.items())[:4])
        raise ParameterError(
            f"density draws two continuous or periodic variables, the model has {len(domains)} ({words}). "
            "Fix: sq.plots.marginals draws any variables, one by one."
        )


def _require_size(size: object) -> None:
    if not is_whole(size, 2):
        raise ParameterError(f"size={size!r}. Fix: pass an integer ≥ 2, such as 200.")
