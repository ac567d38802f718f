"""Pixels as differences from what the pixels before them predict: a bijection, for codes of photographs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from squircuit.errors import DataError, ParameterError, is_whole

Array = NDArray[Any]
NEAR = ((0, 1), (1, 0), (1, 1), (1, -1), (0, 2), (2, 0), (1, 2), (2, 1), (2, -1), (1, -2))
"""Pixels that predict, as rows above and columns to the left."""
FEW = 4
"""How many of them count in other planes."""
LEVELS, MIDDLE = 256, 128
BITS = 12
"""Binary places of weights, which are whole numbers: all machines predict alike."""
MOST_ROWS = 4000
"""Images from which weights are found."""
EVERY = 3
"""One pixel in so many is asked for that."""
ROUNDS = 5
BLOCK = 1000
"""Images that are computed together."""


@final
@dataclass(frozen=True)
class Prediction:
    """Levels of pixels as their differences from a linear prediction, modulo 256, and back.

    A pixel is predicted by ten neighbours that come before it, by the median of three of them and, in colour,
    by the planes before it: green, red − green, blue − green. Differences are small and alike everywhere, so
    that a model of them needs few units. All is done in whole numbers; the map is a bijection of images, so
    p(image) = p(differences), and a code of differences is one of images. But a pixel that is marginalised
    is no difference that is: ask such a model for densities, codes and whole samples.

    Args:
        shape: (H, W) or (H, W, 3).
        weights: of each plane, in 4096ths: one for each thing that predicts, the last is added.

    Example:
        >>> images = np.random.default_rng(0).integers(0, 256, (20, 4 * 4 * 3))
        >>> prediction = Prediction.fit(images, (4, 4, 3))
        >>> differences = prediction.differences(images)
        >>> differences.dtype, bool((prediction.images(differences) == images).all())
        (dtype('uint8'), True)
    """

    shape: tuple[int, ...]
    weights: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        _require_shape(self.shape)
        counts = [1 + len(NEAR) + 1 + c * (1 + FEW) for c in range(self._channels)]
        found = [len(plane) for plane in self.weights]
        if found != counts or not all(is_whole(w) for plane in self.weights for w in plane):
            raise ParameterError(
                f"Prediction: images of shape {self.shape} take {counts} whole numbers for their planes, got "
                f"{found} numbers. Fix: Prediction.fit(images, shape)."
            )

    @classmethod
    def fit(cls, images: Any, shape: tuple[int, ...]) -> Prediction:
        """The weights of least absolute errors on some of the images, (n, d) of 0 to 255."""
        _require_shape(shape)
        channels = 3 if len(shape) == 3 else 1
        none = tuple((0,) * (2 + len(NEAR) + c * (1 + FEW)) for c in range(channels))
        blank = cls(tuple(int(side) for side in shape), none)
        wide = blank._planes(_levels(images, shape)[:MOST_ROWS])
        at = np.arange(shape[0] * shape[1])[::EVERY]
        return cls(
            blank.shape, tuple(_least(blank._causes(wide, c, at), wide[c][:, at]) for c in range(channels))
        )

    def differences(self, images: Any) -> Array:
        """Images (n, d) of 0 to 255 → differences (n, d) of uint8, of which 128 is none."""
        rows = _levels(images, self.shape)
        return _joined(rows, (self._differences(block) for block in _blocks(rows)))

    def images(self, differences: Any) -> Array:
        """The inverse: differences (n, d) → images (n, d) of uint8."""
        rows = _levels(differences, self.shape)
        return _joined(rows, (self._images(block) for block in _blocks(rows)))

    @property
    def _channels(self) -> int:
        return 3 if len(self.shape) == 3 else 1

    @cached_property
    def _places(self) -> Array:
        """Where the neighbours of each pixel are, (10, H·W): nearer at a border; H·W: there is none."""
        height, width = self.shape[:2]
        found = np.full((len(NEAR), height, width), height * width)
        for k, (up, left) in enumerate(NEAR):
            for i, j in np.ndindex(height, width):
                above, column = max(0, i - up), min(width - 1, max(0, j - left))
                if above == i and column >= j:
                    above, column = (i - 1, j) if i else (i, j - 1)
                if above >= 0 <= column:
                    found[k, i, j] = above * width + column
        return found.reshape(len(NEAR), -1)

    def _planes(self, rows: Array) -> list[Array]:
        """The planes of images, (n, H·W + 1) each: the last column stands for what is outside."""
        x = rows.reshape(len(rows), -1, self._channels).astype(np.int64)
        planes = [x[..., 0]]
        if self._channels == 3:
            red, green, blue = np.moveaxis(x, -1, 0)
            planes = [green, (red - green + MIDDLE) % LEVELS, (blue - green + MIDDLE) % LEVELS]
        return [np.pad(plane, ((0, 0), (0, 1)), constant_values=MIDDLE) for plane in planes]

    def _causes(self, wide: list[Array], channel: int, at: Any) -> list[Array]:
        """What predicts a plane at some places: its neighbours, their median, and the planes before it."""
        own = [wide[channel][:, place[at]] for place in self._places]
        found = [*own, _median(*own[:3])]
        for other in wide[:channel]:
            found += [other[:, at], *(other[:, place[at]] for place in self._places[:FEW])]
        return found

    def _predicted(self, wide: list[Array], channel: int, at: Any) -> Array:
        *weights, constant = self.weights[channel]
        total = np.asarray(constant + (1 << BITS >> 1))
        for weight, cause in zip(weights, self._causes(wide, channel, at), strict=True):
            total = total + weight * cause
        return (total >> BITS).clip(0, LEVELS - 1)

    def _differences(self, rows: Array) -> Array:
        wide, at = self._planes(rows), np.arange(self._places.shape[1])
        found = [
            (plane[:, at] - self._predicted(wide, c, at) + MIDDLE) % LEVELS for c, plane in enumerate(wide)
        ]
        return np.stack(found, axis=-1)

    def _images(self, rows: Array) -> Array:
        given = rows.reshape(len(rows), -1, self._channels).astype(np.int64) - MIDDLE
        wide = [np.full((len(rows), given.shape[1] + 1), MIDDLE) for _ in range(self._channels)]
        for at in range(given.shape[1]):
            for c, plane in enumerate(wide):
                plane[:, at] = (given[:, at, c] + self._predicted(wide, c, at)) % LEVELS
        planes = [plane[:, :-1] for plane in wide]
        if self._channels == 3:
            green, red, blue = planes
            planes = [(red - MIDDLE + green) % LEVELS, green, (blue - MIDDLE + green) % LEVELS]
        return np.stack(planes, axis=-1)


def _median(left: Array, above: Array, corner: Array) -> Array:
    """The median of left, above, and left + above − corner."""
    low, high = np.minimum(left, above), np.maximum(left, above)
    return (left + above - corner).clip(low, high)


def _least(causes: list[Array], plane: Array) -> tuple[int, ...]:
    """Weights of least absolute errors, by squares that are weighed anew in each round."""
    x = np.stack([cause.ravel() for cause in (*causes, np.ones_like(plane))], axis=1).astype(np.float64)
    y, share = plane.ravel().astype(np.float64), np.ones(plane.size)
    found: Array = np.zeros(x.shape[1])
    for _ in range(ROUNDS):
        scaled = x * share[:, None]
        found = np.linalg.solve(scaled.T @ x + 1e-3 * np.eye(x.shape[1]), scaled.T @ y)
        share = 1 / (np.abs(x @ found - y) + 1)
    return tuple(int(w) for w in np.rint(found * (1 << BITS)))


def _blocks(rows: Array) -> Iterator[Array]:
    return (rows[start : start + BLOCK] for start in range(0, len(rows), BLOCK))


def _joined(rows: Array, parts: Iterator[Array]) -> Array:
    found = [part.reshape(len(part), -1).astype(np.uint8) for part in parts]
    return np.concatenate(found) if found else np.zeros(rows.shape, np.uint8)


def _levels(images: Any, shape: tuple[int, ...]) -> Array:
    """Rows (n, d) of whole numbers from 0 to 255."""
    rows = np.asarray(images)
    d = int(np.prod(shape))
    is_fitting = rows.ndim > 0 and rows.dtype.kind in "iu" and rows.size == len(rows) * d
    if not is_fitting or (rows.size and (rows.min() < 0 or rows.max() >= LEVELS)):
        raise DataError(
            f"images: an array {rows.shape} of {rows.dtype} has no rows of {d} whole numbers from 0 to 255. "
            f"Fix: pass images of shape {shape}, flattened or not."
        )
    return rows.reshape(len(rows), d)


def _require_shape(shape: Any) -> None:
    is_shape = isinstance(shape, tuple | list) and all(is_whole(side, 1) for side in shape)
    if not is_shape or len(shape) not in (2, 3) or (len(shape) == 3 and shape[2] != 3):
        raise ParameterError(f"Prediction: shape {shape!r}. Fix: pass (height, width) or (height, width, 3).")
