"""Binary tree tensor networks ↔ circuits (App. "Tree Tensor Networks as Structured-decomposable Circuits").

A binary tree tensor network over d variables is given by plain arrays, numbered as in the paper's eq.
(tree-tensor-network). With N = d − 1 inner tensors, node n < N is the tensor W⁽ⁿ⁾ and node N + j is the
factor of variable j:

- ``factors``: d arrays (R_j, v_j): the functions ψ_jᵏ(x) = Σ_i factors[j][k, i] φ_i(x) of variable j;
- ``tensors``: N arrays (R_n, R_left, R_right); the root W⁽⁰⁾ may also be a matrix (R_left, R_right);
- ``children``: N pairs of nodes, those of W⁽ⁿ⁾, each node but the root once and after its parent; default
  (2n + 1, 2n + 2), the complete binary tree of the paper.

The paper's example, d = 4, is factors [ψ₁, ψ₂, ψ₃, ψ₄], tensors [W⁽⁰⁾, W⁽¹⁾, W⁽²⁾] and children
[(1, 2), (3, 4), (5, 6)]. A flat list, unlike nested ones, has room for trees of any depth.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from squircuit.circuits import Circuit
from squircuit.circuits.circuit import require_circuit
from squircuit.errors import ParameterError, StructureError
from squircuit.networks.site import (
    Child,
    Site,
    as_tensors,
    canonicalise,
    dimensions,
    is_index,
    merged,
    scopes,
)
from squircuit.networks.tree import Families, from_tree, require_all_variables, to_tree
from squircuit.regions.scope import describe

BINARY = "a binary tree tensor network"


class TTN(NamedTuple):
    """The arrays of a binary tree tensor network, see :mod:`squircuit.networks.ttn`."""

    factors: list[Tensor]
    tensors: list[Tensor]
    children: list[tuple[int, int]]


def from_ttn(
    factors: Sequence[Any],
    tensors: Sequence[Any],
    children: Sequence[tuple[int, int]] | None = None,
    families: Families = None,
) -> Circuit:
    """The circuit that contracts a binary tree tensor network, the paper's eq. (tree-tensor-network-circuit).

    ψ(x) = Ŵ⁽⁰⁾ [Ŵ⁽¹⁾ (ℓ₁(x₁) ⊗ ℓ₂(x₂))] ⊗ [Ŵ⁽²⁾ (ℓ₃(x₃) ⊗ ℓ₄(x₄))] in the paper's example: factors are input
    layers, and Ŵ⁽ⁿ⁾, the tensor as a matrix (R_n, R_left · R_right), is the weight of a sum layer over a
    Kronecker product.

    Args:
        factors, tensors, children: see :mod:`squircuit.networks.ttn`.
        families: basis functions, v_j of them for variable j; default Categorical(v_j).

    Example:
        >>> from squircuit.reference import evaluate
        >>> circuit = from_ttn([[[1.0, 2.0]], [[3.0, 4.0]]], [[[10.0]]])
        >>> evaluate(circuit, [[1, 0]]).real
        tensor([[60.]], dtype=torch.float64)
    """
    return from_tree(_rooted(factors, tensors, children), families)


def to_ttn(circuit: Circuit) -> TTN:
    """The arrays of a circuit that contracts a binary tree: the inverse of :func:`from_ttn`.

    Every circuit over a binary region tree is one, with Kronecker or Hadamard products; StructureError
    for others. Inner tensors are numbered level by level from the root, so that a complete tree with the
    variables in order has the paper's numbers. The root has shape (1, R_left, R_right).

    Example:
        >>> from squircuit.circuits import build
        >>> from squircuit.families import Categorical
        >>> from squircuit.regions import balanced_tree
        >>> circuit = build(balanced_tree(4), Categorical(3), units=2).initialise(seed=0)
        >>> ttn = to_ttn(circuit)
        >>> ttn.children, [tuple(w.shape) for w in ttn.tensors]
        ([(1, 2), (3, 4), (5, 6)], [(1, 2, 2), (2, 2, 2), (2, 2, 2)])
    """
    require_circuit("to_ttn", circuit)
    return _arrays(to_tree(circuit))


def upper_canonical(
    factors: Sequence[Any], tensors: Sequence[Any], children: Sequence[tuple[int, int]] | None = None
) -> tuple[TTN, float]:
    """Upper canonical form (App. "Unitary Circuits Generalize Upper Canonical Tree Tensor Networks").

    ψ = norm · ψ', where ψ' has orthonormal rows in every factor (eq. upper-canonical-factors, for
    orthonormal basis functions) and Σ_{ij} W⁽ⁿ⁾[r,i,j] W⁽ⁿ⁾[r',i,j]* = δ_{rr'} in every inner tensor (eq.
    upper-canonical-tensors). For the root, a row of R_left · R_right numbers, this says ‖W⁽⁰⁾‖ = 1: that is
    what Z = 1 needs; the condition that the paper prints for the root, W⁽⁰⁾W⁽⁰⁾† = I, would give Z = R.

    Args:
        factors, tensors, children: see :mod:`squircuit.networks.ttn`; not zero everywhere.

    Returns:
        The new arrays, in double precision, and the norm.

    Example:
        >>> ttn, norm = upper_canonical([[[3.0, 4.0]], [[0.0, 2.0]]], [[[1.0]]])
        >>> round(norm, 9), ttn.factors[0]
        (10.0, tensor([[0.6000, 0.8000]], dtype=torch.float64))
    """
    root, norm = canonicalise(_rooted(factors, tensors, children))
    return _arrays(root), norm


def _rooted(
    factors: Sequence[Any], tensors: Sequence[Any], children: Sequence[tuple[int, int]] | None
) -> Site:
    inner, outer = _checked(factors, tensors)
    pairs = _pairs(children, len(inner))
    nodes = {len(inner) + j: Site(array, (j,)) for j, array in enumerate(outer)}
    for n in reversed(range(len(inner))):  # children come after their parents
        left, right = (nodes[child] for child in pairs[n])
        _check_bonds(n, inner[n], (left.up, right.up), pairs[n])
        nodes[n] = Site(inner[n], (left, right))
    return nodes[0]


def _checked(factors: Sequence[Any], tensors: Sequence[Any]) -> tuple[list[Tensor], list[Tensor]]:
    """The inner tensors and the factors, with the right number of axes."""
    inner = as_tensors(tensors, "tensor {} of the tree tensor network")
    outer = as_tensors(factors, "factor {} of the tree tensor network")
    if not outer or len(inner) != len(outer) - 1:
        raise ParameterError(
            f"tree tensor network: {len(outer)} factors and {len(inner)} tensors. "
            "Fix: pass one factor for each variable and one tensor fewer."
        )
    if inner and inner[0].ndim == 2:
        inner[0] = inner[0].unsqueeze(0)
    _check_axes("tensor", inner, "(R, R_left, R_right)")
    _check_axes("factor", outer, "(R, v)")
    return inner, outer


def _check_axes(kind: str, arrays: list[Tensor], shape: str) -> None:
    for j, array in enumerate(arrays):
        if array.ndim != 1 + shape.count(","):
            raise ParameterError(
                f"tree tensor network: {kind} {j} has shape {tuple(array.shape)}. Fix: pass an array {shape}."
            )


def _pairs(children: Sequence[tuple[int, int]] | None, inner: int) -> list[tuple[int, int]]:
    if children is None:
        return [(2 * n + 1, 2 * n + 2) for n in range(inner)]
    pairs = [tuple(pair) if isinstance(pair, Iterable) else (pair,) for pair in children]
    nodes = [child for pair in pairs for child in pair]
    binary = len(pairs) == inner and all(len(pair) == 2 for pair in pairs) and all(map(is_index, nodes))
    once = binary and sorted(nodes) == list(range(1, 2 * inner + 1))
    if not once or any(child <= n for n, pair in enumerate(pairs) for child in pair):
        raise StructureError(
            BINARY,
            f"children {pairs}",
            f"these are not {inner} pairs with each of the nodes 1 … {2 * inner} once, after its parent",
            f"number the inner tensors 0 … {inner - 1} from the root and the factors {inner} … {2 * inner}",
        )
    return [(int(left), int(right)) for left, right in pairs]


def _check_bonds(n: int, array: Tensor, bonds: tuple[int, int], pair: tuple[int, int]) -> None:
    if tuple(array.shape[1:]) != bonds:
        raise ParameterError(
            f"tree tensor network: tensor {n} has shape {tuple(array.shape)}, but its children, "
            f"nodes {pair[0]} and {pair[1]}, need (R, {bonds[0]}, {bonds[1]})"
            ". Fix: reshape the tensor."
        )


def _arrays(root: Site) -> TTN:
    require_all_variables(dimensions(root))
    root = merged(root)
    inner = _by_level(root)
    number = {site: n for n, site in enumerate(inner)}
    factors: dict[int, Tensor] = {}
    if not inner:
        factors[0] = root.tensor
    for site in inner:
        for child, size in zip(site.children, site.tensor.shape[1:], strict=True):
            if child not in number:
                variable = _variable(child)
                factors[variable] = child.tensor if isinstance(child, Site) else _identity(int(size), site)
    children = [tuple(_node(child, number) for child in site.children) for site in inner]
    pairs = [(left, right) for left, right in children]
    return TTN([factors[j] for j in sorted(factors)], [site.tensor.contiguous() for site in inner], pairs)


def _by_level(root: Site) -> list[Site]:
    """The sites with two children, level by level; StructureError for one with more."""
    inner = [root] if root.children != (0,) else []
    for site in inner:  # the list grows as it is walked
        if len(site.children) != 2:
            raise StructureError(
                BINARY,
                f"the site over {describe(scopes(root)[site])}",
                f"it has {len(site.children)} children",
                "split it in two, or use to_tree",
            )
        inner += [child for child in site.children if isinstance(child, Site) and len(child.children) > 1]
    return inner


def _node(child: Child, number: dict[Site, int]) -> int:
    return number[child] if child in number else len(number) + _variable(child)


def _variable(child: Child) -> int:
    return child if isinstance(child, int) else _variable(child.children[0])


def _identity(size: int, like: Site) -> Tensor:
    return torch.eye(size, dtype=like.tensor.dtype, device=like.tensor.device)
