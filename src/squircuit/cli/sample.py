"""`squircuit sample`: exact samples, also given some of the columns."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import Tensor

from squircuit.cli.arguments import (
    Delimiter,
    Device,
    Encoding,
    Header,
    Json,
    ModelFile,
    Safe,
    Seed,
    chosen_device,
    form_of,
    require_room,
)
from squircuit.cli.reading import open_model, read_rows, schema_of
from squircuit.cli.report import Report
from squircuit.cli.score import require_mass
from squircuit.cli.tables import TABLES, decoded, is_standard, write_decoded
from squircuit.cli.writing import PICTURES, is_picture, require_images, require_place, write_images
from squircuit.data import Rows
from squircuit.models import SquaredCircuit


def sample(
    model: ModelFile,
    count: Annotated[
        int, typer.Option("-n", "--count", min=0, help="Samples; with --given for each of its rows.")
    ] = 64,
    given: Annotated[str | None, typer.Option(help="File of rows whose empty cells are to be drawn.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="File: .csv, .parquet, .feather, .npy, or .png for images.")
    ] = None,
    safe: Safe = False,
    header: Header = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Exact samples, in the words of the data; without --out as CSV on standard output.

    Numbers have the resolution of the data, such as two decimals; those of --given stay as they are.
    --delimiter, --no-header and --encoding are of --given and of what is written as CSV.

    Examples:

    - squircuit sample people.safetensors -n 100 --out people-like.csv
    - squircuit sample people.safetensors -n 5 --given half-known.csv
    - squircuit sample mnist.safetensors -n 64 --seed 1 --out samples.png
    """
    report = Report(as_json)
    form = form_of(header, delimiter, encoding)
    require_place(out, (*TABLES, *PICTURES), read=() if given is None else (given,))
    opened = open_model(model, chosen_device(device))
    if is_picture(out):
        require_images(opened, str(out), "--out FILE.csv")
    rows = None if given is None else read_rows(opened, given, form=form)
    require_room(count, 1 if rows is None else len(rows.x), opened.structure.num_variables)
    require_mass(opened)
    drawn = _drawn(opened, count, rows, seed)
    exact = None if rows is None else ~rows.missing.repeat_interleave(count, dim=0)
    names, cells = schema_of(opened).names, decoded(opened, drawn, exact)
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
