"""What a command says: text as it goes, or one JSON document at its end; and the code with which it ends."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, final

import typer

FAILED, WRONG_INPUT, UNEXPECTED, INTERRUPTED, NOBODY_READS, TERMINATED = 1, 2, 70, 130, 141, 143
"""Exit codes; the last three are those of programs that SIGINT, SIGPIPE and SIGTERM end."""


@final
class Report:
    """Standard output of a command.

    Args:
        as_json: say nothing but one JSON document at the end.
        aside: standard output has rows, so that text is said on standard error.
    """

    def __init__(self, as_json: bool, aside: bool = False) -> None:
        self._as_json, self._aside = as_json, aside

    def say(self, text: str) -> None:
        """A piece of text for people."""
        if not self._as_json:
            typer.echo(text, err=self._aside)

    def end(self, document: Mapping[str, Any]) -> None:
        """All that was said, for machines."""
        if self._as_json:
            typer.echo(json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False))


def plain(value: Any) -> Any:
    """JSON data; JSON has no infinity and no NaN, which become texts.

    Example:
        >>> plain({"log_p": [0.5, -math.inf]})
        {'log_p': [0.5, '-inf']}
    """
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
