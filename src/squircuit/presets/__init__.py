"""Options of models and of their training that are worth having a name: TOML files in this folder.

A file has two tables: ``[model]`` holds arguments of :func:`squircuit.model_for`, ``[training]`` options of
:class:`squircuit.TrainingConfig`. A preset of one data set alone is called "<data set>-<preset>".
"""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Any

from squircuit.errors import ParameterError, suggestion

__all__ = ["load", "names"]


def names() -> list[str]:
    """The names of all presets.

    Example:
        >>> names()[:2]
        ['cifar10-ycocg-best', 'fashion-mnist-best']
    """
    files = (file.name for file in resources.files(__name__).iterdir())
    return sorted(name.removesuffix(".toml") for name in files if name.endswith(".toml"))


def load(name: str, data: str | None = None) -> dict[str, Any]:
    """The options of a preset: {"model": {…}, "training": {…}}.

    Args:
        name: of the preset.
        data: name of the data set; a preset of its own, "<data>-<name>", comes first.

    Example:
        >>> load("best", "mnist") == load("mnist-best")
        True
        >>> load("best")
        Traceback (most recent call last):
        squircuit.errors.ParameterError: there is no preset 'best'. Fix: pass one of ...
    """
    known = names()
    found = next((full for full in (f"{data}-{name}", name) if full in known), None)
    if found is None:
        where = f" for {data!r}" if data else ""
        raise ParameterError(f"there is no preset {name!r}{where}. Fix: {suggestion(name, known)}")
    text = resources.files(__name__).joinpath(f"{found}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
