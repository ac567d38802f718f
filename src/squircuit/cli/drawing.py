"""Pictures of images, drawn by :mod:`squircuit.plots`."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from squircuit import plots
from squircuit.cli.writing import write_figure
from squircuit.families.domain import Finite
from squircuit.models import SquaredCircuit


def write_images(path: Path, model: SquaredCircuit, rows: Tensor) -> None:
    """Images in a grid."""
    assert model.shape is not None  # commands have asked `require_images`
    write_figure(path, plots.images(rows.cpu().numpy(), model.shape, levels=levels(model)))


def write_completions(
    path: Path, model: SquaredCircuit, originals: Tensor, missing: Tensor, completed: Tensor
) -> None:
    """Originals (n, d), what is missing of them (n, d), and completions (m, n, d)."""
    assert model.shape is not None
    known, gaps, filled = (value.cpu().numpy() for value in (originals, missing, completed))
    write_figure(path, plots.completions(known, gaps, filled, model.shape, levels=levels(model)))


def levels(model: SquaredCircuit) -> int | None:
    """Of a pixel; None where it is not discrete."""
    sizes = [domain.size for domain in model.structure.domains.values() if isinstance(domain, Finite)]
    return max(sizes, default=None)
