"""What a page has sent, looked at before it is used, and numbers as JSON can hold them."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from typing import Any

from squircuit.errors import ParameterError, is_whole
from squircuit.storage.words import quoted

Question = Mapping[str, Any]
"""What a page has sent: data of a JSON object."""
MOST_SEED = 2**53
"""JavaScript has no whole numbers beyond."""


def whole(question: Question, name: str, least: int, most: int, default: int) -> int:
    """A whole number of a question.

    Example:
        >>> whole({"count": 3}, "count", 1, 8, 6), whole({}, "count", 1, 8, 6)
        (3, 6)
        >>> whole({"count": 9}, "count", 1, 8, 6)
        Traceback (most recent call last):
        squircuit.errors.ParameterError: count: 9 is no whole number from 1 to 8. Fix: pass one.
    """
    value = question.get(name, default)
    if not is_whole(value, least, most):
        raise ParameterError(
            f"{quoted(value)} is no whole number from {least} to {most}", where=name, fix="pass one"
        )
    return int(value)


def text(question: Question, name: str) -> str:
    """A text of a question."""
    value = question.get(name)
    if not isinstance(value, str):
        raise ParameterError(f"{quoted(value)} is no text", where=name, fix="pass one")
    return value


def entries(question: Question, name: str, kind: type[list[Any]] | type[dict[Any, Any]]) -> Any:
    """A list or an object of a question; none where it is left out."""
    value = question.get(name, kind())
    if not isinstance(value, kind):
        raise ParameterError(f"{quoted(value)} is no {kind.__name__}", where=name, fix="pass one")
    return value


def seed(question: Question) -> int:
    """The seed of a question's samples."""
    return whole(question, "seed", 0, MOST_SEED, 0)


def plain(value: Any) -> Any:
    """Data for JSON, which has no infinity, no NaN and no dates: these become texts.

    Example:
        >>> plain({"log_prob": -math.inf, "x": (1, 0.5)})
        {'log_prob': '-inf', 'x': [1, 0.5]}
    """
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dt.date | dt.time):
        return str(value)
    return value
