"""What determines the probabilities to the last bit: the decoder has to find those of the encoder.

Sums of floats depend on their order, and that on the processor, the release of torch and how many rows are
computed together; not on threads, for a block of rows has one. A file says all of that. But what decides are
the checksums of the rows of each block: where they differ, the error says what else does.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from squircuit.compression.container import DIGEST
from squircuit.errors import printable
from squircuit.models import SquaredCircuit
from squircuit.models.weights import LOGITS

REVISION = 2
"""Of the arithmetic of this folder and of :mod:`squircuit.inference.chain`; one more when it changes."""


def arithmetic(device: torch.device) -> dict[str, Any]:
    """What the probabilities depend on here, as JSON data."""
    if device.type == "cuda":
        place = torch.cuda.get_device_name(device)
    else:
        place = f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
    return {
        "torch": str(torch.__version__),
        "constriction": _release("constriction"),
        "device": f"{device.type} {place}",
        "revision": REVISION,
    }


def _release(package: str) -> str:
    """Its version; packages that were copied without their metadata have none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def difference(written: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """In which of these two kinds of arithmetic differ, in words.

    Example:
        >>> difference({"torch": "2.12", "revision": 1}, {"torch": "2.13", "revision": 1})
        'torch 2.12 there, 2.13 here'
    """
    found = [
        f"{name} {printable(written.get(name), 60)} there, {value} here"
        for name, value in here.items()
        if written.get(name) != value
    ]
    return "; ".join(found) or "torch and processor say the same of themselves"


def fingerprint(model: SquaredCircuit) -> str:
    """A hash of the structure of a model, its weights, and what its states stand for."""
    digest = hashlib.sha256(model.structure.to_json().encode())
    values = dict(model.weights())
    if model.structure.root_weights is not None:
        values[model.structure.parameter_name(model.structure.root_weights)] = model.held(LOGITS)
    for name, value in sorted(values.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        reals = torch.view_as_real(value.resolve_conj()) if value.is_complex() else value
        digest.update(reals.detach().cpu().contiguous().numpy().tobytes())
    if model.schema is not None:
        columns = [
            (c.name, c.kind, c.size, c.categories, c.low) for c in model.schema.columns if c.is_discrete
        ]
        digest.update(repr(columns).encode())
    return digest.hexdigest()[: 2 * DIGEST]
