"""Packages that only some formats need: imported when first used, with an error that says what to install."""

from __future__ import annotations

import importlib
from typing import Any

from squircuit.errors import SquircuitError


class MissingPackageError(SquircuitError, ImportError):
    """A format or data set needs a package that is not installed; the message names the extra."""


def installed(module: str) -> Any:
    """The module, or None where it is not installed and something else does its work."""
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


def need(module: str, purpose: str, extra: str | None = "data") -> Any:
    """The module, or an error that names the extra of squircuit that brings it (None: the package itself).

    Example:
        >>> need("no_such_package", "reading .xyz files")
        Traceback (most recent call last):
        squircuit.data.optional.MissingPackageError: reading .xyz files needs the package no_such_package,
        which is not installed (No module named
        'no_such_package'). Fix: pip install 'squircuit[data]'.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        install = package if extra is None else f"'squircuit[{extra}]'"
        raise MissingPackageError(
            f"{purpose} needs the package {package}, which is not installed ({error}). "
            f"Fix: pip install {install}."
        ) from error
