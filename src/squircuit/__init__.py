"""squircuit: squared tensor networks and circuits that are normalised by construction.

Folders, and the names of :mod:`squircuit.api`, are imported when they are first asked for: the program shows
its help and the mistakes of its arguments without waiting for torch. Type checkers read `__init__.pyi`.
"""

import importlib
from typing import Any

from squircuit.errors import warn_former

__version__ = "0.1.0"

_FOLDERS = [
    "data", "errors", "families", "inference", "learning", "networks", "optim", "plots", "presets", "regions",
    "scalar", "storage", "training",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """A folder or a name of the API when it is first asked for."""
    if name == "units":
        warn_former("sq.units", "sq.scalar")
        name = "scalar"
    if name in (*_FOLDERS, "estimators"):  # the last needs scikit-learn
        return importlib.import_module(f"squircuit.{name}")
    if name.startswith("_") and name != "__all__":
        raise AttributeError(f"module 'squircuit' has no attribute {name!r}")
    api = importlib.import_module("squircuit.api")
    if name == "__all__":
        return [*_FOLDERS, *api.__all__]
    if name not in api.__all__:
        raise AttributeError(f"module 'squircuit' has no attribute {name!r}")
    globals().update({public: getattr(api, public) for public in api.__all__})
    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
