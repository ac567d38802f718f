"""Writing a file so that nobody ever sees half of it, not even after a crash."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from os import PathLike
from pathlib import Path

from squircuit.errors import FormatError, ParameterError


def replace(path: str | PathLike[str], content: bytes) -> None:
    """The content as a file: written under a temporary name in the same folder, brought to disk, renamed."""
    file = as_path(path)
    if file.is_dir():
        raise FormatError(f"{file}: a folder is there. Fix: pass the name of a file.")
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, file)
        _bring_to_disk(file.parent)
    except OSError as error:
        raise FormatError(
            f"{file}: cannot be written ({error.strerror or error}). "
            "Fix: pass a file in a folder that exists, that you may write to, and that has room."
        ) from error
    finally:
        _delete(temporary)  # Ctrl-C, too; nothing is left where it has been renamed


def as_path(path: str | PathLike[str]) -> Path:
    """The path; one clear error for anything else."""
    if not isinstance(path, str | PathLike) or not Path(path).name:
        raise ParameterError(f"path={path!r} names no file. Fix: pass one such as 'model.safetensors'.")
    return Path(path)


def _bring_to_disk(folder: Path) -> None:
    """The new name of the file; only POSIX can open folders."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _delete(temporary: Path) -> None:
    with suppress(OSError):  # the folder may not be there, which has been said
        temporary.unlink()
