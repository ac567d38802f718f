"""`squircuit complete`: fill in missing cells of tables, and masked pixels of images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from squircuit.cli.machine import chosen_device, require_room
from squircuit.cli.masks import image_mask
from squircuit.cli.reading import is_image, open_model, read_rows, schema_of
from squircuit.cli.report import Report
from squircuit.cli.score import require_mass
from squircuit.cli.writing import (
    PICTURES,
    as_csv,
    decoded,
    is_picture,
    require_images,
    require_place,
    write_completions,
    write_rows,
)
from squircuit.data import Rows
from squircuit.errors import DataError, ParameterError
from squircuit.inference.imputation import HOW
from squircuit.models import SquaredCircuit
from squircuit.progress import shown

IMAGES = 8
"""Images that are completed unless told otherwise."""


def complete(
    *,
    model: Path,
    data: str,
    mask: str | None,
    rows: int | None,
    method: str,
    count: int,
    out: Path | None,
    safe: bool,
    part: str,
    seed: int,
    device: str,
    quiet: bool,
    as_json: bool,
) -> None:
    """The work of the command `complete`, see :mod:`squircuit.cli.commands`."""
    report = Report(as_json)
    require_place(out, (".csv", ".npy", *PICTURES), read=(model, data))
    _require_method(method, count)
    opened = open_model(model, chosen_device(device))
    if mask is not None:
        require_images(opened, f"--mask {mask}", "leave the cells to be filled empty")
    if is_picture(out):
        require_images(opened, str(out), "--out FILE.csv")
    found = read_rows(opened, data, part)
    found = found.take(slice(IMAGES if rows is None and is_image(opened) else rows))
    masked = _masked(opened, found, mask, data, seed)
    require_room(count, *masked.x.shape)
    require_mass(opened)
    with shown("filling", not quiet):
        filled = _filled(opened, masked, method, count, seed)  # (m, n, d)
    flat = filled.transpose(0, 1).flatten(0, 1)
    exact = _unrounded(opened, masked.missing, method).repeat_interleave(count, dim=0)
    names, values, cells = schema_of(opened).names, decoded(opened, flat, exact), int(masked.missing.sum())
    if out is not None and is_picture(out):
        write_completions(out, opened, found.x, masked.missing, filled)
    elif out is not None:
        write_rows(out, opened, values, safe)
    report.say(f"filled {cells} cells\nsaved  {out}" if out else as_csv(names, values, safe).rstrip("\n"))
    report.end({"columns": list(names), "rows": values, "filled": cells, "saved": out and str(out)})


def _require_method(method: str, count: int) -> None:
    if method not in HOW:
        raise ParameterError(f"--method {method}: not known. Fix: one of {', '.join(HOW)}.")
    if count != 1 and method != "sample":
        raise ParameterError(f"--count {count}: there is one {method} only. Fix: --method sample.")


def _masked(
    model: SquaredCircuit, rows: Rows[Tensor], mask: str | None, data: str, seed: int
) -> Rows[Tensor]:
    missing = rows.missing
    if mask is not None:
        missing = missing | image_mask(mask, model.shape or (), len(rows.x), seed)
    if not bool(missing.any()):
        fix = (
            "pass a mask, such as --mask left"
            if is_image(model)
            else "leave cells empty that are to be filled"
        )
        raise DataError(f"{data}: nothing is missing. Fix: {fix}.")
    return Rows(rows.x, missing)


def _unrounded(model: SquaredCircuit, missing: Tensor, method: str) -> Tensor:
    """Cells that are not rounded: those that are known, and means, except of whole numbers: (n, d)."""
    is_fine = torch.tensor([column.step < 1 for column in schema_of(model).columns])
    return ~missing | is_fine if method == "mean" else ~missing


@torch.no_grad()
def _filled(model: SquaredCircuit, rows: Rows[Tensor], method: Any, count: int, seed: int) -> Tensor:
    """Completions: (m, n, d)."""
    if method == "sample":
        return model.sample(count, given=rows.x, missing=rows.missing, seed=seed)
    return model.impute(rows.x, rows.missing, how=method)[None]
