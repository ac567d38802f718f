"""Whether torchrun has started this process with others; where it has not, torch is not waited for."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from squircuit.cli.together import Launched


class Terminated(BaseException):
    """The process was told to end, by SIGTERM."""


def launched_here() -> Launched | None:
    """This process as torchrun has started it, one of several; None where it is alone."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:  # by which torch knows it too
        return None
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    rank, size, local, locals_ = (int(os.environ.get(name, name.endswith("SIZE"))) for name in names)
    if size <= 1:
        return None
    found: Launched = importlib.import_module("squircuit.cli.together").Launched(rank, size, local, locals_)
    return found
