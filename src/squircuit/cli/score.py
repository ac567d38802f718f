"""`squircuit score`: how likely rows are under a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from squircuit.cli.arguments import DataName, Device, Json, ModelFile, Part, Safe, Seed, chosen_device
from squircuit.cli.masks import named_mask
from squircuit.cli.reading import open_model, read_rows
from squircuit.cli.report import Report
from squircuit.cli.scoring import score as scored
from squircuit.cli.scoring import score_text
from squircuit.cli.writing import as_csv, require_place, write_array
from squircuit.data import Rows
from squircuit.storage.atomic import replace


def score(
    model: ModelFile,
    data: DataName,
    out: Annotated[Path | None, typer.Option(help="File for log p of every row: .csv or .npy.")] = None,
    missing: Annotated[
        list[str] | None,
        typer.Option(help="Marginalise a column, or of images left, right, top, bottom, center, random:P."),
    ] = None,
    safe: Safe = False,
    part: Part = "test",
    device: Device = "auto",
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Log-likelihoods of rows, exact and normalised; empty cells are marginalised.

    Examples:

    - squircuit score people.safetensors new.csv --out scores.csv
    - squircuit score people.safetensors new.csv --missing income
    - squircuit score mnist.safetensors mnist --part valid --json
    """
    report = Report(as_json)
    require_place(out, (".csv", ".npy"), read=(model, data))
    opened = open_model(model, chosen_device(device))
    rows = read_rows(opened, data, part)
    rows = Rows(rows.x, rows.missing | named_mask(opened, missing or [], len(rows.x), seed))
    found = scored(opened, rows)
    if out is not None:
        _write(out, found.log_prob.tolist(), safe)
    report.say(score_text(found.to_dict()) + (f"\nsaved  {out}" if out else ""))
    report.end({**found.to_dict(), "log_prob": found.log_prob.tolist(), "saved": out and str(out)})


def _write(out: Path, log_prob: list[float], safe: bool) -> None:
    if out.suffix.lower() == ".npy":
        write_array(out, np.asarray(log_prob))
    else:
        replace(out, as_csv(["log_prob"], [[value] for value in log_prob], safe).encode())
