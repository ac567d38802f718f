"""Which cells are missing, by words: columns of a table, parts of an image."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from squircuit.cli.reading import is_image, schema_of
from squircuit.errors import ParameterError, suggestion
from squircuit.models import SquaredCircuit

PARTS = ("left", "right", "top", "bottom", "center")


def image_mask(text: str, shape: tuple[int, ...], rows: int, seed: int = 0) -> Tensor:
    """Missing pixels of images, True = missing: (n, d).

    Args:
        text: left, right, top, bottom, center (a quarter of the image), or random:P, each pixel with
            probability P.
        shape: (H, W) or (H, W, C).
        rows: n.
        seed: of the random mask.

    Example:
        >>> image_mask("left", (2, 4), 1).view(2, 4).int()
        tensor([[1, 1, 0, 0],
                [1, 1, 0, 0]], dtype=torch.int32)
    """
    height, width = shape[:2]
    if text.startswith("random:"):
        generator = torch.Generator().manual_seed(seed)
        pixels = torch.rand(rows, height, width, generator=generator) < _probability(text)
    elif text in PARTS:
        pixels = torch.zeros(rows, height, width, dtype=torch.bool)
        pixels[(slice(None), *_slices(text, height, width))] = True
    else:
        raise ParameterError(f"mask {text!r} is not known. Fix: one of {', '.join(PARTS)} or random:0.5.")
    channels = shape[2] if len(shape) > 2 else 1
    return pixels[..., None].expand(-1, -1, -1, channels).reshape(rows, -1)


def named_mask(model: SquaredCircuit, texts: Sequence[str], rows: int, seed: int = 0) -> Tensor:
    """What is missing in all rows: columns by name, also several with commas, or parts of images: (n, d)."""
    schema = schema_of(model)
    names = dict.fromkeys([*schema.table_names, *schema.names])
    missing = torch.zeros(rows, len(schema.names), dtype=torch.bool)
    words = [word for text in texts for word in ([text] if text in names else text.split(","))]
    for text in words:
        if text in names:
            missing[:, schema.variables(text)] = True
        elif is_image(model):
            missing |= image_mask(text, model.shape or (), rows, seed)
        else:
            near = suggestion(text, list(names), all_known=False)
            raise ParameterError(f"--missing {text}: no such column. Fix: {near}")
    return missing


def _slices(text: str, height: int, width: int) -> tuple[slice, slice]:
    h, w, all_ = height // 2, width // 2, slice(None)
    return {
        "left": (all_, slice(w)),
        "right": (all_, slice(w, None)),
        "top": (slice(h), all_),
        "bottom": (slice(h, None), all_),
        "center": (slice(height // 4, height - height // 4), slice(width // 4, width - width // 4)),
    }[text]


def _probability(text: str) -> float:
    try:
        share = float(text.removeprefix("random:"))
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise ParameterError(f"mask {text!r}: no probability. Fix: random:P with P from 0 to 1.")
    return share
