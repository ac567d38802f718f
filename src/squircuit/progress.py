"""How far work is: loops tell, and whoever waits for them may show it.

A loop over parts of the work goes through :func:`steps`; a loop inside of one tells of its share of that
step. Nothing is told, and nothing is slower, where nobody listens. :func:`shown` listens, and draws a bar
with the time left on a terminal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

T = TypeVar("T")
PATIENCE = 1.0
"""Seconds without a bar: most work is done sooner."""
_told: ContextVar[Callable[[float], None] | None] = ContextVar("told", default=None)


def steps(parts: Iterable[T], sizes: Sequence[float]) -> Iterator[T]:
    """The parts of some work, one by one; after each it is told how much of all is done, from 0 to 1.

    Args:
        parts: of the work.
        sizes: how much of it each of them is, in any unit.

    Example:
        >>> with heard(print):
        ...     for outer in steps("ab", [1, 3]):
        ...         for inner in steps(range(2), [1, 1]):
        ...             pass
        0.125
        0.25
        0.25
        0.625
        1.0
        1.0
    """
    tell, done, total = _told.get(), 0.0, max(sum(sizes), 1e-300)
    if tell is None:
        yield from parts
        return
    for part, size in zip(parts, sizes, strict=True):
        with heard(_within(tell, done / total, size / total)):
            yield part
        done += size
        tell(done / total)


def _within(tell: Callable[[float], None], start: float, share: float) -> Callable[[float], None]:
    return lambda inner: tell(start + share * inner)


@contextmanager
def heard(tell: Callable[[float], None] | None) -> Iterator[None]:
    """Loops inside tell how much is done, from 0 to 1; None: nobody."""
    token = _told.set(tell)
    try:
        yield
    finally:
        _told.reset(token)


@contextmanager
def shown(what: str, wanted: bool = True, console: Console | None = None) -> Iterator[None]:
    """A bar with the time left on standard error while work lasts, if it lasts longer than a second.

    On a pipe or in a file there is none.

    Args:
        what: is done, such as "filling 5000 rows".
        wanted: else nothing is shown.
        console: where it is shown.

    Example:
        >>> with shown("counting"):  # no terminal: nothing to see
        ...     sum(steps(range(4), [1.0] * 4))
        6
    """
    console = console or Console(stderr=True)
    if not wanted or not (console.is_terminal or console.is_jupyter):
        with heard(None):
            yield
        return
    columns = (
        TextColumn("{task.description}"), BarColumn(bar_width=20), TaskProgressColumn(),
        TimeRemainingColumn(compact=True),
    )  # fmt: skip
    bar, started = Progress(*columns, console=console, transient=True), time.monotonic()
    task = bar.add_task(what, total=1.0)

    def tell(done: float) -> None:
        bar.update(task, completed=done)
        if not bar.live.is_started and time.monotonic() - started > PATIENCE:
            bar.start()

    try:
        with heard(tell):
            yield
    finally:
        bar.stop()
