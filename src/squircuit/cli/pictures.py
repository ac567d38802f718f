"""A folder of PNG files, one an image, that is there completely or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from torch import Tensor

from squircuit.cli import colours
from squircuit.cli.reading import schema_of
from squircuit.data.optional import need
from squircuit.errors import FormatError, ParameterError
from squircuit.models import SquaredCircuit
from squircuit.storage.atomic import as_path, cannot

CHANNELS = (1, 3)
LONGEST = 255


def require_new_folder(path: Path) -> None:
    """Refuse a folder that has something in it, or that cannot be made."""
    folder = as_path(path)
    try:
        if folder.is_dir() and not any(folder.iterdir()):
            return
        taken = folder.exists() or folder.is_symlink()
    except (OSError, ValueError) as error:
        raise cannot(folder, error) from error
    if taken:
        raise FormatError(f"{folder}: there is something already. Fix: name a new folder, or an empty one.")
    if not folder.parent.is_dir():
        raise FormatError(
            f"{folder}: cannot be made, there is no folder {folder.parent}. Fix: pass a place that exists."
        )


def folder_of_pictures(folder: Path, model: SquaredCircuit, rows: Tensor, names: Any) -> None:
    """Images as PNG files in a new folder, with these names where they are good ones.

    Args:
        folder: is made.
        model: of images, which says their shape and levels.
        rows: (n, d) of states.
        names: relative paths, whose endings become .png; None: numbers.
    """
    pillow = need("PIL.Image", "writing PNG files")
    images = _levels(model, rows)
    temporary = folder.with_name(f".{folder.name[:100]}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.mkdir()
        for image, name in zip(images, _names(names, len(images)), strict=True):
            file = temporary / name
            file.parent.mkdir(parents=True, exist_ok=True)
            pillow.fromarray(image).save(file, format="PNG")
        with suppress(FileNotFoundError):
            folder.rmdir()  # an empty one
        os.replace(temporary, folder)
    except (OSError, ValueError) as error:
        raise cannot(folder, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)  # Ctrl-C, too; renamed it is not there


def _levels(model: SquaredCircuit, rows: Tensor) -> np.ndarray:
    """(n, H, W) or (n, H, W, 3) of bytes."""
    columns = schema_of(model).columns
    shape = model.shape or ()
    if colours.is_ycocg(model):
        return colours.drawn(model, rows).reshape(len(rows), *shape)
    is_grey = len(shape) == 2 or shape[2:] == (1,)
    if any(c.kind != "count" or c.low + c.size > 256 for c in columns) or not (is_grey or shape[2:] == (3,)):
        raise ParameterError(
            f"images of shape {shape} with such levels are no PNG files. Fix: --out FILE.npy."
        )
    values = rows.numpy() + np.array([column.low for column in columns], dtype=np.int64)
    return values.astype(np.uint8).reshape(len(rows), *(shape[:2] if is_grey else shape))


def _names(wished: Any, count: int) -> Sequence[str]:
    """Relative paths that end in .png, all different."""
    numbers = usual_names(count)
    if not isinstance(wished, list) or len(wished) != count or not all(map(_is_good, wished)):
        return numbers
    found = [PurePosixPath(name).with_suffix(".png").as_posix() for name in wished]
    return found if len({name.casefold() for name in found}) == count else numbers


def usual_names(count: int) -> list[str]:
    """The names of images that have no others.

    Example:
        >>> usual_names(2)
        ['000000.png', '000001.png']
    """
    digits = max(6, len(str(count)))
    return [f"{number:0{digits}}.png" for number in range(count)]


def _is_good(name: object) -> bool:
    """A path that stays below its folder, whatever a file says.

    Example:
        >>> _is_good("cats/1.jpg"), _is_good("../1.png"), _is_good("/etc/x"), _is_good("a\\0b")
        (True, False, False, False)
    """
    if not isinstance(name, str) or not name.isprintable() or "\\\\" in name or ":" in name:
        return False
    parts = PurePosixPath(name).parts
    return bool(parts) and not name.startswith("/") and all(p != ".." and len(p) < LONGEST for p in parts)
