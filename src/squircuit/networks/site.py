"""Tree tensor networks: sites and the arrays they are made of, their contraction and their canonical form."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, TypeGuard, TypeVar, final

import numpy as np
import torch
from torch import Tensor

from squircuit.circuits.postorder import postorder
from squircuit.errors import ParameterError, StructureError, is_whole
from squircuit.regions.scope import Scope, describe

LARGEST = 2**26  # entries of a dense tensor that are still made without a second thought: half a GiB
MOST_AXES = 48  # torch stops at 64

Result = TypeVar("Result")
NETWORK = "a tree tensor network"


@final
@dataclass(frozen=True, eq=False, repr=False)
class Site:
    """A tensor of a tree tensor network, with one axis up and one axis for each child.

    A child that is a site shares its axis with that site's ``up``: the bond. A child that is an integer
    is the physical index of that variable: an axis of coefficients of the variable's basis functions,
    so that the network is ψ(x) = Σ T[k₀, …, k_{d−1}] φ_{k₀}(x₀) ⋯ φ_{k_{d−1}}(x_{d−1}), with T its
    :func:`contract`. Penrose's diagrams of the paper (Figs. 1 and "TTNs represented as tensorized
    circuits") are trees of such sites.

    Args:
        tensor: axes ``(up, *children)``; an array or a tensor.
        children: sites, or integers from 0: variables.

    Example:
        >>> left, right = Site(torch.ones(2, 3), (0,)), Site(torch.ones(2, 4), (1,))
        >>> Site(torch.ones(1, 2, 2), (left, right))
        <site of shape (1, 2, 2) over {0,1}>
    """

    tensor: Tensor
    children: tuple[Child, ...]

    def __post_init__(self) -> None:
        children = tuple(_as_child(child) for child in self.children)
        where = (
            f"site with children ({', '.join('site' if isinstance(c, Site) else str(c) for c in children)})"
        )
        object.__setattr__(self, "tensor", as_tensor(self.tensor, where))
        object.__setattr__(self, "children", children)
        self._check(where)

    def _check(self, where: str) -> None:
        shape = tuple(self.tensor.shape)
        if not self.children:
            raise ParameterError(
                "a site needs at least one child. Fix: pass a site or the number of a variable."
            )
        if len(shape) != 1 + len(self.children):
            raise ParameterError(
                f"{where}: expected {1 + len(self.children)} axes, (up, *children), got shape {shape}"
                ". Fix: reshape the tensor."
            )
        for axis, child in enumerate(self.children, start=1):
            if isinstance(child, Site) and child.up != shape[axis]:
                raise ParameterError(
                    f"{where}: axis {axis} of shape {shape} meets a site with up-dimension {child.up}: "
                    f"give both the same dimension, {shape[axis]} or {child.up}"
                    ". Fix: one of the two."
                )

    @property
    def up(self) -> int:
        """Dimension of the bond to the parent; number of root units at the root."""
        return int(self.tensor.shape[0])

    @property
    def matrix(self) -> Tensor:
        """The tensor as a matrix from the children to ``up``: (up, ∏ children)."""
        return self.tensor.flatten(1)

    def __repr__(self) -> str:  # a plain one would print the whole tree, recursively
        return f"<site of shape {tuple(self.tensor.shape)} over {describe(scopes(self)[self])}>"


Child: TypeAlias = Site | int


class _Open(NamedTuple):
    """A contracted part of the network: axes (up, *variables)."""

    tensor: Tensor
    variables: list[int]


class _Reduced(NamedTuple):
    """A part of the network made canonical: it equals 2^exponent · rest · site."""

    site: Site
    rest: Tensor  # (old up, new up)
    exponent: int


def fold(root: Site, combine: Callable[[Site, list[Result | int]], Result]) -> Result:
    """The result at the root, each site's from those of its children; variables are handed on as they are.

    Without recursion: a matrix-product state may be deeper than Python's stack.
    """
    done: dict[Site, Result] = {}
    for site in sites(root):
        done[site] = combine(site, [done[c] if isinstance(c, Site) else c for c in site.children])
    return done[root]


def sites(root: Site) -> list[Site]:
    """Every site, each after its children."""
    return postorder([root], lambda site: [child for child in site.children if isinstance(child, Site)])


def scopes(root: Site) -> dict[Site, Scope]:
    """The variables below every site."""
    found: dict[Site, Scope] = {}
    for site in sites(root):
        below = (found[c] if isinstance(c, Site) else frozenset({c}) for c in site.children)
        found[site] = frozenset().union(*below)
    return found


def dimensions(root: Site) -> dict[int, int]:
    """The dimension of every physical index by variable, in order; each must occur once.

    Example:
        >>> dimensions(Site(torch.ones(1, 2, 5), (1, 0)))
        {0: 5, 1: 2}
    """
    found: dict[int, int] = {}
    seen: set[Child] = set()
    for site in sites(root):
        for child, size in zip(site.children, site.tensor.shape[1:], strict=True):
            if child in seen:
                raise _repeated(site, child)
            seen.add(child)
            if not isinstance(child, Site):
                found[child] = int(size)
    return dict(sorted(found.items()))


def contract(root: Site) -> Tensor:
    """The dense tensor T of the network, (v₀, …, v_{d−1}), in float64 or complex128.

    The complete contraction of App. B; cost and size O(∏ v_j · R): for small networks.

    All bonds are summed, from the leaves to the root. With several root units (up > 1) their axis comes
    first. For small networks: the size is exponential in the number of variables.

    Example:
        >>> left, right = Site(torch.tensor([[1.0, 2.0]]), (0,)), Site(torch.tensor([[3.0, 4.0]]), (1,))
        >>> contract(Site(torch.ones(1, 1, 1), (left, right)))
        tensor([[3., 4.],
                [6., 8.]], dtype=torch.float64)
    """
    sizes = dimensions(root)
    entries = root.up * math.prod(sizes.values())
    if entries > LARGEST or len(sizes) > MOST_AXES:
        raise ParameterError(
            f"contract: a dense tensor over {len(sizes)} variables, {entries} entries, is too large. "
            "Fix: evaluate from_tree(root) at the points you need."
        )
    dtype = common_dtype([site.tensor for site in sites(root)])
    tensor, variables = fold(root, lambda site, below: _contracted(site, below, dtype))
    order = [1 + variables.index(variable) for variable in sorted(variables)]
    tensor = tensor.permute(0, *order)
    return tensor.squeeze(0) if root.up == 1 else tensor


def canonicalise(root: Site) -> tuple[Site, float]:
    """Upper canonical form: the same network up to its norm, every site an isometry and the root of norm 1.

    From the leaves to the root each site's matrix V, (up, ∏ children), is factored as V = L Q by a QR
    decomposition of Vᴴ; Q, whose rows are orthonormal, stays and L goes into the parent. This is the
    paper's condition on TTNs in App. "Unitary Circuits Generalize Upper Canonical Tree Tensor Networks",
    for the root in the form ‖W⁽⁰⁾‖ = 1, and it makes ``from_tree`` of the result unitary when the basis
    functions are orthonormal. A bond wider than the space below it shrinks to that. Time O(sites · K³).

    Args:
        root: of a network that is not zero everywhere; with several root units their joint norm counts.

    Returns:
        The root of the canonical network T', and the norm: T = norm · T'. For orthonormal functions
        norm² = ∫ |ψ(x)|² dx. The norm alone may overflow to inf or underflow to 0; T' does neither.

    Example:
        >>> site, norm = canonicalise(Site(torch.tensor([[3.0, 4.0]]), (0,)))
        >>> site.tensor, norm
        (tensor([[0.6000, 0.8000]], dtype=torch.float64), 5.0)
    """
    dimensions(root)
    dtype = common_dtype([site.tensor for site in sites(root)])
    top, rest, exponent = fold(root, lambda site, below: _reduced(site, below, dtype))
    norm = float(torch.linalg.vector_norm(rest))
    if norm == 0:
        raise ParameterError(
            "canonicalise: the network is zero everywhere, so it has no normalised form"
            ". Fix: check the tensors."
        )
    tensor = ((rest / norm) @ top.matrix).reshape(-1, *top.tensor.shape[1:])
    return Site(tensor, top.children), _scaled(norm, exponent)


def merged(root: Site) -> Site:
    """The same network in one dtype, each site whose only child is a site multiplied into that child."""
    dtype = common_dtype([site.tensor for site in sites(root)])
    return fold(root, lambda site, below: _merged(site, below, dtype))


def _merged(site: Site, below: Sequence[Child], dtype: torch.dtype) -> Site:
    tensor = site.tensor.to(dtype)
    only = below[0]
    if len(below) == 1 and isinstance(only, Site):
        return Site(torch.tensordot(tensor, only.tensor, 1), only.children)
    return Site(tensor, tuple(below))


def _contracted(site: Site, below: Sequence[_Open | int], dtype: torch.dtype) -> _Open:
    tensor, variables = site.tensor.to(dtype), [child for child in below if isinstance(child, int)]
    axis = 1
    for child in below:
        if isinstance(child, int):
            axis += 1
        else:  # the bond goes, the axes of the child come last
            tensor = torch.tensordot(tensor, child.tensor, ([axis], [0]))
            variables += child.variables
    return _Open(tensor, variables)


def _reduced(site: Site, below: Sequence[_Reduced | int], dtype: torch.dtype) -> _Reduced:
    tensor, exponent = site.tensor.to(dtype), 0
    for axis, child in _parts(below):
        tensor = torch.tensordot(tensor, child.rest, ([axis], [0])).movedim(-1, axis)
        exponent += child.exponent
    q, rest = _lq(tensor.flatten(1))
    shift = max(-1000, math.frexp(float(torch.linalg.vector_norm(rest)))[1])
    children = tuple(child if isinstance(child, int) else child.site for child in below)
    # powers of two are exact, and keep the norm of a long chain from overflowing on the way up
    return _Reduced(Site(q.reshape(-1, *tensor.shape[1:]), children), rest * 2.0**-shift, exponent + shift)


def _parts(below: Sequence[_Reduced | int]) -> Iterator[tuple[int, _Reduced]]:
    return ((axis, child) for axis, child in enumerate(below, start=1) if isinstance(child, _Reduced))


def _lq(v: Tensor) -> tuple[Tensor, Tensor]:
    """Q and L of V = L Q, rows of Q orthonormal; the non-negative diagonal of L makes them unique."""
    q, r = torch.linalg.qr(v.mH)
    diagonal = r.diagonal()
    phase = torch.where(diagonal == 0, torch.ones_like(diagonal), diagonal.sgn())
    return (q * phase).mH.resolve_conj().contiguous(), (phase.conj().unsqueeze(1) * r).mH.resolve_conj()


def _scaled(norm: float, exponent: int) -> float:
    try:
        return math.ldexp(norm, exponent)
    except OverflowError:
        return math.inf


def _as_child(child: Any) -> Child:
    if isinstance(child, Site):
        return child
    if is_index(child):
        return int(child)
    raise ParameterError(
        f"a child is a site or the number of a variable, from 0; got {child!r}. Fix: pass one of the two."
    )


def _repeated(site: Site, child: Child) -> StructureError:
    what = "a site" if isinstance(child, Site) else f"variable {child}"
    return StructureError(
        NETWORK,
        f"site of shape {tuple(site.tensor.shape)}",
        f"{what} among its children occurs elsewhere in the network",
        "let every variable and every site occur once",
    )


def as_tensor(array: Any, where: str) -> Tensor:
    """``array`` as a floating or complex tensor; integers become float64. One clear error otherwise.

    Arrays that are not tensors are copied, so that a later change of theirs does not change a circuit.

    Example:
        >>> as_tensor([[1, 2]], "site 0")
        tensor([[1., 2.]], dtype=torch.float64)
    """
    tensor = array.resolve_conj() if isinstance(array, Tensor) else _from_numpy(array, where)
    if not tensor.is_floating_point() and not tensor.is_complex():
        tensor = tensor.double()
    if 0 in tensor.shape:
        raise ParameterError(
            f"{where}: every side of shape {tuple(tensor.shape)} must be ≥ 1. Fix: leave such an array out."
        )
    if not bool(torch.isfinite(tensor).all()):
        raise ParameterError(
            f"{where}: the tensor of shape {tuple(tensor.shape)} holds NaN or infinity"
            ". Fix: pass finite numbers."
        )
    return tensor


def as_tensors(arrays: Any, kind: str) -> list[Tensor]:
    """:func:`as_tensor` of every item; messages speak of "site 0 of …" where ``kind`` is "site {} of …"."""
    if not isinstance(arrays, Sequence | np.ndarray | Tensor) or isinstance(arrays, str):
        raise ParameterError(
            f"{kind.format('j')}: expected a list of arrays, got {type(arrays).__name__}. Fix: pass a list."
        )
    return [as_tensor(array, kind.format(j)) for j, array in enumerate(arrays)]


def common_dtype(tensors: list[Tensor]) -> torch.dtype:
    """Double precision, complex where any of the tensors is: real networks stay real."""
    return torch.complex128 if any(tensor.is_complex() for tensor in tensors) else torch.float64


def is_index(value: Any) -> TypeGuard[int]:
    """Whether a value counts as an integer from 0: ints and numpy integers do, ``True`` and ``3.0`` do not.

    Example:
        >>> is_index(3), is_index(np.int64(3)), is_index(True), is_index(-1)
        (True, True, False, False)
    """
    return is_whole(value, 0)


def _from_numpy(array: Any, where: str) -> Tensor:
    try:
        return torch.tensor(np.array(array, order="C"))
    except (TypeError, ValueError, RuntimeError) as error:
        raise ParameterError(
            f"{where}: expected an array of numbers, got {type(array).__name__}: {error}"
            ". Fix: pass an array or a tensor."
        ) from error
