"""Files of tensors and a JSON document: what is written is read again exactly, or refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from squircuit.errors import FormatError, ParameterError
from squircuit.storage.atomic import replace
from squircuit.storage.checks import refuse_other_formats, require_file, require_header
from squircuit.storage.encoding import decoded, digest, encoded

FORMAT, VERSION = "squircuit", 1


class Stored(NamedTuple):
    """What a file holds."""

    tensors: dict[str, Tensor]
    document: dict[str, Any]


def write(
    path: str | PathLike[str], tensors: Mapping[str, Tensor], document: Mapping[str, Any], kind: str
) -> None:
    """Write tensors and a document to one file, which is there completely or not at all.

    A temporary file in the same folder is written, brought to disk and renamed, so that a crash or a full
    disk leaves the old file as it was. The file is safetensors; complex tensors are pairs of reals in it.

    Args:
        path: of the file, which is replaced if it is there.
        tensors: of any shape, dtype and device, by name.
        document: JSON data.
        kind: what the file is, such as "model" or "checkpoint"; `read` asks for it.

    Raises:
        FormatError: if the file cannot be written there.
        ParameterError: if something is no tensor, or the document no JSON data.

    Example:
        >>> import tempfile, torch
        >>> file = Path(tempfile.mkdtemp()) / "numbers.safetensors"
        >>> write(file, {"z": torch.tensor([1 + 2j])}, {"why": "an example"}, kind="example")
        >>> read(file, kind="example")
        Stored(tensors={'z': tensor([1.+2.j])}, document={'why': 'an example'})
        >>> read(file, kind="model")
        Traceback (most recent call last):
        squircuit.errors.FormatError: ...numbers.safetensors: ...kind 'example', not 'model'. Fix: ...
    """
    text = _json(document)
    plain, complex_names = encoded(tensors)
    notes = {"complex": json.dumps(complex_names), "document": text, "kind": kind}
    header = {"format": FORMAT, "version": str(VERSION), **notes, "sha256": digest(notes, plain)}
    replace(path, save(plain, header))


def read(path: str | PathLike[str], kind: str) -> Stored:
    """What `write` wrote, on the CPU, bit by bit as it was.

    Raises:
        FormatError: that names the file, what is wrong and the fix: no such file, damaged, of another
            program, of another kind, of a newer version.
    """
    file = require_file(path)
    refuse_other_formats(file)
    try:
        with safe_open(str(file), framework="pt") as content:
            header = require_header(file, content.metadata(), FORMAT, VERSION, kind)
            plain = {name: content.get_tensor(name).clone() for name in content.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, UnicodeError) as error:
        raise _damaged(file, str(error)) from error
    notes = {name: header.get(name, "") for name in ("complex", "document", "kind")}
    if header.get("sha256") != digest(notes, plain):
        raise _damaged(file, "its content does not match its SHA-256")
    try:
        return Stored(decoded(plain, json.loads(notes["complex"])), dict(json.loads(notes["document"])))
    except (TypeError, ValueError, RuntimeError) as error:  # a checksum that is right, of nonsense
        raise _damaged(file, str(error)) from error


def _json(document: Mapping[str, Any]) -> str:
    if not isinstance(document, Mapping):
        raise ParameterError(f"the document must be a mapping, got {document!r}. Fix: pass a dict.")
    try:
        return json.dumps(dict(document))
    except (TypeError, ValueError, RecursionError) as error:
        raise ParameterError(
            f"the document is no JSON data ({error}). Fix: use texts, numbers, lists and dicts of them."
        ) from error


def _damaged(file: Path, reason: str) -> FormatError:
    return FormatError(
        f"{file}: truncated, damaged or no safetensors file ({reason}). "
        "Fix: pass a file of model.save(path); if this is one, copy or save it again."
    )
