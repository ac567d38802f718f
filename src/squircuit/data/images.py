"""Folders of images. Pillow is optional: ``pip install 'squircuit[data]'``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from squircuit.data.cells import as_cells
from squircuit.data.optional import need
from squircuit.data.schema import Chunk
from squircuit.data.sources import Source
from squircuit.errors import DataError

SUFFIXES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"})
GREY = frozenset({"1", "L", "LA"})
CHUNK = 1024
"""Images that are in memory at once."""
MOST = 2**18
"""Values of an image: no model is as wide as a photograph."""


@final
class ImageSource(Source):
    """The images in a folder and its sub-folders, by name; of equal size, all grey or all in colour.

    A row is an image row by row, its levels 0 to 255; of a colour image red, green and blue of the first
    pixel, of the second, and so on. Transparency is ignored.
    """

    named = False
    wish = "count:0:255"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pillow = need("PIL.Image", "reading folders of images")
        self.files = sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES)
        if not self.files:
            raise DataError(
                f"{path}: no images in this folder. Fix: pass one with files {', '.join(sorted(SUFFIXES))}."
            )
        self.shape = self._levels(self.files[0]).shape
        if np.prod(self.shape) > MOST:
            raise DataError(
                f"{self.files[0]}: an image of shape {self.shape} has {np.prod(self.shape):,} values, each a "
                f"column; {MOST:,} are the most. Fix: make all images smaller, such as 32×32."
            )
        self.names = tuple(f"pixel{i}" for i in range(int(np.prod(self.shape))))

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        chosen = self.positions(names)
        for start in range(0, len(self.files), CHUNK):
            files = self.files[start : start + CHUNK]
            rows = np.stack([self._row(file) for file in files])[:, chosen]
            yield Chunk(tuple(names), tuple(as_cells(column) for column in rows.T), _place(files))

    def _row(self, file: Path) -> NDArray[np.uint8]:
        levels = self._levels(file)
        if levels.shape != self.shape:
            raise DataError(
                f"{file}: an image of shape {levels.shape}, but {self.files[0].name} has {self.shape}. "
                "Fix: make all images of one size, all grey or all in colour."
            )
        return levels.reshape(-1)

    def _levels(self, file: Path) -> NDArray[np.uint8]:
        """(height, width) or (height, width, 3)."""
        try:
            with self._pillow.open(file) as image:
                converted: Any = image.convert("L" if image.mode in GREY else "RGB")
                return np.asarray(converted, dtype=np.uint8)
        except (OSError, ValueError, SyntaxError) as error:
            raise DataError(f"{file}: not an image that Pillow reads ({error}). Fix: remove it.") from error


def _place(files: Sequence[Path]) -> Any:
    return lambda row: str(files[row])
