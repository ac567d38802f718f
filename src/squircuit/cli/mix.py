"""`squircuit mix`: models that were trained apart as one model, the mixture of their densities."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import torch
import typer

from squircuit.cli.arguments import Json
from squircuit.cli.reading import open_model
from squircuit.cli.report import Report
from squircuit.cli.writing import require_place
from squircuit.errors import ParameterError
from squircuit.models import mixture
from squircuit.training.history import log_z_text


def mix(
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(metavar="MODEL", help="Two models or runs, or more.")],
    out: Annotated[Path, typer.Option(help="File of the mixture, such as both.safetensors.")],
    weights: Annotated[
        str | None, typer.Option(help="Of the models, such as 2,1; divided by their sum. Default equal.")
    ] = None,
    as_json: Json = False,
) -> None:
    """One model of several: p(x) = Σₘ wₘ pₘ(x), exact and normalised like each of them.

    Models of the same data that were trained from different seeds err in different places: their mixture
    never scores below the mean of their scores, and mostly above the best where they are about equal.

    Examples:

    - squircuit mix a.safetensors b.safetensors --out both.safetensors
    - squircuit mix runs/a runs/b runs/c --weights 2,1,1 --out all.safetensors
    """
    report = Report(as_json)
    if len(files) < 2:
        raise ParameterError(f"only {files[0]} is given. Fix: name two models or more.")
    require_place(out, (".safetensors",))
    models = [open_model(file, torch.device("cpu")) for file in files]
    shares = _shares(weights, len(files))
    try:
        mixed = mixture(models, shares)
    except ParameterError as error:
        named = ", ".join(f"{number} is {file}" for number, file in enumerate(files))
        raise ParameterError(error.what, fix=error.fix + f". Model {named}") from error
    log_z = mixed.log_partition().item()
    members = [{"file": str(file), "notes": model.notes} for file, model in zip(files, models, strict=True)]
    mixed.save(out, {"command": context.obj["command"], "weights": shares, "members": members})
    report.say(f"model  {mixed}\nlog Z  {log_z_text(log_z)}\nsaved  {out}")
    numbers = {"log_z": log_z, "parameters": mixed.structure.num_parameters()}
    report.end({"models": [str(file) for file in files], "weights": shares, **numbers, "saved": str(out)})


def _shares(text: str | None, count: int) -> list[float]:
    """The weights as numbers above 0 that sum to 1."""
    try:
        given = [1.0] * count if text is None else [float(part) for part in text.split(",")]
    except ValueError:
        given = []
    shares = [share / sum(given) for share in given] if all(share > 0 for share in given) else []
    if len(shares) != count or not all(0 < share < 1 for share in shares):
        raise ParameterError(
            f"--weights {text}: not {count} numbers above 0. Fix: one for each model, such as "
            f"{','.join(['1'] * count)}."
        )
    return shares
