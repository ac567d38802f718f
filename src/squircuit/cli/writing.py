"""Pictures and drawings that commands write, and where files may be written."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from squircuit import plots
from squircuit.cli import colours
from squircuit.cli.reading import STANDARD, is_image
from squircuit.errors import FormatError, ParameterError
from squircuit.families.domain import Finite
from squircuit.models import SquaredCircuit
from squircuit.storage.atomic import as_path, replace, require_writable, sweep

PICTURES = (".png", ".pdf", ".svg")


def require_place(path: Path | None, endings: Sequence[str] = (), read: Sequence[str | Path] = ()) -> None:
    """Refuse, before any work is done, a file that cannot be written or is of no known kind.

    Args:
        path: of the file; None or "-": standard output.
        endings: that its name may have.
        read: files that the command reads, and which it must not replace.
    """
    if path is None or str(path) == STANDARD:
        return
    file = as_path(path)
    if endings and file.suffix.lower() not in endings:
        raise ParameterError(
            f"{file}: not a kind of file for this. Fix: a name ending in {', '.join(endings)}."
        )
    if os.path.isdir(file) or not os.path.isdir(file.parent):  # of over-long names false, not an error
        reason = "a folder is there" if os.path.isdir(file) else f"there is no folder {file.parent}"
        raise FormatError(f"{file}: cannot be written, {reason}. Fix: pass a file in a folder that exists.")
    for other in (other for other in read if str(other) != STANDARD):
        if os.path.exists(file) and os.path.exists(other) and os.path.samefile(file, other):
            raise ParameterError(f"--out {file}: this file is read, and would be lost. Fix: another name.")
    require_writable(file)
    sweep(file)


def is_picture(path: Path | None) -> bool:
    return path is not None and path.suffix.lower() in PICTURES


def require_images(model: SquaredCircuit, wish: str, fix: str) -> None:
    """Refuse what only models of images can do."""
    if not is_image(model):
        raise ParameterError(f"{wish}: the model is not of images. Fix: {fix}.")


def write_figure(path: Path, figure: Any) -> None:
    """A figure of matplotlib as a picture."""
    content = io.BytesIO()
    figure.savefig(content, format=path.suffix.lower().removeprefix("."), dpi=150, bbox_inches="tight")
    replace(path, content.getvalue())


def write_images(path: Path, model: SquaredCircuit, rows: Tensor) -> None:
    """Images in a grid."""
    assert model.shape is not None  # commands have asked `require_images`
    write_figure(path, plots.images(colours.drawn(model, rows), model.shape, levels=_levels(model)))


def write_completions(
    path: Path, model: SquaredCircuit, originals: Tensor, missing: Tensor, completed: Tensor
) -> None:
    """Originals (n, d), what is missing of them (n, d), and completions (m, n, d)."""
    assert model.shape is not None
    known, filled = (colours.drawn(model, value) for value in (originals, completed))
    gaps = missing.cpu().numpy()
    write_figure(path, plots.completions(known, gaps, filled, model.shape, levels=_levels(model)))


def _levels(model: SquaredCircuit) -> int | None:
    """The number of levels of a pixel; None where it is not discrete."""
    if colours.is_ycocg(model):
        return 256
    sizes = [domain.size for domain in model.structure.domains.values() if isinstance(domain, Finite)]
    return max(sizes, default=None)
