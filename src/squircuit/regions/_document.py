"""The JSON form of region graphs: reading and writing the text, before any graph is built."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from squircuit.errors import FormatError

FORMAT = "squircuit.region_graph"
VERSION = 1

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
        squircuit.errors.FormatError: region graph: version 7 is unknown, this release reads version 1
    """
    document = _parse(text)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FormatError(f'region graph: expected an object with "format": "{FORMAT}"')
    version, regions = document.get("version"), document.get("regions")
    if version != VERSION or isinstance(version, bool):
        raise FormatError(
            f"region graph: version {version!r} is unknown, this release reads version {VERSION}"
        )
    if not isinstance(regions, list):
        raise FormatError(f'region graph: "regions" must be a list, got {_shorten(regions)}')
    for index, entry in enumerate(regions):
        _check_entry(index, entry)
    return regions


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"region graph: not a JSON text ({error})") from error


def _check_entry(index: int, entry: Any) -> None:
    if _is_integer(entry) or (_is_filled_list(entry) and all(_is_partition(part) for part in entry)):
        return
    expected = "a variable (leaf) or a list of partitions, each a list of region indices"
    raise FormatError(f"region graph: region {index} must be {expected}, got {_shorten(entry)}")


def _is_partition(part: Any) -> bool:
    return _is_filled_list(part) and all(_is_integer(child) for child in part)


def _is_filled_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)  # JSON's true is not the number 1


def _shorten(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:59] + "…"
