"""`squircuit sample`: exact samples, also given some of the columns."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from squircuit.cli.machine import chosen_device, require_room
from squircuit.cli.reading import open_model, read_rows, schema_of
from squircuit.cli.report import Report
from squircuit.cli.score import require_mass
from squircuit.cli.writing import (
    PICTURES,
    as_csv,
    decoded,
    is_picture,
    require_images,
    require_place,
    write_images,
    write_rows,
)
from squircuit.data import Rows
from squircuit.models import SquaredCircuit
from squircuit.progress import shown


def sample(
    *,
    model: Path,
    count: int,
    given: str | None,
    out: Path | None,
    safe: bool,
    seed: int,
    device: str,
    quiet: bool,
    as_json: bool,
) -> None:
    """The work of the command `sample`, see :mod:`squircuit.cli.commands`."""
    report = Report(as_json)
    require_place(out, (".csv", ".npy", *PICTURES))
    opened = open_model(model, chosen_device(device))
    if is_picture(out):
        require_images(opened, str(out), "--out FILE.csv")
    rows = None if given is None else read_rows(opened, given)
    require_room(count, 1 if rows is None else len(rows.x), opened.structure.num_variables)
    require_mass(opened)
    with shown("drawing", not quiet):
        drawn = _drawn(opened, count, rows, seed)
    exact = None if rows is None else ~rows.missing.repeat_interleave(count, dim=0)
    names, cells = schema_of(opened).names, decoded(opened, drawn, exact)
    if out is not None and is_picture(out):
        write_images(out, opened, drawn)
    elif out is not None:
        write_rows(out, opened, cells, safe)
    report.say(f"saved  {out}" if out else as_csv(names, cells, safe).rstrip("\n"))
    report.end({"columns": list(names), "rows": cells, "saved": out and str(out)})


@torch.no_grad()
def _drawn(model: SquaredCircuit, count: int, rows: Rows[Tensor] | None, seed: int) -> Tensor:
    """(n, d); with evidence the samples of its first row, then of its second, …"""
    if rows is None:
        return model.sample(count, seed=seed)
    drawn = model.sample(count, given=rows.x, missing=rows.missing, seed=seed)  # (n, m, d)
    return drawn.transpose(0, 1).flatten(0, 1)
