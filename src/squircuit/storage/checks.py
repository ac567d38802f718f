"""What may be wrong with a file before its tensors are read."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from squircuit.errors import FormatError
from squircuit.storage.atomic import as_path

PICKLES = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
"""The first bytes of what torch.save writes, now a zip file of pickles and once a pickle."""


def require_file(path: str | PathLike[str]) -> Path:
    """The path of a file that is there and not empty."""
    file = as_path(path)
    if not file.exists():
        raise FormatError(f"{file}: there is no such file. Fix: check the path.")
    if file.is_dir():
        raise FormatError(f"{file}: a folder, not a file. Fix: pass the path of a file in it.")
    if file.stat().st_size == 0:
        raise FormatError(f"{file}: the file is empty. Fix: copy it again from where it came.")
    return file


def refuse_other_formats(file: Path) -> None:
    """Files of torch.save are refused by name: to load a pickle is to run a program."""
    try:
        with file.open("rb") as stream:
            start = stream.read(9)
    except OSError as error:
        raise FormatError(f"{file}: cannot be opened ({error}). Fix: check who may read the file.") from error
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
    if header.get("format") != format or not header.get("version", "").isdecimal():
        raise FormatError(
            f"{file}: safetensors, but not written by {format}. Fix: pass a file of model.save(path); to use "
            "weights of another program, build the circuit and pass them to circuit.with_weights."
        )
    if int(header["version"]) > version:
        raise FormatError(
            f"{file}: version {header['version']} of the format, this release reads up to {version}. "
            f"Fix: install a newer {format}."
        )
    if header.get("kind") != kind:
        raise FormatError(
            f"{file}: of kind {header.get('kind')!r}, not {kind!r}. Fix: pass a file of kind {kind!r}."
        )
    return header
