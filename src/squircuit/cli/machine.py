"""The machine that a command runs on: its device, and what its memory holds."""

from __future__ import annotations

import torch

from squircuit.errors import ParameterError
from squircuit.storage.memory import free_bytes, require_memory

CELL = 100
"""Bytes that a cell needs as a number, as an object of Python, and as text."""


def chosen_device(text: str) -> torch.device:
    """The device that the user wants, if it is there."""
    if text == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if text not in ("cpu", "cuda"):
        raise ParameterError(f"--device {text}: not known. Fix: cpu, cuda or auto.")
    if text == "cuda" and not torch.cuda.is_available():
        raise ParameterError("--device cuda: there is no CUDA device here. Fix: --device cpu.")
    return torch.device(text)


def require_room(count: int, rows: int, columns: int) -> None:
    """Refuse so many samples of each of some rows as the memory does not hold.

    Example:
        >>> require_room(2**40, 1, 4)
        Traceback (most recent call last):
        squircuit.errors.ParameterError: -n 1099511627776: this needs about 4.4e+05 GB of memory, and ...
    """
    row = max(1, rows) * columns * CELL
    most = (free_bytes() or 0) // row
    fix = f"several calls of at most -n {most}, each with another --seed and --out" if most else "fewer rows"
    require_memory(count * row, f"-n {count}", fix)
