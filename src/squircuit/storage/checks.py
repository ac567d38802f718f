"""What may be wrong with a file before its tensors are read."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from squircuit.errors import FormatError, SquircuitError, Wording
from squircuit.storage.atomic import as_path
from squircuit.storage.words import one_line, path_text, printable

PICKLES = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
"""The first bytes of what torch.save writes, now a zip file of pickles and once a pickle."""
A_FILE = "pass a file of " + Wording("model.save(path)", "squircuit fit --out")
"""What to do where a file is none of ours."""
OF_OTHERS = "; to use weights of another program, build the circuit and pass them to circuit.with_weights"
DIGITS = 9
"""The most digits that the number of a version has."""


def status(file: Path, error: type[SquircuitError] = FormatError, expected: str = "file") -> os.stat_result:
    """What the system knows of a path; one clear error where nothing is there or nobody may look."""
    try:
        return file.stat()
    except (FileNotFoundError, NotADirectoryError) as missing:
        raise error(f"{path_text(file)}: there is no such {expected}. Fix: check the path.") from missing
    except (OSError, ValueError) as wrong:  # forbidden, too long, links in a circle, a null byte in the name
        raise error(
            f"{path_text(file)}: cannot be opened ({_reason(wrong)}). Fix: check the path."
        ) from wrong


def require_readable(file: Path, error: type[SquircuitError] = FormatError) -> None:
    """Refuse what is no ordinary file with content that may be read; to open a pipe would wait for ever."""
    found = status(file, error)
    if stat.S_ISDIR(found.st_mode):
        raise error(f"{path_text(file)}: a folder, not a file. Fix: pass the path of a file in it.")
    if not stat.S_ISREG(found.st_mode):
        raise error(
            f"{path_text(file)}: a pipe or device, not a file. "
            "Fix: write its content to a file and pass that."
        )
    if found.st_size == 0:
        raise error(f"{path_text(file)}: the file is empty. Fix: pass a file with data, or copy it again.")
    try:
        file.open("rb").close()
    except OSError as wrong:
        raise error(
            f"{path_text(file)}: cannot be opened ({_reason(wrong)}). Fix: check who may read the file."
        ) from wrong


def require_file(path: str | PathLike[str]) -> Path:
    """The path of a file that is there, can be read and is not empty."""
    file = as_path(path)
    require_readable(file)
    return file


def refuse_other_formats(file: Path) -> None:
    """Files of torch.save are refused by name: to load a pickle is to run a program."""
    try:
        with file.open("rb") as stream:
            start = stream.read(9)
    except OSError as error:
        raise FormatError(
            f"{file}: cannot be opened ({_reason(error)}). Fix: check who may read the file."
        ) from error
    is_safetensors = start[8:9] == b"{"  # a length of 8 bytes could begin like a pickle
    if start.startswith(PICKLES) and not is_safetensors:
        raise FormatError(
            f"{file}: a pickle, as torch.save writes it, which is not opened because it can run any program. "
            "Fix: save the model with model.save(path)."
        )


def require_header(
    file: Path, found: Mapping[str, str] | None, format: str, version: int, kind: str
) -> Mapping[str, str]:
    """The metadata of a file of this format, of this or an older version, and of this kind."""
    header = found or {}
    number = header.get("version", "")
    if header.get("format") != format or not (number.isascii() and number.isdecimal()):
        raise FormatError(
            f"safetensors, but not written by {format}",
            where=str(file),
            fix=A_FILE + Wording(OF_OTHERS, ""),
        )
    if len(number) > DIGITS or int(number) > version:
        raise FormatError(
            f"{file}: version {number[: DIGITS + 1]} of the format, this release reads up to {version}. "
            f"Fix: install a newer {format}."
        )
    if header.get("kind") != kind:
        raise FormatError(
            f"{file}: of kind {printable(header.get('kind'), 40)!r}, not {kind!r}. "
            f"Fix: pass a file of kind {kind!r}."
        )
    return header


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or one_line(error)
