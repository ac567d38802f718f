"""Draws the pictures of the guides and of README: images/curves.png, samples.png, completions.png and so on.

Models are trained for them, which takes some minutes:

    python docs/draw_pictures.py                # all
    python docs/draw_pictures.py density        # one of mnist, digits, weather, density

The first needs the files of MNIST, which `sq.data.load` downloads.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from PIL import Image

import squircuit as sq
from squircuit.plots.style import titled

DOCS = Path(__file__).resolve().parent
LARGEST = 60_000  # bytes of a picture


def mnist() -> Iterator[tuple[str, Figure]]:
    """The picture of README: `squircuit fit mnist --preset small`, and test images with pixels erased."""
    data, preset = sq.data.load("mnist"), sq.presets.load("small", "mnist")
    model = sq.model_for(data, **preset["model"])
    sq.fit(model, data, **preset["training"])
    x = torch.from_numpy(data.test[[0, 1, 3, 4, 8, 7]])  # the first six that are different digits
    missing = erased(data.shape).repeat(2, 1)
    completed = model.sample(6, given=x, missing=missing, seed=0)
    mean = model.mean(given=x, missing=missing)
    picture = sq.plots.completions(x, missing, torch.cat([mean[None], completed]), data.shape, levels=256)
    for axes, title in zip(picture.axes[2:4], ("mean", "samples"), strict=True):
        titled(axes, title, size=8)
    yield "mnist", picture


def erased(shape: tuple[int, ...]) -> torch.Tensor:
    """Three masks, True where a pixel is erased: seven of ten at random, the middle, the lowest third."""
    row, column = torch.meshgrid(*(torch.arange(side) for side in shape), indexing="ij")
    scattered = torch.rand(shape, generator=torch.Generator().manual_seed(0)) < 0.7
    middle = (row - 13.5).abs().maximum((column - 13.5).abs()) < 5
    return torch.stack([scattered, middle, row >= 18]).flatten(1)  # (3, d)


def digits() -> Iterator[tuple[str, Figure]]:
    """As the demo trains them."""
    data = sq.data.load("digits")
    circuit = sq.build(sq.regions.chow_liu(data.train), sq.Categorical(17), units=6, roots=4, tie="inputs")
    model = sq.SquaredCircuit(circuit)
    model.shape = data.shape
    yield "curves", sq.plots.curves(sq.fit(model, data, lr=0.8, average=0.99, epochs=60))
    yield "samples", sq.plots.images(model.sample(32, seed=0), data.shape, columns=16, levels=17)
    x, missing = torch.from_numpy(data.test[:4]), torch.arange(64) >= 32
    completed = model.sample(6, given=x, missing=missing, seed=0)
    yield "completions", sq.plots.completions(x, missing, completed, data.shape, levels=17)


def weather() -> Iterator[tuple[str, Figure]]:
    """The table of the guide, made by its own code, with its model trained for longer."""
    names: dict[str, Any] = {}
    guide = (DOCS / "guides" / "tables.md").read_text(encoding="utf-8")
    exec(code_of(guide, until="print(table.schema)"), names)
    model = sq.model_for(names["table"], units=4, size=12)
    sq.fit(model, names["table"], epochs=40, batch=128)
    yield "marginals", sq.plots.marginals(model)


def density() -> Iterator[tuple[str, Figure]]:
    data = sq.data.load("spinner")
    model = sq.model_for(data, units=8)
    sq.fit(model, data, epochs=20, jitter=0.1, average=0.99)
    yield "density", sq.plots.density(model, data=data.train[:4000])


def code_of(guide: str, until: str) -> str:
    """The doctests of a page as a program, up to a line."""
    lines = re.findall(r"^(?:>>>|\.\.\.) (.*)$", guide, flags=re.MULTILINE)
    return "\n".join(lines[: lines.index(until)])


def keep(name: str, picture: Figure) -> None:
    """As a PNG of at most 256 colours, which is all that these pictures need."""
    content, file = io.BytesIO(), DOCS / "images" / f"{name}.png"
    picture.savefig(content, format="png", dpi=100)
    Image.open(content).convert("RGB").quantize(256).save(file, optimize=True)
    size = file.stat().st_size
    if size > LARGEST:
        raise SystemExit(f"{file}: {size} bytes, more than {LARGEST}. Fix: draw less, or smaller.")
    print(f"wrote {file.relative_to(DOCS.parent)}, {size} bytes")


if __name__ == "__main__":
    torch.set_num_threads(1)  # small matrices: threads would wait for each other
    drawings = {"mnist": mnist, "digits": digits, "weather": weather, "density": density}
    for chosen in sys.argv[1:] or drawings:
        for name, picture in drawings[chosen]():
            keep(name, picture)
