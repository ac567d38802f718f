"""Writing a file so that nobody ever sees half of it, not even after a crash."""

from __future__ import annotations

import glob
import os
import re
import secrets
from contextlib import suppress
from os import PathLike
from pathlib import Path

from squircuit.errors import FormatError, ParameterError
from squircuit.storage.locks import is_locked_by_us
from squircuit.storage.words import one_line

LONGEST = 200
"""Bytes of a name that a temporary one keeps, and that an error shows of a path."""
POSIX = os.name == "posix"
LEFT = re.compile(r"\.[0-9a-f]{8}\.tmp$")


def replace(path: str | PathLike[str], content: bytes) -> None:
    """The content as a file: written under a temporary name in the same folder, brought to disk, renamed."""
    file = as_path(path)
    temporary = _temporary(file)
    try:
        _require_replaceable(file)
        with temporary.open("xb") as stream:
            is_locked_by_us(stream.fileno())  # so that `sweep` knows it from what a killed process has left
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
            if POSIX:
                os.replace(temporary, file)  # while it is locked; elsewhere an open file has no other name
        if not POSIX:
            os.replace(temporary, file)
        _bring_to_disk(file.parent)
    except (OSError, ValueError) as error:  # ValueError: a null byte or half a character in the name
        if isinstance(error, FormatError):
            raise
        raise cannot(file, error) from error
    finally:
        _delete(temporary)  # Ctrl-C, too; nothing is left where it has been renamed


def require_writable(path: str | PathLike[str]) -> None:
    """Refuse, before any work is done, a name under which no file can be written: an empty one is tried."""
    file = as_path(path)
    temporary = _temporary(file)
    try:
        with suppress(FileNotFoundError):
            file.lstat()  # a name that is too long is found here
        temporary.open("xb").close()
    except (OSError, ValueError) as error:
        raise cannot(file, error) from error
    finally:
        _delete(temporary)


def sweep(path: str | PathLike[str]) -> None:
    """Delete the temporary files of this file that killed processes have left; those being written stay."""
    file = as_path(path)
    for left in file.parent.glob(f"{glob.escape(_stem(file))}.????????.tmp"):
        if LEFT.search(left.name):
            with suppress(OSError), left.open("rb+") as stream:
                if is_locked_by_us(stream.fileno()) is True:
                    left.unlink()


def _temporary(file: Path) -> Path:
    return file.with_name(f"{_stem(file)}.{secrets.token_hex(4)}.tmp")


def _stem(file: Path) -> str:
    """The stem of a temporary name, which must not be too long where that of the file is not."""
    return "." + file.name.encode(errors="surrogateescape")[:LONGEST].decode(errors="ignore")


def cannot(file: Path, error: OSError | ValueError) -> FormatError:
    """The error of a file that cannot be written there."""
    name = str(file) if len(str(file)) <= LONGEST else f"{str(file)[:LONGEST]}…"
    return FormatError(
        f"{name}: cannot be written ({getattr(error, 'strerror', None) or one_line(error)}). "
        "Fix: pass a file in a folder that exists, that you may write to, and that has room."
    )


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
    """Refuse a device as the target: to rename a file onto it would remove it."""
    if file.is_dir():
        raise FormatError(f"{file}: a folder is there. Fix: pass the name of a file.")
    if file.exists() and not file.is_file():
        raise FormatError(f"{file}: a pipe or device is there. Fix: pass the name of a file.")


def _bring_to_disk(folder: Path) -> None:
    """The new name of the file; only POSIX can open folders."""
    if not POSIX:
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
