"""`squircuit mix`: models that were trained apart as one model, the mixture of their densities."""

from __future__ import annotations

from pathlib import Path

import torch
import typer

from squircuit.cli.reading import open_model
from squircuit.cli.report import Report
from squircuit.cli.writing import require_place
from squircuit.errors import ParameterError
from squircuit.models import mixture
from squircuit.training.history import log_z_text


def mix(
    *,
    context: typer.Context,
    files: list[Path],
    out: Path,
    weights: str | None,
    as_json: bool,
) -> None:
    """The work of the command `mix`, see :mod:`squircuit.cli.commands`."""
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
