"""Checks of arguments, of region graphs and of their JSON form: each names what is at fault, and a fix."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from squircuit.errors import FormatError, ParameterError, StructureError, is_whole
from squircuit.regions.scope import Region, Scope, describe, list_variables
from squircuit.storage.documents import parsed
from squircuit.storage.words import quoted


def check_integer(builder: str, name: str, value: object, minimum: int) -> None:
    """Refuse an argument that is not an integer of at least ``minimum``.

    Example:
        >>> check_integer("linear", "d", 0, minimum=1)
        Traceback (most recent call last):
        squircuit.errors.ParameterError: linear: d must be an integer of at least 1, got 0. Fix: ...
    """
    if not is_whole(value, minimum):
        raise ParameterError(
            f"{builder}: {name} must be an integer of at least {minimum}, got {value!r}"
            ". Fix: pass such a number."
        )


def check_graph(regions: Sequence[Region]) -> None:
    """Refuse regions that do not form a valid region graph.

    Example:
        >>> check_graph([Region(frozenset({0, 1}))])
        Traceback (most recent call last):
        squircuit.errors.StructureError: not fully split at region 0 {0,1}: a leaf must hold exactly one
        variable, this one holds 2. Fix: give the region a partition.
    """
    if not regions:
        raise StructureError("a region graph", "regions", "there are none", "give at least one leaf")
    used = set[int]()
    for number, region in enumerate(regions):
        where = f"region {number} {describe(region.scope)}"
        check_order(where, number, region.children(), len(regions))
        _check_leaf(where, region)
        for alternative, partition in enumerate(region.partitions):
            scopes = [regions[child].scope for child in partition]
            _check_partition(f"{where}, partition {alternative}", region.scope, scopes)
        used.update(region.children())
    _check_all_used(regions, used)
    _check_root(regions[-1].scope)


def check_order(where: str, parent: int, children: Iterable[int], total: int) -> None:
    """Refuse children of a region that do not come before it; ``total`` is the number of regions."""
    for child in children:
        if not 0 <= child < total:
            reason = f"child {child} does not exist, there are {total} regions"
            raise StructureError("connected", where, reason, "let it name regions listed before it")
        if child >= parent:
            reason = f"child {child} does not come before its parent {parent}"
            raise StructureError("acyclic", where, reason, "list children before parents")


def _check_leaf(where: str, region: Region) -> None:
    if region.is_leaf and len(region.scope) != 1:
        reason = f"a leaf must hold exactly one variable, this one holds {len(region.scope)}"
        raise StructureError("fully split", where, reason, "give the region a partition")


def _check_partition(where: str, scope: Scope, parts: Sequence[Scope]) -> None:
    if len(parts) < 2:
        fix = "split into at least two regions, or use the child in place of the region"
        raise StructureError("fully split", where, f"it has {len(parts)} children", fix)
    counts = Counter(variable for part in parts for variable in part)
    shared = [variable for variable, count in counts.items() if count > 1]
    if shared:
        reason = f"children share the variables {list_variables(shared)}"
        raise StructureError("decomposable", where, reason, "split into disjoint scopes")
    for fault, variables in (("lack", scope - counts.keys()), ("add", counts.keys() - scope)):
        if variables:
            reason = f"children {fault} the variables {list_variables(variables)}"
            raise StructureError("smooth", where, reason, "let the children cover exactly the region's scope")


def _check_all_used(regions: Sequence[Region], used: set[int]) -> None:
    for number, region in enumerate(regions[:-1]):
        if number not in used:
            where = f"region {number} {describe(region.scope)}"
            fix = "remove it, or name it in a partition; the root comes last"
            raise StructureError("connected", where, "no other region splits into it", fix)


def _check_root(scope: Scope) -> None:
    if scope != frozenset(range(len(scope))):
        reason = f"the {len(scope)} variables must be 0 to {len(scope) - 1}"
        raise StructureError("complete", f"the root {describe(scope)}", reason, "number the variables from 0")


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
