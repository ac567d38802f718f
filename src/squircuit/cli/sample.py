"""`squircuit sample`: exact samples, also given some of the columns."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from squircuit.cli.classes import of_class
from squircuit.cli.machine import chosen_device, require_room
from squircuit.cli.reading import form_of, given_rows, open_model, schema_of
from squircuit.cli.report import Report
from squircuit.cli.score import require_mass
from squircuit.cli.tables import TABLES, decoded, is_standard, write_decoded
from squircuit.cli.writing import PICTURES, is_picture, require_images, require_place, write_images
from squircuit.data import Rows
from squircuit.models import SquaredCircuit
from squircuit.progress import shown


def sample(
    *,
    model: Path,
    count: int,
    given: str | None,
    class_: str | None,
    out: Path | None,
    safe: bool,
    header: bool | None,
    delimiter: str | None,
    encoding: str | None,
    seed: int,
    device: str,
    quiet: bool,
    as_json: bool,
) -> None:
    """The work of the command `sample`, see :mod:`squircuit.cli.commands`."""
    report = Report(as_json)
    form = form_of(header, delimiter, encoding)
    require_place(out, (*TABLES, *PICTURES), read=() if given is None else (given,))
    opened = of_class(open_model(model, chosen_device(device)), class_)
    if is_picture(out):
        require_images(opened, str(out), "--out FILE.csv")
    rows = None if given is None else given_rows(opened, given, form)
    require_room(count, 1 if rows is None else len(rows.x), opened.structure.num_variables)
    require_mass(opened)
    with shown("drawing", not quiet):
        drawn = _drawn(opened, count, rows, seed)
    exact = None if rows is None else ~rows.missing.repeat_interleave(count, dim=0)
    names, cells = schema_of(opened).table_names, decoded(opened, drawn, exact)
    if out is not None and is_picture(out):
        write_images(out, opened, drawn)
    elif not (as_json and is_standard(out)):
        write_decoded(out, opened, cells, form, safe)
    if not is_standard(out):
        report.say(f"saved  {out}")
    report.end({"columns": list(names), "rows": cells, "saved": None if is_standard(out) else str(out)})


@torch.no_grad()
def _drawn(model: SquaredCircuit, count: int, rows: Rows[Tensor] | None, seed: int) -> Tensor:
    """(n, d); with evidence the samples of its first row, then of its second, …"""
    if rows is None:
        return model.sample(count, seed=seed)
    drawn = model.sample(count, given=rows.x, missing=rows.missing, seed=seed)  # (n, m, d)
    return drawn.transpose(0, 1).flatten(0, 1)
