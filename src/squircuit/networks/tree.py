"""Tree tensor networks ↔ circuits: a site is a sum over a Kronecker product."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from squircuit.circuits import Circuit, Hadamard, Input, Kronecker, Layer, Sum
from squircuit.circuits.validation import overlapping_products
from squircuit.errors import ParameterError, StructureError
from squircuit.families import Categorical, Family
from squircuit.networks.site import (
    LARGEST,
    NETWORK,
    Child,
    Site,
    canonicalise,
    contract,
    dimensions,
    fold,
)
from squircuit.regions.scope import describe

Families = Family | Sequence[Family] | None

__all__ = ["Families", "Site", "canonicalise", "contract", "from_tree", "to_tree"]


def from_tree(root: Site, families: Families = None) -> Circuit:
    """The circuit that contracts a tree tensor network from its leaves to its root: c(x) = ψ(x).

    Eq. (tree-tensor-network-circuit) of the paper, for trees of any arity: a site with tensor W becomes a
    sum layer with weight W reshaped to (up, ∏ children) over the Kronecker product of its children. A
    physical index becomes an input layer of the variable's basis functions φ themselves; a site with a
    physical index alone becomes an input layer W φ. The circuit is structured-decomposable.

    Its weights are free parameters. After :func:`canonicalise` their values are semi-unitary, and the
    circuit is unitary; ``unitarise`` gives one whose parameters are also declared so, for training.

    Args:
        root: its up-dimension is the number of root units, usually 1. Variables are 0 … d−1.
        families: basis functions of every variable, or a list with one family a variable, as many
            functions as the physical index is long; default: Categorical, so that ψ is the tensor itself.

    Example:
        >>> from squircuit.reference import evaluate
        >>> left, right = Site(torch.tensor([[1.0, 2.0]]), (0,)), Site(torch.tensor([[3.0, 4.0]]), (1,))
        >>> circuit = from_tree(Site(torch.ones(1, 1, 1), (left, right)))
        >>> evaluate(circuit, [[0, 1], [1, 1]]).real.flatten()
        tensor([4., 8.], dtype=torch.float64)
    """
    sizes = dimensions(root)
    require_all_variables(sizes)
    chosen = _families(families, sizes)
    return Circuit(fold(root, lambda site, below: _layer(site, below, chosen)))


def to_tree(circuit: Circuit) -> Site:
    """The tree tensor network that a circuit contracts: the inverse of :func:`from_tree`.

    App. B read backwards. Cost O(size of the tensors), K^N for a Hadamard product of N factors.

    For circuits with one root layer in which every sum has one input: such a circuit is a tree. A sum
    over a product is one site (Hadamard products as superdiagonal tensors), an input weight is a site,
    and a product under a product, or at the root, becomes a site with an identity. Ties between weights
    are lost, and so are the basis functions and the weights of several root units: hand the families to
    ``from_tree`` again.

    Example:
        >>> from squircuit.circuits import build
        >>> from squircuit.regions import balanced_tree
        >>> circuit = build(balanced_tree(4), Categorical(3), units=2).initialise(seed=0)
        >>> to_tree(circuit)
        <site of shape (1, 2, 2) over {0,1,2,3}>
    """
    _check_is_tree(circuit)
    below_sums = {layer.inputs[0] for layer in circuit.sums}
    done: dict[Layer, Child] = {}
    for layer in circuit.layers:
        if not (isinstance(layer, Hadamard | Kronecker) and layer in below_sums):
            done[layer] = _child(circuit, layer, done)
    root = done[circuit.roots[0]]
    return root if isinstance(root, Site) else Site(_identity(circuit.roots[0]), (root,))


def require_all_variables(sizes: Mapping[int, int]) -> None:
    """A StructureError unless the variables are 0 … d−1."""
    if list(sizes) != list(range(len(sizes))):
        raise StructureError(
            NETWORK,
            f"variables {describe(frozenset(sizes))}",
            f"variable {min(set(range(len(sizes))) - set(sizes))} is missing",
            f"number the {len(sizes)} variables from 0 to {len(sizes) - 1}",
        )


def _layer(site: Site, below: Sequence[Layer | int], families: Mapping[int, Family]) -> Layer:
    only = below[0]
    if len(below) == 1 and isinstance(only, int):
        return Input(only, families[only], weight=site.matrix)
    layers = [Input(child, families[child]) if isinstance(child, int) else child for child in below]
    return Sum(layers[0] if len(layers) == 1 else Kronecker(layers), weight=site.matrix)


def _families(families: Families, sizes: Mapping[int, int]) -> dict[int, Family]:
    chosen = _one_each(families, sizes)
    for variable, family in chosen.items():
        if not isinstance(family, Family):
            raise ParameterError(
                f"families: {family!r} for variable {variable} is not a family of functions"
                ". Fix: pass one, such as sq.Categorical(2)."
            )
        if family.size != sizes[variable]:
            raise ParameterError(
                f"families: variable {variable} has a physical index of dimension {sizes[variable]}, but "
                f"{family!r} has {family.size} functions. Fix: pass a family of size {sizes[variable]}."
            )
    return chosen


def _one_each(families: Families, sizes: Mapping[int, int]) -> dict[int, Family]:
    if families is None:
        return {variable: Categorical(size) for variable, size in sizes.items()}
    given = [families] * len(sizes) if isinstance(families, Family) else list(families)
    if len(given) != len(sizes):
        raise ParameterError(
            f"families: {len(given)} families for {len(sizes)} variables. "
            "Fix: pass one for each, or one for all."
        )
    return dict(enumerate(given))


def _check_is_tree(circuit: Circuit) -> None:
    for _, failure in overlapping_products(circuit.layers):
        raise failure
    if len(circuit.roots) > 1:
        raise StructureError(
            NETWORK,
            "roots",
            f"there are {len(circuit.roots)} root layers",
            "convert one root layer at a time",
        )
    for layer in circuit.sums:
        if len(layer.inputs) > 1:
            raise StructureError(
                NETWORK,
                circuit.where(layer),
                f"the sum has {len(layer.inputs)} inputs",
                "only circuits whose sums have one input each are trees",
            )


def _child(circuit: Circuit, layer: Layer, done: Mapping[Layer, Child]) -> Child:
    if isinstance(layer, Input):
        matrix = circuit.matrix(layer)
        return layer.variable if matrix is None else Site(matrix, (layer.variable,))
    if not isinstance(layer, Sum):
        return Site(_over_product(circuit, layer, None), tuple(done[item] for item in layer.inputs))
    weight, item = circuit.value(layer.weight), layer.inputs[0]
    if isinstance(item, Hadamard | Kronecker):
        return Site(_over_product(circuit, item, weight), tuple(done[below] for below in item.inputs))
    return Site(weight, (done[item],))


def _over_product(circuit: Circuit, product: Layer, weight: Tensor | None) -> Tensor:
    """The tensor (up, *inputs) of a product layer times the weight of the sum above it, if there is one."""
    dims = [item.units for item in product.inputs]
    if isinstance(product, Hadamard) or weight is None:
        _check_size(circuit, product, math.prod(dims) * (product.units if weight is None else len(weight)))
    weight = _identity(product) if weight is None else weight
    if isinstance(product, Kronecker):
        return weight.reshape(-1, *dims)
    tensor = weight.new_zeros(len(weight), *dims)
    diagonal = torch.arange(product.units, device=weight.device)
    tensor.movedim(0, -1)[(diagonal,) * len(dims)] = weight.T
    return tensor


def _check_size(circuit: Circuit, product: Layer, entries: int) -> None:
    if entries > LARGEST:
        raise StructureError(
            NETWORK,
            circuit.where(product),
            f"as a dense tensor this product has {entries:.3g} entries",
            "multiply fewer layers at a time, with sums between the products",
        )


def _identity(layer: Layer) -> Tensor:
    return torch.eye(layer.units, dtype=torch.float64)
