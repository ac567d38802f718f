"""CIFAR-10: the archive of its binary version, and pixels in the lossless colours YCoCg-R."""

from __future__ import annotations

import io
import tarfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squircuit.data.download import RemoteFile
from squircuit.errors import DataError
from squircuit.storage.words import one_line

Array = NDArray[Any]

SHAPE = (32, 32, 3)
ARCHIVE = RemoteFile(
    "cifar10/cifar-10-binary.tar.gz",
    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
    is_archive=True,
)
"""Of the page of its authors, which gives the MD5 c32a1d4ab5d03f1284b67883e8d87530 of this file."""
TRAIN = tuple(f"cifar-10-batches-bin/data_batch_{number}.bin" for number in range(1, 6))
TEST = ("cifar-10-batches-bin/test_batch.bin",)
MIDDLE = 255
"""What is added to the colours of YCoCg-R, which are −255 to 255."""
YCOCG = (256, 511, 511)
"""The levels of Y, Co and Cg."""


def parse_cifar10(archive: bytes) -> tuple[Array, Array, Array, Array]:
    """Images of training, their labels, images of the test, their labels: (n, 3072) and (n,) of uint8.

    A record of the files is a label and the red, green and blue plane; a row has the three levels of the
    first pixel, of the second, and so on.
    """
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
            train, test = (b"".join(_content(tar, name) for name in names) for names in (TRAIN, TEST))
    except (OSError, EOFError, KeyError, tarfile.TarError) as error:
        raise DataError(
            f"{ARCHIVE.path}: not the archive of CIFAR-10 ({one_line(error)}). Fix: fetch the file again."
        ) from error
    return *_parsed(train), *_parsed(test)


def _content(tar: tarfile.TarFile, name: str) -> bytes:
    stream = tar.extractfile(name)
    if stream is None:
        raise KeyError(f"{name} is no file")
    return stream.read()


def _parsed(records: bytes) -> tuple[Array, Array]:
    height, width, channels = SHAPE
    size = 1 + height * width * channels
    if not records or len(records) % size:
        raise DataError(
            f"{ARCHIVE.path}: {len(records)} bytes are no records of {size}. Fix: fetch the file again."
        )
    table = np.frombuffer(records, dtype=np.uint8).reshape(-1, size)
    planes = table[:, 1:].reshape(-1, channels, height * width)
    return np.ascontiguousarray(planes.swapaxes(1, 2)).reshape(len(table), -1), table[:, 0].copy()


def to_ycocg(rgb: Any) -> Array:
    """Levels of red, green and blue as those of YCoCg-R: (…, 3k) of 0 to 255 → (…, 3k) of int16.

    Of a pixel Co = R − B, t = B + ⌊Co / 2⌋, Cg = G − t and Y = t + ⌊Cg / 2⌋. Y has 256 levels; to Co and Cg
    255 is added, so that they have 511. Each pixel has numbers of its own, so that their density is that of
    the pixel, and bits per dimension are bits per level of red, green or blue. (YCoCg in floats, rounded, is
    not this: it loses colours, and its bits compare with nothing.)

    Example:
        >>> to_ycocg([[255, 255, 255, 0, 0, 255]])
        array([[255, 255, 255,  63,   0, 128]], dtype=int16)
    """
    red, green, blue = np.moveaxis(_pixels(rgb), -1, 0)
    co = red - blue
    t = blue + (co >> 1)
    cg = green - t
    found = np.stack([t + (cg >> 1), co + MIDDLE, cg + MIDDLE], axis=-1)
    return found.reshape(np.shape(rgb)).astype(np.int16)


def from_ycocg(levels: Any) -> Array:
    """The inverse of :func:`to_ycocg`: (…, 3k) → (…, 3k) of 0 to 255.

    Not all numbers are those of a pixel; a sample of a model that comes from none is brought into the range.

    Example:
        >>> from_ycocg(to_ycocg([[12, 200, 7]]))
        array([[ 12, 200,   7]], dtype=uint8)
    """
    y, co, cg = np.moveaxis(_pixels(levels), -1, 0)
    co, cg = co - MIDDLE, cg - MIDDLE
    t = y - (cg >> 1)
    blue = t - (co >> 1)
    found = np.stack([blue + co, cg + t, blue], axis=-1)
    return found.clip(0, 255).reshape(np.shape(levels)).astype(np.uint8)


def _pixels(levels: Any) -> Array:
    """(…, 3k) → (…, k, 3) of int32."""
    table = np.asarray(levels)
    if table.ndim < 1 or table.shape[-1] % 3 or table.dtype.kind not in "iu":
        raise DataError(
            f"colours: an array {table.shape} of {table.dtype} has no three whole numbers a pixel. "
            "Fix: pass rows of (H, W, 3) images, flattened or not."
        )
    return table.reshape(*table.shape[:-1], -1, 3).astype(np.int32)
