"""Tensors and a JSON document in one safetensors file, written in one step. No pickle."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from squircuit.errors import FormatError

PLANES = ":planes"
"""Ends the name of a complex tensor, kept as pairs of reals."""


class Stored(NamedTuple):
    """What a file holds."""

    tensors: dict[str, Tensor]
    document: dict[str, Any]


def write(path: str | Path, tensors: Mapping[str, Tensor], document: Mapping[str, Any], kind: str) -> None:
    """Write a file of this kind: it is there as a whole or not at all."""
    path = Path(path)
    held = dict(_plain(name, value) for name, value in tensors.items())
    metadata = {"squircuit": kind, "document": json.dumps(document)}
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    try:
        save_file(held, name, metadata)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read(path: str | Path, kind: str) -> Stored:
    """What `write` wrote; FormatError for damaged files and those of another kind."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("squircuit") != kind:
                raise FormatError(f"{path}: not a {kind} of squircuit. Fix: pass the path of one.")
            tensors = dict(_complex(name, file.get_tensor(name)) for name in file.keys())  # noqa: SIM118
            return Stored(tensors, json.loads(metadata["document"]))
    except (SafetensorError, OSError, KeyError, json.JSONDecodeError) as error:
        raise FormatError(f"{path}: cannot be read ({error}). Fix: pass a whole file.") from error


def _plain(name: str, value: Tensor) -> tuple[str, Tensor]:
    value = value.detach().cpu()
    if value.is_complex():
        return name + PLANES, torch.view_as_real(value.resolve_conj()).contiguous().clone()
    return name, value.contiguous().clone()


def _complex(name: str, value: Tensor) -> tuple[str, Tensor]:
    if name.endswith(PLANES):
        return name.removesuffix(PLANES), torch.view_as_complex(value)
    return name, value
