"""Options of a model and of its training: from a preset, a file, and the command line, in this order."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from squircuit import presets
from squircuit.errors import ParameterError, suggestion
from squircuit.storage.words import quoted
from squircuit.training import TrainingConfig
from squircuit.training.config import OTHER_NAMES, read_options

MODEL = ("units", "roots", "product", "tie", "size", "components", "trees", "parts", "order")
"""Options of :func:`squircuit.model_for`."""
TRAINING = tuple(field.name for field in dataclasses.fields(TrainingConfig))
TABLES = ("model", "training")
MOST = {"units": 4096, "roots": 4096, "size": 1024, "components": 1024, "trees": 1024}
"""The largest options of a model; memory is the limit far below, but to count so far would take for ever."""
LONGEST = 256
"""Entries of a list of an option, such as units by level, and characters of a text."""


@final
@dataclass(frozen=True)
class Options:
    """How a model is made, by arguments of `model_for`, and trained."""

    model: dict[str, Any]
    training: TrainingConfig


def options(
    data: str, preset: str | None = None, config: Path | None = None, texts: Mapping[str, str] | None = None
) -> Options:
    """All options of a training run.

    Args:
        data: its name, which a preset may be for.
        preset: a name.
        config: a file with the tables model and training, or with options of the training alone.
        texts: options by name, as the command line gives them.

    Example:
        >>> chosen = options("mnist", "best", texts={"units": "8", "lr": "0.1"})
        >>> chosen.model, chosen.training.lr, chosen.training.average
        ({'units': 8, 'roots': 32, 'tie': 2, 'parts': 2, 'order': 'hv,hv+2'}, 0.1, 0.999)
        >>> options("mnist", texts={"epoch": "3"})
        Traceback (most recent call last):
        squircuit.errors.ParameterError: there is no option 'epoch'. Fix: did you mean 'epochs'? Known are ...
    """
    tables = [] if preset is None else [_tables(presets.load(preset, data), f"preset {preset}")]
    tables += [] if config is None else [_tables(read_options(config), str(config))]
    texts = dict(texts or {})
    for name in texts:
        _require_known(name, (*MODEL, *TRAINING))
    model, training = ({k: v for table in tables for k, v in table[kind].items()} for kind in TABLES)
    model |= {name: _value(texts.pop(name)) for name in MODEL if name in texts}
    for name, value in model.items():
        _require_sane(name, value)
    return Options(model, TrainingConfig.from_texts(texts, training))


def _tables(document: Mapping[str, Any], source: str) -> dict[str, dict[str, Any]]:
    """The two tables of a document, checked; one without tables is that of the training."""
    if not any(name in document for name in TABLES):
        document = {"training": document}
    try:
        for name, table in document.items():
            _require_known(name, TABLES)
            if not isinstance(table, Mapping):
                raise ParameterError(
                    f"{name}={quoted(table)} is no table. Fix: write [{name}] and options below it."
                )
        found = {name: dict(document.get(name, {})) for name in TABLES}
        for name in found["model"]:
            _require_known(name, MODEL)
        TrainingConfig.of(found["training"])
    except ParameterError as error:
        raise ParameterError(f"{source}: {error}") from None
    return found


def _require_sane(name: str, value: Any) -> None:
    """Refuse what is no option of any model, and numbers that no model can have; it checks the rest."""
    entries = value if isinstance(value, list) else [value]
    if len(entries) > LONGEST or not all(_is_plain(entry) for entry in entries):
        raise ParameterError(f"{name}={quoted(value)}. Fix: pass a number, a short text, or a list of some.")
    for number in entries:
        if name in MOST and isinstance(number, int | float) and not abs(number) <= MOST[name]:
            raise ParameterError(f"{name}={quoted(value)}. Fix: pass at most {MOST[name]}.")


def _is_plain(entry: Any) -> bool:
    return (
        entry is None or isinstance(entry, int | float) or (isinstance(entry, str) and len(entry) <= LONGEST)
    )


def _require_known(name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        meant = OTHER_NAMES.get(name, name)
        raise ParameterError(f"there is no option {quoted(name)}. Fix: {suggestion(meant, known)}")


def _value(text: str) -> Any:
    """A number, several with commas between them, a text, or None for what is left to the recipe.

    Example:
        >>> [_value(text) for text in ("8", "16,64", "hv,vh", "auto")]
        [8, [16, 64], 'hv,vh', None]
    """
    if text in ("auto", "none"):
        return None
    for written in (text, f"[{text}]"):
        with suppress(ValueError, RecursionError):  # no JSON, too many digits, too deep
            return json.loads(written)
    return text
