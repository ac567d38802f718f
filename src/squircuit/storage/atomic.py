"""Writing a file so that nobody ever sees half of it, not even after a crash."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from os import PathLike
from pathlib import Path

from squircuit.errors import FormatError, ParameterError
from squircuit.storage.words import one_line

KEPT = 128
"""Bytes of the file's name in that of the temporary one, which is not to be too long where ours is not."""


def replace(path: str | PathLike[str], content: bytes) -> None:
    """The content as a file: written under a temporary name in the same folder, brought to disk, renamed."""
    file = as_path(path)
    temporary: Path | None = None
    try:
        _require_replaceable(file)
        temporary = file.with_name(
            f".{file.name.encode()[:KEPT].decode(errors='ignore')}.{secrets.token_hex(4)}.tmp"
        )
        with temporary.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, file)
        _bring_to_disk(file.parent)
    except (OSError, ValueError) as error:  # ValueError: a null byte or half a character in the name
        if isinstance(error, FormatError):
            raise
        raise FormatError(
            f"{file}: cannot be written ({getattr(error, 'strerror', None) or one_line(error)}). "
            "Fix: pass a file in a folder that exists, that you may write to, and that has room."
        ) from error
    finally:
        _delete(temporary)  # Ctrl-C, too; nothing is left where it has been renamed


def as_path(path: str | PathLike[str]) -> Path:
    """The path; one clear error for anything else."""
    try:
        file = Path(path)
    except TypeError:  # no path at all, or one of bytes
        file = Path()
    if not file.name:
        raise ParameterError(f"path={path!r} names no file. Fix: pass one such as 'model.safetensors'.")
    return file


def _require_replaceable(file: Path) -> None:
    """To rename a file onto a device would remove the device."""
    if file.is_dir():
        raise FormatError(f"{file}: a folder is there. Fix: pass the name of a file.")
    if file.exists() and not file.is_file():
        raise FormatError(f"{file}: a pipe or device is there. Fix: pass the name of a file.")


def _bring_to_disk(folder: Path) -> None:
    """The new name of the file; only POSIX can open folders."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _delete(temporary: Path | None) -> None:
    if temporary is not None:
        with suppress(OSError, ValueError):  # the folder may not be there, which has been said
            temporary.unlink()
