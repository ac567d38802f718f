"""Picture files have red, green and blue; a model of YCoCg-R has other levels of the same pixels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from squircuit.data import Rows, from_ycocg, to_ycocg
from squircuit.data.cifar import YCOCG
from squircuit.data.images import ImageSource
from squircuit.data.reading import Source
from squircuit.families.domain import Finite
from squircuit.models import SquaredCircuit


def is_ycocg(model: SquaredCircuit) -> bool:
    """The model is of images whose pixels have the levels of YCoCg-R, which those of no other images are."""
    domains = model.structure.domains
    sizes = [d.size if isinstance(d, Finite) else 0 for d in (domains.get(v) for v in range(len(YCOCG)))]
    return model.shape is not None and tuple(model.shape[2:]) == (3,) and tuple(sizes) == YCOCG


def read_by(model: SquaredCircuit, source: Source, rows: Rows[Tensor]) -> Rows[Tensor]:
    """Rows of a file in the colours of the model."""
    if not isinstance(source, ImageSource) or not is_ycocg(model):
        return rows
    return replace(rows, x=torch.from_numpy(to_ycocg(rows.x.numpy()).astype(np.int64)))


def drawn(model: SquaredCircuit, levels: Tensor | NDArray[Any]) -> NDArray[Any]:
    """Rows of the model, (…, d), as they are drawn and written to pictures."""
    values = levels.cpu().numpy() if isinstance(levels, Tensor) else levels
    return from_ycocg(values.astype(np.int64)) if is_ycocg(model) else values
