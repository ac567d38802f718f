"""The JSON form of region graphs: reading and writing the text, before any graph is built."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from squircuit.errors import FormatError
from squircuit.storage.documents import parsed
from squircuit.storage.words import quoted

FORMAT = "squircuit.region_graph"
VERSION = 1
FIX = "pass the text of graph.to_json(), or write it again"
MOST = 2**24
"""The largest number of a variable or a region."""
MOST_SCOPES = 2**26
"""Variables in the scopes of all regions together, which each region holds as a set."""

Entry = int | Sequence[Sequence[int]]
"""A region in JSON: the variable of a leaf, or the partitions of any other region."""


def write_document(entries: Iterable[Entry]) -> str:
    """The JSON text of a list of regions.

    Example:
        >>> write_document([0, 1, [[0, 1]]])
        '{"format": "squircuit.region_graph", "version": 1, "regions": [0, 1, [[0, 1]]]}'
    """
    return json.dumps({"format": FORMAT, "version": VERSION, "regions": list(entries)})


def read_document(text: str) -> list[Entry]:
    """The list of regions of a JSON text, with its types checked.

    Example:
        >>> read_document(write_document([0, 1, [[0, 1]]]))
        [0, 1, [[0, 1]]]
        >>> read_document('{"format": "squircuit.region_graph", "version": 7}')
        Traceback (most recent call last):
        squircuit.errors.FormatError: region graph: version 7 is unknown, this release reads version 1. ...
    """
    document = parsed(text, "region graph", FIX)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise _wrong(f'expected an object with "format": "{FORMAT}"')
    version, regions = document.get("version"), document.get("regions")
    if version != VERSION or isinstance(version, bool):
        raise _wrong(f"version {quoted(version)} is unknown, this release reads version {VERSION}")
    if not isinstance(regions, list):
        raise _wrong(f'"regions" must be a list, got {quoted(regions, json.dumps)}')
    for index, entry in enumerate(regions):
        _check_entry(index, entry)
    _check_scopes(regions)
    return regions


def _check_entry(index: int, entry: Any) -> None:
    if _is_integer(entry) or (_is_filled_list(entry) and all(_is_partition(part) for part in entry)):
        return
    expected = "a variable (leaf) or a list of partitions, each a list of region indices"
    raise _wrong(f"region {index} must be {expected}, got {quoted(entry, json.dumps)}")


def _wrong(reason: str) -> FormatError:
    return FormatError(f"region graph: {reason}. Fix: {FIX}.")


def _check_scopes(regions: Sequence[Entry]) -> None:
    """Refuse a short text of regions that hold too many variables together, before their scopes are made."""
    sizes: list[int] = []
    total = 0
    for index, entry in enumerate(regions):
        children = [] if isinstance(entry, int) else entry[0]
        sizes.append(sum(sizes[child] for child in children if 0 <= child < index) or 1)
        total += sizes[-1]
        if total > MOST_SCOPES:
            raise _wrong(f"region {index}: all regions together hold more than {MOST_SCOPES:,} variables")


def _is_partition(part: Any) -> bool:
    return _is_filled_list(part) and all(_is_integer(child) for child in part)


def _is_filled_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


def _is_integer(value: Any) -> bool:
    """Whether it is a whole number that can name a variable or a region; JSON's true is not the number 1."""
    return type(value) is int and abs(value) <= MOST
