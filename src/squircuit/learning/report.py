"""What is seen of a search: a bar with the time left, and at the end a table of the members."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self, final

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichBar

from squircuit.circuits.summary import table as text_table
from squircuit.data import Table
from squircuit.learning.members import Candidate

PAUSE = 2.0
"""Seconds at least between two lines where the output is no terminal."""
WIDER = " times as wide"
"""In the names of candidates that take part once more, with larger covariances."""
MOST_MEMBERS = 12
"""Rows of the table; what weighs less is counted in its last line."""


@final
class Progress:
    """A bar on terminals and in notebooks, else lines; on standard error, so that output stays clean.

    Args:
        candidates: that will be tried; each counts as much as it costs.
        table: of which they learn.
        enabled: show anything.
    """

    def __init__(self, candidates: Sequence[Candidate], table: Table, enabled: bool) -> None:
        self._console = Console(stderr=True, quiet=not enabled)
        self._works = {c: c.work(table) for c in candidates}
        self._done, self._best, self._last = 0, -float("inf"), 0.0
        self._has_bar = enabled and (self._console.is_terminal or self._console.is_jupyter)
        columns = (
            TimeRemainingColumn(compact=True),
            BarColumn(bar_width=20),
            TextColumn("{task.description}"),
        )
        self._bar = RichBar(*columns, console=self._console, disable=not self._has_bar)
        self._task = self._bar.add_task("learning", total=sum(self._works.values()))

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def tried(self, candidate: Candidate, score: float | None) -> None:
        """A candidate has a score, the mean log-likelihood of held-out rows, or has failed."""
        self._done += 1
        self._best = max(self._best, self._best if score is None else score)
        shown = "failed" if score is None else f"{score:.3f}"
        counted = f"{self._done} of {len(self._works)}"
        text = f"{counted}: {candidate.name} {shown}, best {self._best:.3f} nats a row"
        self._bar.update(self._task, advance=self._works[candidate], description=text)
        self._line(text, self._done == len(self._works))

    def refitted(self, count: int, total: int) -> None:
        """A member has learnt from all rows."""
        text = f"all rows: member {count} of {total}"
        self._bar.update(self._task, description=text)
        self._line(text, count == total)

    def table(self, notes: Mapping[str, Any]) -> None:
        """The members and their shares."""
        self._console.print(members_table(notes), highlight=False, soft_wrap=True)

    def _line(self, text: str, is_last: bool) -> None:
        if not self._has_bar and (is_last or time.monotonic() - self._last >= PAUSE):
            self._last = time.monotonic()
            self._console.print(text, highlight=False, soft_wrap=True)


def members_table(notes: Mapping[str, Any]) -> str:
    """What `learn` has written into the notes of its model, as text.

    Example:
        >>> member = {"candidate": "20 Gaussians", "share": 0.75, "score": -1.5, "seconds": 0.2}
        >>> print(members_table({"rows": 90, "columns": 2, "held out": "5 folds", "members": [member]}))
        member       | share | held out, nats | seconds
        -------------+-------+----------------+--------
        20 Gaussians | 0.750 |         -1.500 |     0.2
        1 of 1 have a share; 90 rows, 2 columns, weighed by 5 folds
    """
    every = notes["members"]
    kept = [row for row in every if row["share"] > 0]
    rows = [
        (row["candidate"], f"{row['share']:.3f}", f"{row['score']:.3f}", f"{row['seconds']:.1f}")
        for row in kept[:MOST_MEMBERS]
    ]
    head = ("member", "share", "held out, nats", "seconds")
    lines = [text_table(head, rows, right={1, 2, 3})]
    if len(kept) > MOST_MEMBERS:
        rest = sum(row["share"] for row in kept[MOST_MEMBERS:])
        lines.append(f"and {len(kept) - MOST_MEMBERS} more with {rest:.3f} together")
    tried = sum(WIDER not in row["candidate"] for row in every)
    also = f" ({tried} tried, some of them also wider)" if tried < len(every) else ""
    lines.append(
        f"{len(kept)} of {len(every)} have a share{also}; {notes['rows']} rows, {notes['columns']} columns, "
        f"weighed by {notes['held out']}"
    )
    if notes.get("stopped", "finished") != "finished":
        lines.append(f"not all candidates were tried: {notes['stopped']}")
    return "\n".join(lines)
