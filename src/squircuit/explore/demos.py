"""What is shown where no model is given: trained when it is first asked for, and then kept in a file."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from squircuit.data.download import data_folder
from squircuit.data.optional import need
from squircuit.errors import FormatError
from squircuit.explore.exhibit import Exhibit
from squircuit.explore.shelf import Shelf
from squircuit.learning import learn
from squircuit.models import SquaredCircuit, image_model, load, mixture
from squircuit.progress import steps
from squircuit.training import fit

FOLDER = "explore"
"""Below the folder of data sets."""
HELD_OUT, EPOCHS, UNITS = 20, 25, 2
"""Of the model of each digit: rows that say when to stop, passes at most, width."""
MINUTES = 0.2
"""Of the search for the density of the small table."""
CANDIDATES = 20
"""About as many are tried, for the bar that tells how far it is."""


def demos() -> Shelf:
    """Handwritten digits of ten classes, and the flowers of Fisher's table; both come with scikit-learn."""
    return Shelf({name: partial(_shown, name, make) for name, make in (("digits", digits), ("iris", iris))})


def _shown(name: str, make: Callable[[], SquaredCircuit]) -> Exhibit:
    model = kept(data_folder() / FOLDER / f"{name}-1.safetensors", make)
    model.eval().requires_grad_(False)
    schema = model.schema
    assert schema is not None
    return Exhibit(model, schema, name)


def kept(file: Path, make: Callable[[], SquaredCircuit]) -> SquaredCircuit:
    """The model of a file; it is made, and kept there, where there is none that can be read."""
    model = _read(file)
    if model is None:
        model = make()
        with suppress(OSError, FormatError):  # a folder that cannot be written is no reason to show nothing
            file.parent.mkdir(parents=True, exist_ok=True)
            model.save(file)
    return model


def _read(file: Path) -> SquaredCircuit | None:
    with suppress(OSError, FormatError):
        return load(file)
    return None


def digits() -> SquaredCircuit:
    """A mixture of ten models of 8×8 digits, one for each class, whose shares are those of the classes."""
    found = need("sklearn.datasets", "the demonstration", "data").load_digits()
    images, classes = np.asarray(found.data).astype(np.uint8), np.asarray(found.target)
    rows = [images[classes == digit] for digit in range(10)]
    models = []
    for digit in steps(range(10), [1.0] * 10):
        model = image_model((8, 8), units=UNITS, levels=17, seed=digit)
        train, valid = rows[digit][HELD_OUT:], rows[digit][:HELD_OUT]
        fit(model, train, valid, epochs=EPOCHS, progress=False)
        models.append(model)
    made = mixture(models, [float(len(each)) for each in rows])
    made.notes = {"classes": [str(digit) for digit in range(10)], "data": "8×8 digits of scikit-learn"}
    return made


def iris() -> SquaredCircuit:
    """Fisher's flowers: four lengths and the species."""
    found = need("sklearn.datasets", "the demonstration", "data").load_iris()
    names = [name.removesuffix(" (cm)") for name in found.feature_names]
    frame: dict[str, Any] = dict(zip(names, np.asarray(found.data).T, strict=True))
    frame["species"] = [str(found.target_names[number]) for number in found.target]
    tried = steps(range(CANDIDATES), [1.0] * CANDIDATES)
    made = learn(frame, minutes=MINUTES, progress=False, callbacks=[lambda event: next(tried, None) and None])
    made.notes = {**made.notes, "data": "iris of scikit-learn"}
    return made
