"""`squircuit plot`: training curves, samples, densities, the circuit, its regions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from squircuit.cli.arguments import Json, ModelFile, Seed, one_of
from squircuit.cli.commands.work import done_by

KINDS = ("curves", "samples", "density", "circuit", "regions")


@done_by("squircuit.cli.plot")
def plot(
    model: ModelFile,
    what: Annotated[str, typer.Option(help=f"{', '.join(KINDS)}.", autocompletion=one_of(lambda: KINDS))],
    out: Annotated[Path, typer.Option(help="File: .png, .pdf or .svg; of circuit and regions .svg.")],
    count: Annotated[int, typer.Option("-n", "--count", min=1, help="Samples that are drawn.")] = 64,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Draw a model or a run.

    Curves are of the training; samples of models of images; density of models of two variables, and of
    others the distribution of each by itself.

    Examples:

    - squircuit plot runs/mnist --what curves --out curves.png
    - squircuit plot mnist.safetensors --what samples -n 100 --out samples.png
    - squircuit plot people.safetensors --what circuit --out circuit.svg
    """
