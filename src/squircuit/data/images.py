"""Folders of images. Pillow is optional: ``pip install 'squircuit[data]'``."""

from __future__ import annotations

import math
import struct
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, final

import numpy as np
from numpy.typing import NDArray

from squircuit.data.cells import columns_of
from squircuit.data.optional import need
from squircuit.data.reading import Source, readable
from squircuit.data.schema import Chunk
from squircuit.errors import DataError
from squircuit.storage.checks import require_readable
from squircuit.storage.words import path_text

SUFFIXES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"})
GREY = frozenset({"1", "L", "LA"})
CHUNK = 1024
"""Images that are in memory at once."""
SIGNATURE = 8
"""Bytes of a PNG file before its first chunk."""
PIECE = 2**20
"""Bytes of a chunk that are in memory at once."""
MOST = 2**17
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
        with readable(path, "a folder of images", "check who may read it"):
            found = [file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES]
            self.files = sorted(file for file in found if not file.is_dir())
        if not self.files:
            raise DataError(
                f"{path}: no images in this folder. Fix: pass one with files {', '.join(sorted(SUFFIXES))}."
            )
        self.shape = self._levels(self.files[0]).shape
        self.names = tuple(f"pixel{i}" for i in range(int(np.prod(self.shape))))

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        chosen = self.positions(names)
        for start in range(0, len(self.files), CHUNK):
            files = self.files[start : start + CHUNK]
            rows = np.stack([self._row(file) for file in files])[:, chosen]
            yield Chunk(tuple(names), columns_of(rows), _place(files))

    def _row(self, file: Path) -> NDArray[np.uint8]:
        levels = self._levels(file)
        if levels.shape != self.shape:
            raise DataError(
                f"{path_text(file)}: an image of shape {levels.shape}, "
                f"but {path_text(Path(self.files[0].name))} has {self.shape}. "
                "Fix: make all images of one size, all grey or all in colour."
            )
        return levels.reshape(-1)

    def _levels(self, file: Path) -> NDArray[np.uint8]:
        """(height, width) or (height, width, 3)."""
        require_readable(file, DataError)
        return levels_of(self._pillow, lambda: file.open("rb"), file)


def levels_of(pillow: Any, opened: Callable[[], IO[bytes]], name: Path) -> NDArray[np.uint8]:
    """The levels of an image, (height, width) or (height, width, 3).

    Args:
        pillow: PIL.Image.
        opened: the file of the image, from its begin.
        name: of it, for errors.
    """
    with readable(name, "an image", "remove it or save it again"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of large images, which are refused here before they are decoded
        with opened() as stream, pillow.open(stream) as image:
            _require_small(name, image)
            if image.format == "PNG":
                with opened() as again:
                    _require_checksums(again)
            converted: Any = image.convert("L" if image.mode in GREY else "RGB")
            return np.asarray(converted, dtype=np.uint8)


def _require_small(file: Path, image: Any) -> None:
    """Refuse by its header an image that is too large, or has levels that a byte does not hold."""
    shape = (image.height, image.width) + (() if image.mode in GREY else (3,))
    if math.prod(shape) > MOST:
        raise DataError(
            f"{path_text(file)}: an image of shape {shape} has {math.prod(shape):,} values, "
            f"each a column; {MOST:,} are the most. Fix: make all images smaller, such as 32×32."
        )
    if image.mode == "F" or image.mode.startswith("I"):
        raise DataError(
            f"{path_text(file)}: levels of more than 8 bits ({image.mode}). "
            "Fix: save images with levels 0 to 255."
        )


def _place(files: Sequence[Path]) -> Any:
    return lambda row: path_text(files[row])


def _require_checksums(stream: IO[bytes]) -> None:
    """Raise a ValueError unless every chunk of a PNG file is there and has its checksum, up to its end.

    Pillow passes over the checksums: an image that was cut off or damaged would be read with other pixels,
    and nobody would know.
    """
    stream.seek(SIGNATURE)
    name = b""
    while name != b"IEND":
        size, name = struct.unpack(">I4s", _exactly(stream, 8))
        checksum = zlib.crc32(name)
        for start in range(0, size, PIECE):
            checksum = zlib.crc32(_exactly(stream, min(PIECE, size - start)), checksum)
        if _exactly(stream, 4) != struct.pack(">I", checksum):
            raise ValueError(f"a wrong checksum in its part {name!r}")


def _exactly(stream: IO[bytes], count: int) -> bytes:
    found = stream.read(count)
    if len(found) < count:
        raise ValueError("it is cut off")
    return found
