"""`squircuit plot`: training curves, samples, densities, the circuit, its regions."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from squircuit import plots
from squircuit.circuits.region_graph import region_graph
from squircuit.cli.commands.plot import KINDS
from squircuit.cli.machine import require_room
from squircuit.cli.reading import history_of, is_image, open_model
from squircuit.cli.report import Report
from squircuit.cli.writing import PICTURES, require_images, require_place, write_figure, write_images
from squircuit.errors import ParameterError
from squircuit.storage.atomic import replace
from squircuit.training import History

DRAWINGS = ("circuit", "regions")
"""Which are drawn as SVG, without matplotlib."""


def plot(
    *,
    model: Path,
    what: str,
    out: Path,
    count: int,
    seed: int,
    as_json: bool,
) -> None:
    """The work of the command `plot`, see :mod:`squircuit.cli.commands`."""
    if what not in KINDS:
        raise ParameterError(f"--what {what}: not known. Fix: one of {', '.join(KINDS)}.")
    require_place(out, (".svg",) if what in DRAWINGS else PICTURES)
    if what == "curves":
        write_figure(out, plots.curves(_history(model)))
    else:
        _draw(model, what, out, count, seed)
    report = Report(as_json)
    report.say(f"saved  {out}")
    report.end({"what": what, "saved": str(out)})


def _history(path: Path) -> History:
    """The history of a run, or of the run that a model's file tells of."""
    found = history_of(path, None if os.path.isdir(path) else open_model(path, torch.device("cpu")))
    if found is None:
        raise ParameterError(f"{path}: the file tells no history. Fix: pass the folder of the run.")
    return found


@torch.no_grad()
def _draw(path: Path, what: str, out: Path, count: int, seed: int) -> None:
    model = open_model(path, torch.device("cpu"))
    if what == "circuit":
        replace(out, model.draw().encode())
    elif what == "regions":
        if len(model.structure.roots) > 1:
            raise ParameterError(
                f"--what regions: the model is a mixture of {len(model.structure.roots)} circuits, each with "
                "regions of its own. Fix: --what circuit."
            )
        names = None if model.schema is None else model.schema.names
        replace(out, region_graph(model.structure).draw(names).encode())
    elif what == "samples":
        require_images(model, "--what samples", "--what density, or squircuit sample")
        require_room(count, 1, model.structure.num_variables)
        write_images(out, model, model.sample(count, seed=seed))
    else:
        _require_no_images(is_image(model))
        draw = plots.density if model.structure.num_variables == 2 else plots.marginals
        write_figure(out, draw(model))


def _require_no_images(images: bool) -> None:
    if images:
        raise ParameterError("--what density: the model is of images. Fix: --what samples.")
