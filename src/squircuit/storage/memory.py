"""How much memory there is, so that what cannot fit is refused and not begun."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from squircuit.errors import ParameterError, SquircuitError

GROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)
"""The files in which Linux says what a container may use, and what it uses."""


def free_bytes() -> int | None:
    """Memory that is free on this machine, or for this container; None where nothing tells.

    Example:
        >>> (free_bytes() or 1) > 0
        True
    """
    found = [_of_machine(), *(_of_group(*files) for files in GROUPS)]
    return min((number for number in found if number is not None), default=None)


def require_memory(needed: int, what: str, fix: str, error: type[SquircuitError] = ParameterError) -> None:
    """Refuse what needs more memory than is free.

    Args:
        needed: bytes.
        what: needs them, for the error.
        fix: what the user can do.
        error: its class.

    Example:
        >>> require_memory(2**80, "units=4096", "fewer units")
        Traceback (most recent call last):
        squircuit.errors.ParameterError: units=4096: this needs about 1.21e+15 GB of memory, and ...
    """
    free = free_bytes()
    if free is not None and needed > free:
        raise error(
            f"{what}: this needs about {_gigabytes(needed)} GB of memory, and {_gigabytes(free)} GB are "
            f"free. Fix: {fix}."
        )


def _gigabytes(number: int) -> str:
    return f"{number // 10**7 / 100:.3g}"


def _of_machine() -> int | None:
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    with suppress(AttributeError, OSError, ValueError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _of_group(limit: str, used: str) -> int | None:
    with suppress(OSError, ValueError):  # no such group, or "max"
        return max(
            0, int(Path(limit).read_text(encoding="ascii")) - int(Path(used).read_text(encoding="ascii"))
        )
    return None
