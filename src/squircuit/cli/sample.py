"""`squircuit sample`: exact samples, also given some of the columns."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import Tensor

from squircuit.cli.arguments import Device, Json, ModelFile, Seed, chosen_device
from squircuit.cli.drawing import write_images
from squircuit.cli.reading import open_model, read_rows, schema_of
from squircuit.cli.report import Report
from squircuit.cli.writing import (
    PICTURES,
    as_csv,
    decoded,
    is_picture,
    require_images,
    require_place,
    write_rows,
)
from squircuit.models import SquaredCircuit


def sample(
    model: ModelFile,
    count: Annotated[
        int, typer.Option("-n", "--count", help="Samples; with --given for each of its rows.")
    ] = 64,
    given: Annotated[str | None, typer.Option(help="File of rows whose empty cells are to be drawn.")] = None,
    out: Annotated[Path | None, typer.Option(help="File: .csv, .npy, or .png for images.")] = None,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Exact samples, in the words of the data; without --out as CSV on standard output.

    Examples:

    - squircuit sample people.safetensors -n 100 --out people-like.csv
    - squircuit sample people.safetensors -n 5 --given half-known.csv
    - squircuit sample mnist.safetensors -n 64 --seed 1 --out samples.png
    """
    report = Report(as_json)
    require_place(out, (".csv", ".npy", *PICTURES))
    opened = open_model(model, chosen_device(device))
    if is_picture(out):
        require_images(opened, str(out), "--out FILE.csv")
    drawn = _drawn(opened, count, given, seed)
    if out is not None:
        (write_images if is_picture(out) else write_rows)(out, opened, drawn)
    names, rows = schema_of(opened).names, decoded(opened, drawn)
    report.say(f"saved  {out}" if out else as_csv(names, rows).rstrip("\n"))
    report.end({"columns": list(names), "rows": rows, "saved": out and str(out)})


@torch.no_grad()
def _drawn(model: SquaredCircuit, count: int, given: str | None, seed: int) -> Tensor:
    """(n, d); with evidence the samples of its first row, then of its second, …"""
    if given is None:
        return model.sample(count, seed=seed)
    x, missing = read_rows(model, given)
    drawn = model.sample(count, given=x, missing=missing, seed=seed)  # (n, m, d)
    return drawn.transpose(0, 1).flatten(0, 1)
