"""How much a file may ask of this machine. The limits are the library's own: a file cannot raise them."""

from __future__ import annotations

import os
from pathlib import Path

from squircuit.errors import FormatError

MOST_DOCUMENT = 2**26
"""Characters of a file's JSON document: names, schema and notes; 400,000 layers take 10 MB."""


def memory() -> int | None:
    """Bytes that this machine can give now; None where it does not tell."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, LookupError, AttributeError):  # not Linux, or not even POSIX
        return None


def require_memory(file: Path, needed: int) -> None:
    """Refuse tensors that do not fit, before the first of them is read: a file of holes has any size."""
    there = memory()
    if there is not None and needed > there:
        raise FormatError(
            f"{file}: its tensors take {needed / 2**30:.1f} GiB, this machine has {there / 2**30:.1f} GiB to "
            "give. Fix: read it on a larger machine; if the model is small, the file is damaged."
        )
