"""Whom we measure: one file a peer, each with a function ``make(setup) -> Training``.

A name is a peer, then options joined by dashes: ``ours``, ``ours-graph`` (the step captured in one CUDA
graph), ``ours-landing`` (the paper's optimiser in place of ours), ``cirkit``, ``plain``, ``pogo``,
``prototype``. Any other adapter is given as ``NAME=FILE.py``.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from peers.training import Training, UnsupportedError
from setups import Setup

NAMES = ("ours", "cirkit", "plain", "pogo", "prototype")

__all__ = ["NAMES", "Training", "UnsupportedError", "check_name", "load"]


def check_name(name: str) -> None:
    """Raise unless the name is a peer's, or ``NAME=FILE.py`` of a file that is there."""
    label, _, path = name.partition("=")
    base, *options = label.split("-")
    if path and not Path(path).is_file():
        raise ValueError(f"peer {label!r}: there is no file {path}")
    if not path and base not in NAMES:
        raise ValueError(f"unknown peer {name!r}: choose one of {', '.join(NAMES)}, or give NAME=FILE.py")
    unknown = set(options) - {"graph", "landing"}
    if not path and (unknown or ("landing" in options and base != "ours")):
        raise ValueError(f"unknown peer {name!r}: {base} has no option {', '.join(options)}")


def load(name: str, folders: dict[str, str]) -> Callable[[Setup], Training]:
    """The function ``make`` of a peer, whose own folder is put on the path where one is given."""
    label, _, path = name.partition("=")
    base, *options = label.split("-")
    if folders.get(base):
        sys.path.insert(0, str(Path(folders[base]).resolve()))
    module: Any = _from_file(path) if path else importlib.import_module(f"peers.{base}")
    if "landing" in options:
        return module.make_landing  # type: ignore[no-any-return]
    return module.make  # type: ignore[no-any-return]


def _from_file(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("peer", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
