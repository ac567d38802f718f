"""quimb's tensor networks ↔ circuits. quimb is optional: ``pip install squircuit[networks]``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from squircuit.circuits import Circuit
from squircuit.circuits.circuit import require_circuit
from squircuit.data.optional import need
from squircuit.errors import ParameterError, StructureError
from squircuit.networks.chain import chain
from squircuit.networks.site import NETWORK, Child, Site, as_tensor, sites
from squircuit.networks.tree import Families, from_tree, to_tree


class _Visit(NamedTuple):
    """A tensor of the network, seen from its parent."""

    key: Any  # quimb's number of the tensor
    up: str | None  # the bond to the parent


def from_quimb(
    network: Any, families: Families = None, centre: int | None = None, order: Sequence[str] | None = None
) -> Circuit:
    """The circuit that contracts a quimb ``MatrixProductState``, or any other tree-shaped quimb network.

    Outer indices are the variables, bonds are summed: c(x) = ψ(x) as in App. "Tree Tensor Networks as
    Structured-decomposable Circuits". Several bonds between two tensors are joined to one first.

    Args:
        network: connected and without cycles, so open and not periodic boundaries.
        families: basis functions for every variable; default Categorical.
        centre: the variable whose tensor becomes the root; default the last. For ``mps.canonicalize(k)``
            take centre=k: the circuit is then unitary, if the state is normalised.
        order: the outer indices in the order of the variables. Default: that of the sites where the
            network has sites, else by name, numbers in names by value (k2 before k10).

    Example:
        >>> import quimb.tensor as qtn
        >>> from squircuit.inference import partition
        >>> mps = qtn.MPS_rand_state(5, bond_dim=3, seed=0)  # quimb normalises it
        >>> round(partition(from_quimb(mps)), 12)
        1.0
    """
    if not hasattr(network, "tensor_map") or not hasattr(network, "outer_inds"):
        raise ParameterError(
            f"from_quimb: expected a quimb tensor network, got {type(network).__name__}"
            ". Fix: pass a quimb.tensor.TensorNetwork."
        )
    _check_indices(network)
    fused = network.fuse_multibonds()
    variables = {index: variable for variable, index in enumerate(_order(network, order))}
    centre = len(variables) - 1 if centre is None else centre
    if centre not in range(len(variables)):
        raise ParameterError(
            f"from_quimb: centre must be a variable from 0 to {len(variables) - 1}, got {centre!r}"
            ". Fix: pass such a number."
        )
    start = next(key for key, t in fused.tensor_map.items() if list(variables)[centre] in t.inds)
    visits = _visits(fused, start)
    return from_tree(_built(fused, visits, variables), families)


def to_quimb(circuit: Circuit) -> Any:
    """A quimb ``MatrixProductState`` where the circuit is a chain, else a tree-shaped ``TensorNetwork``.

    App. B read backwards. Cost O(size of the tensors).

    The outer index of variable j is ``k{j}``. It runs over the variable's basis functions: for
    categorical variables these are the states, so quimb's amplitudes are the values of the circuit.

    Args:
        circuit: with one root unit; every sum has one input, see :func:`squircuit.networks.to_tree`.

    Example:
        >>> from squircuit.networks import from_mps
        >>> to_quimb(from_mps([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1j]]])).to_dense().ravel()
        array([1.+0.j, 0.+0.j, 0.+0.j, 0.+1.j])
    """
    require_circuit("to_quimb", circuit)
    qtn = need("quimb.tensor", "to_quimb", "networks")  # which takes seconds to import
    root = to_tree(circuit)
    if root.up != 1:
        raise StructureError(
            NETWORK, "root", f"it has {root.up} units", "convert a circuit with one root unit"
        )
    try:
        arrays = [_as_numpy(array) for array in chain(root)]
    except StructureError:
        return _tree(qtn, root)
    arrays[0] = arrays[0][0]  # quimb leaves the boundary bonds out
    arrays[-1] = arrays[-1][..., 0]
    return qtn.MatrixProductState(arrays, shape="lpr")


def _tree(qtn: Any, root: Site) -> Any:
    bonds = {site: f"b{n}" for n, site in enumerate(sites(root))}

    def index(child: Child) -> str:
        return bonds[child] if isinstance(child, Site) else f"k{child}"

    tensors = [
        qtn.Tensor(_as_numpy(site.tensor), [bonds[site], *map(index, site.children)], tags=f"SITE{n}")
        for n, site in enumerate(bonds)
    ]
    tensors[-1] = tensors[-1].isel({bonds[root]: 0})  # the one root unit
    return qtn.TensorNetwork(tensors)


def _as_numpy(tensor: Tensor) -> NDArray[Any]:
    return np.asarray(tensor.detach().resolve_conj().cpu())


def _check_indices(network: Any) -> None:
    for index, keys in network.ind_map.items():
        ends = sum(network.tensor_map[key].inds.count(index) for key in keys)
        if ends > 2 or (ends == 2 and len(keys) == 1):
            raise StructureError(
                "a tree",
                f"index {index!r}",
                f"it joins {ends} axes of {len(keys)} tensor(s)",
                "let every index be outer or the bond of two tensors; contract traces and copies first",
            )


def _order(network: Any, order: Sequence[str] | None) -> list[str]:
    outer = list(network.outer_inds())
    given = _default_order(network, outer) if order is None else list(order)
    if sorted(given) != sorted(outer):
        raise ParameterError(
            f"from_quimb: order {given} is not an order of the outer indices {outer}"
            ". Fix: pass each of these once."
        )
    if not given:
        raise ParameterError(
            "from_quimb: the network has no outer index, so there are no variables"
            ". Fix: leave an index open for each variable."
        )
    return given


def _default_order(network: Any, outer: list[str]) -> list[str]:
    if hasattr(network, "sites") and hasattr(network, "site_ind"):
        by_site = [network.site_ind(site) for site in sorted(network.sites)]
        if sorted(by_site) == sorted(outer):
            return by_site
    return sorted(outer, key=lambda name: [int(p) if p.isdigit() else p for p in re.split(r"(\d+)", name)])


def _visits(network: Any, start: Any) -> list[_Visit]:
    """Every tensor after its parent; StructureError where the network is no tree."""
    queue, found = [_Visit(start, None)], {start}
    for visit in queue:  # the list grows as it is walked
        for neighbour in _neighbours(network, visit):
            if neighbour.key in found:
                raise StructureError(
                    "a tree",
                    f"bond {neighbour.up!r}",
                    "it closes a cycle, as periodic boundaries do",
                    "cut or contract a bond of the cycle",
                )
            found.add(neighbour.key)
            queue.append(neighbour)
    if len(found) < network.num_tensors:
        reason = f"only {len(found)} of {network.num_tensors} tensors are connected to it"
        raise StructureError("a tree", f"tensor {start}", reason, "join the parts by bonds of dimension 1")
    return queue


def _neighbours(network: Any, visit: _Visit) -> Iterator[_Visit]:
    for index in network.tensor_map[visit.key].inds:
        for key in network.ind_map[index]:
            if index != visit.up and key != visit.key:
                yield _Visit(key, index)


def _built(network: Any, visits: list[_Visit], variables: dict[str, int]) -> Site:
    made: dict[str | None, Site] = {}  # by the bond to the parent
    for key, up in reversed(visits):
        tensor = network.tensor_map[key]
        below = [index for index in tensor.inds if index != up]
        array = as_tensor(tensor.data, f"quimb tensor {key} with indices {tensor.inds}")
        axes = [tensor.inds.index(index) for index in ([] if up is None else [up]) + below]
        array = array.permute(axes) if up is not None else _scaled_root(array, network)
        children = [variables[index] if index in variables else made[index] for index in below]
        made[up] = Site(array, tuple(children))
    return made[None]


def _scaled_root(array: Tensor, network: Any) -> Tensor:
    """The root with an axis up, times the power of ten that quimb may keep apart from the tensors."""
    exponent: float = getattr(network, "exponent", 0.0)
    return array.unsqueeze(0) * math.pow(10.0, exponent)
