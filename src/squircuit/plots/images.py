"""Images in a grid, and images beside their completions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from squircuit.errors import DataError, ParameterError, is_whole
from squircuit.plots.style import ORANGE, dress, figure, framed, titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[Any]
CELL = 0.75
"""Inches of an image with its margin."""
COLOURS = 3
"""Channels of an image in colour."""


def images(rows: Any, shape: Sequence[int], columns: int = 8, levels: int | None = None) -> Figure:
    """Images in a grid. One channel is drawn dark on white (0 is white), three are red, green and blue.

    Args:
        rows: (n, d); means of levels are welcome, and NaN, which is drawn in orange.
        shape: (H, W), or (H, W, C) with C of 1 or 3.
        columns: images in a line.
        levels: of a pixel, 0 to levels − 1; default: the largest value drawn is black.

    Example:
        >>> fig = images([[0, 1, 2, 3], [3, 2, 1, 0]], shape=(2, 2), levels=4)
        >>> len(fig.axes)
        2
        >>> images([[0, 1, 2]], shape=(2, 2))
        Traceback (most recent call last):
        squircuit.errors.DataError: rows: shape (1, 3), but images of shape (2, 2) have 4 pixels. Fix: ...
    """
    values = _rows("rows", rows, shape)
    _require_count("columns", columns)
    drawn = _pixels(values, shape, _levels(levels, [("rows", values)]))
    width = min(columns, len(drawn))
    grid = _grid(math.ceil(len(drawn) / width), width, shape)
    for axes, image in zip(grid, drawn, strict=False):
        _show(axes, image, _is_colour(shape))
    for axes in grid[len(drawn) :]:
        axes.remove()
    return grid[0].get_figure(root=True)  # type: ignore[return-value]


def completions(
    originals: Any, missing: Any, completed: Any, shape: Sequence[int], levels: int | None = None
) -> Figure:
    """A line for each image: the original, what was seen of it, and its completions.

    What was missing is orange, which no grey can be; among pixels in colour it is hatched.

    Args:
        originals: (n, d); NaN where nobody knows.
        missing: booleans (n, d) or (d,), True where the model did not see the pixel.
        completed: (m, n, d), as ``model.sample(m, given=originals, missing=missing)`` gives it.
        shape, levels: as for :func:`images`.

    Example:
        >>> fig = completions([[0, 1, 2, 3]], [False, False, True, True], [[[0, 1, 3, 3]]], (2, 2))
        >>> [axes.get_title() for axes in fig.axes]
        ['original', 'seen', 'completed']
    """
    values = _rows("originals", originals, shape)
    hidden = _mask(missing, values.shape)
    filled = _completed(completed, values.shape)
    black = _levels(levels, [("originals", values), *((f"completed[{i}]", f) for i, f in enumerate(filled))])
    seen = np.where(hidden, np.nan, values)
    sources = [_pixels(source, shape, black) for source in (values, seen, *filled)]
    grid = _grid(len(values), len(sources), shape)
    for axes, image in zip(grid, (source[i] for i in range(len(values)) for source in sources), strict=True):
        _show(axes, image, _is_colour(shape))
    for axes, title in zip(grid, ("original", "seen", "completed"), strict=False):
        titled(axes, title, size=8)
    return grid[0].get_figure(root=True)  # type: ignore[return-value]


def _grid(rows: int, columns: int, shape: Sequence[int]) -> list[Axes]:
    """Framed axes in a grid; images keep their proportions."""
    height = CELL * min(max(shape[0] / shape[1], 0.25), 4.0)
    fig = figure(CELL * columns + 0.1, height * rows + 0.25)
    axes = fig.subplots(rows, columns, squeeze=False)
    return [framed(dress(one)) for one in np.ravel(axes)]


def _show(axes: Axes, image: Array, is_colour: bool) -> None:
    """(H, W, 4), transparent where the value is not known; the ground below is the colour of the unknown."""
    axes.set_facecolor(ORANGE)
    if is_colour:
        axes.patch.set(hatch="////", edgecolor="white", linewidth=0)
    axes.imshow(image, interpolation="nearest")


def _is_colour(shape: Sequence[int]) -> bool:
    return len(shape) == 3 and shape[2] == COLOURS


def _pixels(values: Array, shape: Sequence[int], levels: int) -> Array:
    """Red, green, blue and opacity in [0, 1]: (n, d) → (n, H, W, 4)."""
    shares = values.reshape(len(values), *shape[:2], -1) / (levels - 1)  # (n, H, W, C)
    colours = shares if _is_colour(shape) else np.repeat(1 - shares, 3, axis=-1)
    known = ~np.isnan(colours).any(axis=-1, keepdims=True)
    return np.concatenate([np.where(known, colours, 0.0), known], axis=-1)


def _rows(name: str, rows: Any, shape: Sequence[int]) -> Array:
    """Checked rows of pixels, (n, d) floats."""
    _require_shape(shape)
    values, size = as_floats(name, rows), math.prod(shape)
    if values.ndim != 2 or values.shape[1] != size or not len(values):
        raise DataError(
            f"{name}: shape {values.shape}, but images of shape {tuple(shape)} have {size} pixels. "
            f"Fix: pass (n, {size}) with n ≥ 1."
        )
    return values


def _mask(missing: Any, shape: tuple[int, ...]) -> Array:
    mask = np.asarray(_plain(missing))
    if mask.dtype != bool or mask.shape not in (shape, shape[1:]):
        raise DataError(
            f"missing: {mask.dtype} of shape {mask.shape}. Fix: pass booleans of shape {shape} or "
            f"{shape[1:]}."
        )
    return np.broadcast_to(mask, shape)


def _completed(completed: Any, shape: tuple[int, ...]) -> Array:
    filled = as_floats("completed", completed)
    if filled.ndim != 3 or filled.shape[1:] != shape or not len(filled):
        raise DataError(
            f"completed: shape {filled.shape}. Fix: pass (m, {shape[0]}, {shape[1]}) with m ≥ 1, as "
            "model.sample(m, given=originals, missing=missing) gives it."
        )
    return filled


def _levels(levels: int | None, sources: list[tuple[str, Array]]) -> int:
    """The number of levels, none of the values beyond them."""
    if levels is None:
        largest = max((float(np.nanmax(v)) for _, v in sources if not np.isnan(v).all()), default=1.0)
        levels = max(math.ceil(largest) + 1, 2) if math.isfinite(largest) else 2
    elif not is_whole(levels, 2):
        raise ParameterError(f"levels={levels!r}. Fix: pass an integer ≥ 2, such as 256.")
    for name, values in sources:
        _require_levels(name, values, levels)
    return levels


def _require_levels(name: str, values: Array, levels: int) -> None:
    wrong = np.argwhere((values < 0) | (values > levels - 1))
    if len(wrong):
        row, pixel = wrong[0]
        raise DataError(
            f"{name}, row {row}, pixel {pixel}: {values[row, pixel]:g} is not a level from 0 to "
            f"{levels - 1}. Fix: scale the values, or pass the number of levels."
        )


def as_floats(name: str, values: Any) -> Array:
    """Numbers as floats of NumPy, from lists, arrays and tensors of any device."""
    try:
        return np.asarray(_plain(values), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name}: no array of numbers ({error}). Fix: pass a tensor or an array.") from error


def _plain(values: Any) -> Any:
    return values.detach().cpu().numpy() if hasattr(values, "detach") else values


def _require_shape(shape: object) -> None:
    sides = tuple(shape) if isinstance(shape, Sequence) else ()
    whole = all(isinstance(side, int) and side >= 1 for side in sides)
    if not (whole and (len(sides) == 2 or (len(sides) == 3 and sides[2] in (1, COLOURS)))):
        raise ParameterError(
            f"shape={shape!r}. Fix: pass (height, width), or (height, width, channels) with 1 or 3 channels."
        )


def _require_count(name: str, value: object) -> None:
    if not is_whole(value, 1):
        raise ParameterError(f"{name}={value!r}. Fix: pass an integer ≥ 1.")
