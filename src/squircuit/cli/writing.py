"""Files that commands write: rows, pictures, drawings. Each is there as a whole or not at all."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from squircuit import plots
from squircuit.cli.reading import is_image, schema_of
from squircuit.data.cells import is_formula
from squircuit.errors import DataError, FormatError, ParameterError
from squircuit.families.domain import Finite
from squircuit.models import SquaredCircuit
from squircuit.storage.atomic import as_path, replace, require_writable, sweep

PICTURES = (".png", ".pdf", ".svg")


def require_place(path: Path | None, endings: Sequence[str] = (), read: Sequence[str | Path] = ()) -> None:
    """Refuse, before any work is done, a file that cannot be written or is of no known kind.

    Args:
        path: of the file.
        endings: that its name may have.
        read: files that the command reads, and which it must not replace.
    """
    if path is None:
        return
    file = as_path(path)
    if endings and file.suffix.lower() not in endings:
        raise ParameterError(
            f"{file}: not a kind of file for this. Fix: a name ending in {', '.join(endings)}."
        )
    if os.path.isdir(file) or not os.path.isdir(file.parent):  # of over-long names false, not an error
        reason = "a folder is there" if os.path.isdir(file) else f"there is no folder {file.parent}"
        raise FormatError(f"{file}: cannot be written, {reason}. Fix: pass a file in a folder that exists.")
    for other in read:
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
    write_figure(path, plots.images(rows.cpu().numpy(), model.shape, levels=_levels(model)))


def write_completions(
    path: Path, model: SquaredCircuit, originals: Tensor, missing: Tensor, completed: Tensor
) -> None:
    """Originals (n, d), what is missing of them (n, d), and completions (m, n, d)."""
    assert model.shape is not None
    known, gaps, filled = (value.cpu().numpy() for value in (originals, missing, completed))
    write_figure(path, plots.completions(known, gaps, filled, model.shape, levels=_levels(model)))


def _levels(model: SquaredCircuit) -> int | None:
    """Of a pixel; None where it is not discrete."""
    sizes = [domain.size for domain in model.structure.domains.values() if isinstance(domain, Finite)]
    return max(sizes, default=None)


def write_rows(path: Path, model: SquaredCircuit, rows: Sequence[Sequence[Any]], safe: bool = False) -> None:
    """Rows of a model in the words of its data, see `decoded`, as CSV or NumPy file."""
    if path.suffix.lower() == ".npy":
        write_array(path, _as_array(model, rows))
    else:
        replace(path, as_csv(schema_of(model).names, rows, safe).encode())


def write_array(path: Path, array: np.ndarray) -> None:
    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    replace(path, content.getvalue())


def decoded(model: SquaredCircuit, rows: Tensor, exact: Tensor | None = None) -> list[list[Any]]:
    """Rows of a model in the words of its data; ``exact``: cells that were observed, and are not rounded."""
    return schema_of(model).decode(rows.cpu(), exact=None if exact is None else exact.cpu())


def as_csv(names: Sequence[str], rows: Sequence[Sequence[Any]], safe: bool = False) -> str:
    """Comma-separated lines; None is an empty cell.

    Args:
        names: of the columns.
        rows: of cells.
        safe: put ' before texts that a spreadsheet would take for a formula. Numbers stay as they are.

    Example:
        >>> print(as_csv(["sex", "height"], [["f", 1.5], ["m", None]]), end="")
        sex,height
        f,1.5
        m,
    """
    stream = io.StringIO()
    cells = ([_harmless(cell) for cell in row] for row in [names, *rows]) if safe else [names, *rows]
    csv.writer(_Lines(stream)).writerows(cells)
    return stream.getvalue()


class _Lines:
    """Ends lines as on Unix; the writer must think of both characters, or it leaves one unquoted in texts."""

    def __init__(self, stream: io.StringIO) -> None:
        self._stream = stream

    def write(self, line: str) -> None:
        self._stream.write(line.removesuffix("\r\n") + "\n")


def _harmless(cell: Any) -> Any:
    """
    >>> [_harmless(cell) for cell in ("=1+1", "a=1", "-2", -2.0, None)]
    ["'=1+1", 'a=1', "'-2", -2.0, None]
    """
    return f"'{cell}" if is_formula(cell) else cell


def _as_array(model: SquaredCircuit, rows: Sequence[Sequence[Any]]) -> np.ndarray:
    """Numbers, images in their shape: (n, d) or (n, H, W)."""
    for column in schema_of(model).columns:
        if column.is_text:
            raise DataError(
                f"column {column.name!r} holds texts, which a .npy file does not. Fix: --out FILE.csv."
            )
    values = np.asarray(rows)
    return values.reshape(len(values), *(model.shape or values.shape[1:]))
