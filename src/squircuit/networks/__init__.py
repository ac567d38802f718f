"""Tensor networks as circuits, and back: matrix-product states, tree tensor networks, quimb.

One core, :class:`Site` with :func:`from_tree` and :func:`to_tree`, and a door for every way in which people
write networks down. Canonical forms of tensor networks are unitary circuits.

>>> import torch
>>> from squircuit import is_unitary, networks
>>> sites = [torch.rand(1, 2, 2), torch.rand(2, 2, 2), torch.rand(2, 2, 1)]
>>> bool(is_unitary(networks.from_mps(networks.left_canonical(sites)[0])))
True
"""

from squircuit.networks.mps import canonical, from_mps, left_canonical, right_canonical, to_mps
from squircuit.networks.quimb import from_quimb, to_quimb
from squircuit.networks.site import Site, canonicalise, contract
from squircuit.networks.tree import from_tree, to_tree
from squircuit.networks.ttn import TTN, from_ttn, to_ttn, upper_canonical

__all__ = [
    "Site", "from_tree", "to_tree", "contract", "canonicalise",
    "from_mps", "to_mps", "canonical", "left_canonical", "right_canonical",
    "TTN", "from_ttn", "to_ttn", "upper_canonical",
    "from_quimb", "to_quimb",
]  # fmt: skip
