"""Checks of arguments and of region graphs: each names what is at fault, and a fix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from squircuit.errors import ParameterError, StructureError, is_whole
from squircuit.regions.region import Region
from squircuit.regions.scope import Scope, describe, list_variables


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
