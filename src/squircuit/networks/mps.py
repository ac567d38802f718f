"""Matrix-product states ↔ circuits (§2 and Fig. "Matrix-product states are circuits" of the paper).

A matrix-product state is a list of d arrays, site j of shape (R_left, v_j, R_right):

    ψ(x) = Σ_k A⁽⁰⁾[:, k₀, :] A⁽¹⁾[:, k₁, :] ⋯ A⁽ᵈ⁻¹⁾[:, k_{d−1}, :] φ_{k₀}(x₀) ⋯ φ_{k_{d−1}}(x_{d−1})

The boundary bonds have dimension 1 and may be left out: the first site may have shape (v, R), the last
(R, v), and a single site (v,). Arrays are those of numpy or torch; real ones stay real.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from torch import Tensor

from squircuit.circuits import Circuit
from squircuit.circuits.circuit import require_circuit
from squircuit.errors import ParameterError
from squircuit.networks.chain import chain
from squircuit.networks.site import Child, Site, as_tensors, canonicalise, is_index
from squircuit.networks.tree import Families, from_tree, to_tree


def from_mps(tensors: Sequence[Any], families: Families = None, centre: int | None = None) -> Circuit:
    """The circuit that contracts a matrix-product state towards the site ``centre``.

    With the default, the last site, this is the left-to-right contraction of eq. (matrix-product-state) of
    the paper, whose circuit is its Fig. "Matrix-product states are circuits". Each site is a sum layer of
    shape (R, R' · v) over the Kronecker product of its neighbour's sum and its variable's functions.

    Args:
        tensors: sites (R_left, v, R_right), see :mod:`squircuit.networks.mps`.
        families: basis functions, v_j of them for variable j; default Categorical(v_j).
        centre: the site at the root.

    Example:
        >>> from squircuit.reference import evaluate
        >>> circuit = from_mps([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1j]]])  # |00⟩ + i |11⟩
        >>> evaluate(circuit, [[0, 0], [0, 1], [1, 1]]).flatten()
        tensor([1.+0.j, 0.+0.j, 0.+1.j], dtype=torch.complex128)
    """
    return from_tree(_rooted(tensors, centre), families)


def to_mps(circuit: Circuit) -> list[Tensor]:
    """The sites (R_left, v, R_right) of a circuit that contracts a chain: the inverse of :func:`from_mps`.

    Eq. (1) read backwards (App. B). Cost O(size of the sites).

    Every circuit over a ``linear`` region graph is one, with Kronecker or Hadamard products, and so is
    every result of ``from_mps``, whatever its centre. The variables lie along the chain in their order.

    Example:
        >>> from squircuit.circuits import build
        >>> from squircuit.families import Categorical
        >>> from squircuit.regions import linear
        >>> circuit = build(linear(4), Categorical(3), units=2).initialise(seed=0)
        >>> [tuple(site.shape) for site in to_mps(circuit)]
        [(1, 3, 2), (2, 3, 2), (2, 3, 2), (2, 3, 1)]
    """
    require_circuit("to_mps", circuit)
    return chain(to_tree(circuit))


def canonical(tensors: Sequence[Any], centre: int) -> tuple[list[Tensor], float]:
    """Mixed canonical form, ψ = norm · ψ': left isometries before the site ``centre``, right ones after it.

    Σ_{l,k} A[l,k,r] A[l,k,r']* = δ_{rr'} before the centre, Σ_{k,r} A[l,k,r] A[l',k,r]* = δ_{ll'} after
    it, and ‖A‖ = 1 at the centre. The case of chains of the paper's App. "Unitary Circuits Generalize Upper
    Canonical Tree Tensor Networks": ``from_mps(sites, centre=centre)`` is unitary, so Z = 1.

    Args:
        tensors: sites, see :mod:`squircuit.networks.mps`; not zero everywhere.
        centre: the orthogonality centre.

    Returns:
        The new sites, (R_left, v, R_right) in double precision, and the norm (Σ_k |ψ_k|²)^½.

    Example:
        >>> sites, norm = canonical([[[3.0], [4.0]], [[0.0, 2.0]]], centre=1)
        >>> round(norm, 9), sites[0].flatten()
        (10.0, tensor([0.6000, 0.8000], dtype=torch.float64))
    """
    return _canonical(tensors, centre)


def left_canonical(tensors: Sequence[Any]) -> tuple[list[Tensor], float]:
    """:func:`canonical` with the last site as centre: every other site is a left isometry.

    The left canonical form of §3. Cost O(d v R³).

    Example:
        >>> left_canonical([[[3.0], [4.0]], [[0.0, 2.0]]])[0][1].flatten()
        tensor([0., 1.], dtype=torch.float64)
    """
    return _canonical(tensors, None)


def right_canonical(tensors: Sequence[Any]) -> tuple[list[Tensor], float]:
    """:func:`canonical` with the first site as centre: every other site is a right isometry.

    The right canonical form of §3. Cost O(d v R³).

    Example:
        >>> right_canonical([[[3.0], [4.0]], [[0.0, 2.0]]])[0][0].flatten()
        tensor([0.6000, 0.8000], dtype=torch.float64)
    """
    return canonical(tensors, 0)


def _canonical(tensors: Sequence[Any], centre: int | None) -> tuple[list[Tensor], float]:
    root, norm = canonicalise(_rooted(tensors, centre))
    return chain(root), norm


def _rooted(tensors: Sequence[Any], centre: int | None) -> Site:
    """The chain as a tree whose root is the site ``centre``."""
    arrays = _checked(tensors)
    last = len(arrays) - 1
    centre = last if centre is None else _check_centre(centre, last)
    left = right = None
    for j in range(centre):
        left = Site(_drop(arrays[j].movedim(2, 0), left, 1), _present(left, j))
    for j in range(last, centre, -1):
        right = Site(_drop(arrays[j], right, 2), _present(j, right))
    root = _drop(_drop(arrays[centre].unsqueeze(0), right, 3), left, 1)
    return Site(root, _present(left, centre, right))


def _drop(tensor: Tensor, neighbour: Site | None, axis: int) -> Tensor:
    return tensor.squeeze(axis) if neighbour is None else tensor


def _present(*children: Child | None) -> tuple[Child, ...]:
    return tuple(child for child in children if child is not None)


def _checked(tensors: Sequence[Any]) -> list[Tensor]:
    arrays = as_tensors(tensors, "site {} of the matrix-product state")
    if not arrays:
        raise ParameterError(
            "matrix-product state: there are no sites. Fix: pass one array (R_left, v, R_right) each."
        )
    last = len(arrays) - 1
    if last == 0 and arrays[0].ndim == 1:
        arrays[0] = arrays[0].reshape(1, -1, 1)
    if last > 0 and arrays[0].ndim == 2:
        arrays[0] = arrays[0].unsqueeze(0)
    if last > 0 and arrays[last].ndim == 2:
        arrays[last] = arrays[last].unsqueeze(2)
    for j, array in enumerate(arrays):
        _check_axes(j, array, last)
    _check_bonds(arrays)
    return arrays


def _check_axes(j: int, array: Tensor, last: int) -> None:
    if array.ndim != 3:
        short = "(v,)" if last == 0 else {0: "(v, R_right)", last: "(R_left, v)"}.get(j)
        raise ParameterError(
            f"matrix-product state: site {j} has shape {tuple(array.shape)}. Fix: pass (R_left, v, R_right)"
            + (f", or {short}." if short else ".")
        )


def _check_bonds(arrays: list[Tensor]) -> None:
    shapes = [tuple(array.shape) for array in arrays]
    for j, (shape, following) in enumerate(pairwise(shapes)):
        if shape[2] != following[0]:
            raise ParameterError(
                f"matrix-product state: site {j} of shape {shape} has right bond {shape[2]}, but "
                f"site {j + 1} of shape {following} has left bond {following[0]}. Fix: make them equal."
            )
    for end, axis in ((0, 0), (len(shapes) - 1, 2)):
        if shapes[end][axis] != 1:
            raise ParameterError(
                f"matrix-product state: site {end} has shape {shapes[end]}, but the chain ends there: its "
                "outer bond must be 1 (a periodic chain is not a tree)"
                ". Fix: array[:1] or a sum over that bond."
            )


def _check_centre(centre: Any, last: int) -> int:
    if not is_index(centre) or centre > last:
        raise ParameterError(
            f"matrix-product state: centre must be a site from 0 to {last}, got {centre!r}"
            ". Fix: pass such a number."
        )
    return int(centre)
