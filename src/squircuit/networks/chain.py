"""Tree tensor networks that are chains, as lists of arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from squircuit.errors import StructureError
from squircuit.networks.site import Child, Site, dimensions, merged, scopes
from squircuit.networks.tree import require_all_variables
from squircuit.regions.scope import Scope, describe

CHAIN = "a matrix-product state"


def chain(root: Site) -> list[Tensor]:
    """The sites (R_left, v, R_right) of a tree tensor network that is a chain; StructureError otherwise.

    The root is the site of one variable c; below it on the one side lie 0 … c−1, on the other c+1 … d−1,
    and every further site splits off the variable next to its parent's.

    Example:
        >>> end = Site(torch.ones(2, 3), (0,))
        >>> [tuple(site.shape) for site in chain(Site(torch.ones(1, 5, 2), (1, end)))]
        [(1, 3, 2), (2, 5, 1)]
    """
    d = len(dimensions(root))
    require_all_variables(dimensions(root))
    if root.up != 1:
        raise StructureError(CHAIN, "root", f"it has {root.up} units", "convert a circuit with one root unit")
    root = merged(root)
    below = scopes(root)
    centre = _centre(root, below)
    tensor, left, right = _site(root, below, range(centre), centre, range(centre + 1, d))
    found = {centre: tensor.squeeze(0)}
    for j in reversed(range(centre)):  # (up, left, v, 1) → (left, v, up)
        site, left, _ = _site(_as_site(left, found[j + 1][:, 0, 0]), below, range(j), j, range(0))
        found[j] = site.squeeze(3).movedim(0, 2)
    for j in range(centre + 1, d):  # (up, 1, v, right) → (up, v, right)
        site, _, right = _site(_as_site(right, found[j - 1][0, 0]), below, range(0), j, range(j + 1, d))
        found[j] = site.squeeze(1)
    return [found[j].contiguous() for j in range(d)]


def _centre(root: Site, below: Mapping[Site, Scope]) -> int:
    """The variable of the root's own: the others must lie in one part before it and one after it."""
    parts = {_scope(child, below) for child in root.children}
    d = len(below[root])
    own = [min(part) for part in parts if len(part) == 1]
    candidates = sorted(v for v in own if parts == _parts(range(v), v, range(v + 1, d)))
    if not candidates:
        raise _no_chain(root, below)
    direct = [v for v in candidates if v in root.children]  # two sites: the one that is no site of its own
    return (direct or candidates)[-1]


def _site(
    site: Site, below: Mapping[Site, Scope], before: Iterable[int], variable: int, after: Iterable[int]
) -> tuple[Tensor, Child | None, Child | None]:
    """The tensor with axes (up, left, v, right), a missing neighbour as an axis of 1, and the neighbours."""
    axis = {_scope(child, below): i for i, child in enumerate(site.children)}
    wanted = [frozenset(before), frozenset({variable}), frozenset(after)]
    if set(axis) != {scope for scope in wanted if scope}:
        raise _no_chain(site, below)
    tensor = site.tensor.permute(0, *(1 + axis[scope] for scope in wanted if scope))
    for place, scope in enumerate(wanted, start=1):
        tensor = tensor if scope else tensor.unsqueeze(place)
    left, own, right = (site.children[axis[scope]] if scope else None for scope in wanted)
    if isinstance(own, Site):  # a weight between the chain and the basis functions
        tensor = torch.tensordot(tensor, own.tensor, ([2], [0])).movedim(-1, 2)
    return tensor, left, right


def _as_site(child: Child | None, bond: Tensor) -> Site:
    """The neighbour itself; a physical index without a site of its own gets an identity."""
    if isinstance(child, Site):
        return child
    assert child is not None, "the scopes of the children cover the whole chain"
    return Site(torch.eye(bond.shape[0], dtype=bond.dtype, device=bond.device), (child,))


def _scope(child: Child, below: Mapping[Site, Scope]) -> Scope:
    return below[child] if isinstance(child, Site) else frozenset({child})


def _parts(before: Iterable[int], variable: int, after: Iterable[int]) -> set[Scope]:
    return {part for part in (frozenset(before), frozenset({variable}), frozenset(after)) if part}


def _no_chain(site: Site, below: Mapping[Site, Scope]) -> StructureError:
    parts = " and ".join(describe(_scope(child, below)) for child in site.children)
    return StructureError(
        CHAIN,
        f"the site over {describe(below[site])}",
        f"its children are over {parts}",
        "a chain 0, 1, …, d−1 splits off one variable at its end at every site; use to_tree for other trees",
    )
