"""What happened in training, drawn."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from squircuit.errors import ParameterError
from squircuit.plots.style import BLUE, FAINT, GREEN, INK, VERMILION, figure, panels
from squircuit.training import History
from squircuit.training.history import in_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def curves(history: History) -> Figure:
    """The losses of training and validation by epoch, the epoch whose weights the model has, log Z below.

    Args:
        history: of :func:`squircuit.fit`. Where there was no validation, there is no curve of it.

    Example:
        >>> from squircuit.training import Epoch
        >>> rows = [Epoch(e, 10 * e, 3.0 / e, 3.1 / e, 1e-7, True, 0.1, float(e)) for e in (1, 2, 3)]
        >>> losses, log_z = curves(History(rows, "nats", best_epoch=3, stopped="finished")).axes
        >>> [line.get_label() for line in losses.lines][:2]
        ['training', 'validation']
    """
    _require_history(history)
    fig = figure(6, 3.8)
    losses, log_z = panels(fig, 2, 1, sharex=True, height_ratios=[3, 1])
    _draw_losses(losses, history)
    _draw_log_z(log_z, history)
    return fig


def _draw_losses(axes: Axes, history: History) -> None:
    epochs = [row.epoch for row in history.rows]
    _line(axes, epochs, [row.train for row in history.rows], BLUE, "training", "--")
    _line(axes, epochs, [row.valid for row in history.rows], VERMILION, "validation", "-")
    _mark_best(axes, history)
    axes.set_ylabel(f"loss, {in_words(history.unit)}")
    axes.legend(frameon=False, fontsize=8, labelcolor=INK)


def _mark_best(axes: Axes, history: History) -> None:
    """A vertical line and a dot at the epoch that was kept; none if it is that before training."""
    best = history.best
    if best is None:
        return
    loss = best.train if best.valid is None else best.valid
    axes.axvline(best.epoch, color=FAINT, linewidth=1, zorder=0)
    axes.plot(
        [best.epoch], [loss], "o", color=INK, markersize=5, label=f"kept: epoch {best.epoch}, {loss:.4g}"
    )


def _draw_log_z(axes: Axes, history: History) -> None:
    axes.axhline(0, color=FAINT, linewidth=1, zorder=0)
    _line(axes, [row.epoch for row in history.rows], [row.log_z for row in history.rows], GREEN, "log Z", "-")
    axes.set(xlabel="epoch", ylabel="log Z")
    axes.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3))
    axes.yaxis.get_offset_text().set(color=INK, fontsize=8)
    axes.locator_params(axis="x", integer=True)


def _line(
    axes: Axes, epochs: list[int], values: Iterable[float | None], colour: str, label: str, style: str
) -> None:
    """A line through what is known and finite, with dots while there are few; none without any."""
    known = [(e, v) for e, v in zip(epochs, values, strict=True) if v is not None and math.isfinite(v)]
    if known:
        marker = "." if len(known) <= 20 else ""
        x, y = zip(*known, strict=True)
        axes.plot(x, y, linestyle=style, marker=marker, color=colour, linewidth=1.5, label=label)


def _require_history(history: object) -> None:
    if not isinstance(history, History):
        raise ParameterError(f"curves draws a History, got {history!r}. Fix: pass what sq.fit returns.")
    if not history.rows:
        raise ParameterError("the history has no epochs. Fix: train for at least one epoch.")
