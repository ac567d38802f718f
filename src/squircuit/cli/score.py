"""`squircuit score`: how likely rows are under a model."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from squircuit.cli.classes import accuracy_of
from squircuit.cli.machine import chosen_device
from squircuit.cli.masks import named_mask
from squircuit.cli.reading import USUAL, form_of, is_image, open_model, read_rows
from squircuit.cli.report import Report
from squircuit.cli.tables import TABLES, is_standard, write_array, write_rows
from squircuit.cli.writing import require_place
from squircuit.data import Rows
from squircuit.errors import ParameterError
from squircuit.execution.threads import SMALL, fitting_threads
from squircuit.models import SquaredCircuit
from squircuit.progress import shown, steps
from squircuit.training.history import log_z_text

BLOCK = 2**19
"""Cells that are scored at once."""


def score(
    *,
    model: Path,
    data: str,
    out: Path | None,
    missing: list[str] | None,
    safe: bool,
    header: bool | None,
    delimiter: str | None,
    encoding: str | None,
    part: str,
    device: str,
    seed: int,
    quiet: bool,
    as_json: bool,
) -> None:
    """The work of the command `score`, see :mod:`squircuit.cli.commands`."""
    report = Report(as_json, aside=out is not None and is_standard(out))
    form = form_of(header, delimiter, encoding)
    require_place(out, TABLES, read=(model, data))
    opened = open_model(model, chosen_device(device))
    rows = read_rows(opened, data, part, form)
    rows = Rows(rows.x, rows.missing | named_mask(opened, missing or [], len(rows.x), seed))
    with shown("scoring", not quiet):
        found = scored(opened, rows)
    right = accuracy_of(opened, data, part, rows)
    told = found.to_dict() | ({} if right is None else {"accuracy": right})
    if out is not None:
        _write(out, found.log_prob.tolist(), safe, as_json)
    report.say(score_text(told) + ("" if is_standard(out) else f"\nsaved  {out}"))
    report.end({**told, "log_prob": found.log_prob.tolist(), "saved": out and str(out)})


def _write(out: Path, log_prob: list[float], safe: bool, as_json: bool) -> None:
    if out.suffix.lower() == ".npy":
        write_array(out, np.asarray(log_prob))
    elif not (is_standard(out) and as_json):  # one document on standard output is enough
        write_rows(out, ["log_prob"], [[value] for value in log_prob], USUAL, safe)


class Score(NamedTuple):
    """Scores of rows.

    Args:
        log_prob: of every row, in nats: (n,) of float64.
        bits: per dimension that is not missing; None where the model is not of images.
        log_z: exact, in double precision.
        normalised: Z = 1 by construction; else scores were divided by the exact Z.
    """

    log_prob: Tensor
    bits: float | None
    log_z: float
    normalised: bool

    @property
    def mean(self) -> float:
        return float(self.log_prob.mean())

    def to_dict(self) -> dict[str, Any]:
        """Plain data, without the single rows."""
        return {
            "rows": len(self.log_prob),
            "mean_log_prob": self.mean,
            "bits_per_dimension": self.bits,
            "log_z": self.log_z,
            "normalised": self.normalised,
        }


def score_text(found: dict[str, Any]) -> str:
    """What `Score.to_dict` gave, in one line."""
    bits = found["bits_per_dimension"]
    bits_text = "" if bits is None else f", {bits:.4f} bits per dimension"
    how = "" if found["normalised"] else " (scores are divided by Z)"
    classes = f"; the class of {found['accuracy']:.2%} is right" if "accuracy" in found else ""
    return (
        f"mean log-likelihood {found['mean_log_prob']:.4f} nats{bits_text} of {found['rows']} rows; "
        f"log Z {log_z_text(found['log_z'])}{how}{classes}"
    )


@fitting_threads(SMALL)
@torch.no_grad()
def scored(model: SquaredCircuit, rows: Rows[Tensor]) -> Score:
    """Scores of rows whose missing cells are marginalised; the model is in evaluation mode."""
    step = max(1, BLOCK // rows.x.shape[1])
    blocks = [rows.take(slice(start, start + step)) for start in range(0, len(rows), step)]
    log_z = require_density(model)
    sizes = [len(block) for block in blocks]
    log_p = torch.cat([_log_prob(model, block) for block in steps(blocks, sizes)])
    _require_numbers(log_p)
    observed = max(1, int((~rows.missing).sum()))
    bits = -float(log_p.sum()) / (observed * math.log(2)) if is_image(model) else None
    return Score(log_p, bits, log_z, model.is_normalised())


def require_density(model: SquaredCircuit) -> float:
    """log Z of a model that is a density; one that is 0 everywhere, or no number, has no scores."""
    log_z = float(model.log_partition())
    if not math.isfinite(log_z):
        what = "it is 0 everywhere" if log_z == -math.inf else "its weights are no good numbers"
        raise ParameterError(
            f"the model is no density: log Z is {log_z}, {what}. Fix: pass another file, or train it again."
        )
    return log_z


def require_mass(model: SquaredCircuit) -> None:
    """Refuse a model of which nothing can be drawn; Z of those on the manifold is 1 and not computed."""
    if not model.is_normalised():
        require_density(model)


def _require_numbers(log_p: Tensor) -> None:
    """A score that is NaN is none; −inf is one, of what cannot be."""
    lost = torch.nonzero(log_p.isnan() | (log_p == torch.inf)).flatten().tolist()
    if lost:
        raise ParameterError(
            f"row {lost[0]}: log p is {log_p[lost[0]].item()}, and so of {len(lost)} of {len(log_p)} rows. "
            "Fix: squircuit check MODEL shows what is wrong with its weights; train it again."
        )


def _log_prob(model: SquaredCircuit, rows: Rows[Tensor]) -> Tensor:
    gaps = None if rows.is_complete else rows.missing
    return model.log_prob(rows.x, gaps).double().cpu()  # rows from the host are checked, whatever the device
