"""A structured-decomposable circuit as a tree: all layers over one scope joined into one sum layer.

Products over a scope S split it in one way, S = S₁ ∪ … ∪ S_N. So with U_S the layers over S, one below the
other, U_S = M_S (U_{S₁} ⊗ … ⊗ U_{S_N}): a tree tensor network with one tensor a scope, in which no sum has
several inputs, so that cross terms need no care. Its columns number ∏|U_{S_i}|: for circuits that sum several
products over one scope, which are small or written by hand.

Weights of sums one below the other are multiplied, and products of many may leave the range of floats. So
units are balanced (:mod:`squircuit.circuits.balance`), and only the exponents of roots are left over.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor

from squircuit.circuits import Circuit, Constraint, Input, Kronecker, Layer, Parameter, Sum
from squircuit.circuits.balance import balanced_matrix, power_of_two, product_exponents
from squircuit.circuits.layers import factor_units, have_same_functions, is_product
from squircuit.errors import StructureError
from squircuit.families import Concatenated, Family
from squircuit.regions.scope import Scope


@final
class JoinedCircuit:
    """The structure in which parts of a circuit are joined, and the way from the circuit's weights to its.

    Root layers stay as many and in their order.

    Args:
        circuit: of which the parts that are joined are structured-decomposable.
        joins: of each root layer, whether to join the layers below it.

    Example:
        >>> from squircuit.families import Categorical
        >>> a, b = (Input(0, Categorical(2), 1) for _ in range(2))
        >>> joined = JoinedCircuit(Circuit(Sum([a, b], units=1)), [True])
        >>> [layer.kind for layer in joined.structure.layers]
        ['input', 'sum']
    """

    def __init__(self, circuit: Circuit, joins: list[bool]) -> None:
        chosen = [root for root, join in zip(circuit.roots, joins, strict=True) if join]
        self.trees = {
            root: JoinedTree(circuit, root, f"joined{i}") for i, root in enumerate(dict.fromkeys(chosen))
        }
        roots = [self.trees[root].root if root in self.trees else root for root in circuit.roots]
        self.structure = Circuit(roots, root_weights=circuit.root_weights, initial=False)

    def weights(self, circuit: Circuit) -> tuple[dict[str, Tensor], tuple[Tensor | float, ...]]:
        """The values of all parameters of the structure, differentiable in those of the circuit.

        Returns:
            Them, and for every root layer the logarithm of the factor that its values lack.
        """
        made: dict[Parameter, Tensor] = {}
        lacking: dict[Layer, Tensor] = {}
        for root, tree in self.trees.items():
            values, lacking[root] = tree.weights(circuit)
            made |= values
        named = {n: made[p] if p in made else circuit.value(p) for n, p in self.structure.parameters.items()}
        return named, tuple(lacking.get(root, 0.0) for root in circuit.roots)


@final
class JoinedTree:
    """The layers below a root as one tree, see the module.

    Args:
        circuit: that the root is of.
        root: structured-decomposable.
        name: with which the names of parameters begin.

    Attributes:
        root: the layer that computes what the root of the circuit does.
    """

    def __init__(self, circuit: Circuit, root: Layer, name: str) -> None:
        self.circuit = Circuit(root, initial=False, validate=circuit.validated)
        _require_single_variables(self.circuit)
        self._is_complex, self._name = circuit.is_complex, name
        self._members = _members(self.circuit)
        self._starts = {
            layer: sum(other.units for other in members[:i])
            for members in self._members.values()
            for i, layer in enumerate(members)
        }
        self._blocks = _families(self.circuit)
        self._parts = _splits(self.circuit)
        self._parameters: dict[Scope, Parameter] = {}
        self.root = self._made()

    def weights(self, circuit: Circuit) -> tuple[dict[Parameter, Tensor], Tensor]:
        """The values of the tree's own parameters, differentiable in those of the circuit.

        Returns:
            Them, and the logarithm of the factor that the root's values lack.
        """
        like = _like(circuit)
        maps: dict[Layer, Tensor] = {}
        exponents: dict[Layer, Tensor] = {}
        for layer in self.circuit.layers:
            if isinstance(layer, Input):
                functions = torch.zeros(layer.family.size, dtype=torch.float64, device=like.device)
                matrix, exponents[layer] = balanced_matrix(_matrix(circuit, layer, like), functions)
                maps[layer] = self._input_map(matrix, layer)
            elif isinstance(layer, Sum):
                below = torch.cat([exponents[item] for item in layer.inputs])
                matrix, exponents[layer] = balanced_matrix(_matrix(circuit, layer, like), below)
                maps[layer] = self._sum_map(matrix, layer, maps)
            else:
                exponents[layer] = product_exponents(layer, exponents)
        values = {
            self._parameters[scope]: torch.cat([self._map(layer, maps, like) for layer in members])
            for scope, members in self._members.items()
        }
        (root,) = self.circuit.roots
        most, last = exponents[root].amax(), self._parameters[self.circuit.scope]
        values[last] = values[last] * power_of_two(exponents[root] - most).unsqueeze(1).to(like.real.dtype)
        return values, most * math.log(2)

    # ------------------------------------------------------------------ structure

    def _made(self) -> Layer:
        made: dict[Scope, Layer] = {}
        for scope in sorted(self._members, key=len):
            below = self._leaf(scope) if len(scope) == 1 else Kronecker([made[s] for s in self._parts[scope]])
            shape, name = (self._width(scope), below.units), f"{self._name}.{_name(scope)}"
            self._parameters[scope] = Parameter(shape, Constraint.FREE, self._is_complex, name)
            made[scope] = Sum(below, weight=self._parameters[scope])
        return made[self.circuit.scope]

    def _leaf(self, scope: Scope) -> Input:
        (variable,) = scope
        blocks = self._blocks[variable]
        family, parameters = blocks[0].family, dict(blocks[0].parameters)
        for block in blocks[1:]:
            family = Concatenated(family.of_one_variable(), block.family.of_one_variable())
            parameters = {f"left.{name}": p for name, p in parameters.items()}
            parameters |= {f"right.{name}": p for name, p in block.parameters.items()}
        return Input(variable, family, parameters=parameters)

    # ------------------------------------------------------------------ weights

    def _columns(self, scope: Scope) -> int:
        """The length of what layers over a scope are linear in."""
        if len(scope) == 1:
            return sum(item.family.size for item in self._blocks[next(iter(scope))])
        return math.prod(self._width(part) for part in self._parts[scope])

    def _width(self, scope: Scope) -> int:
        return sum(layer.units for layer in self._members[scope])

    def _input_map(self, matrix: Tensor, layer: Input) -> Tensor:
        start = 0
        for block in self._blocks[layer.variable]:
            if have_same_functions(block, layer):
                break
            start += block.family.size
        after = self._columns(layer.scope) - start - layer.family.size
        return torch.nn.functional.pad(matrix, (start, after))

    def _sum_map(self, matrix: Tensor, layer: Sum, maps: Mapping[Layer, Tensor]) -> Tensor:
        blocks = torch.split(matrix, [item.units for item in layer.inputs], dim=1)
        terms = [self._times(block, item, maps) for block, item in zip(blocks, layer.inputs, strict=True)]
        return torch.stack(terms).sum(dim=0)

    def _map(self, layer: Layer, maps: Mapping[Layer, Tensor], like: Tensor) -> Tensor:
        identity = torch.eye(layer.units, dtype=like.dtype, device=like.device)
        return maps[layer] if layer in maps else self._times(identity, layer, maps)

    def _times(self, weight: Tensor, layer: Layer, maps: Mapping[Layer, Tensor]) -> Tensor:
        """A matrix times a layer, as a matrix times what the layers over its scope are linear in."""
        while is_product(layer) and len(layer.inputs) == 1:
            layer = layer.inputs[0]
        if layer in maps:
            return weight @ maps[layer]
        index = self._places(layer).to(weight.device)
        return weight.new_zeros(len(weight), self._columns(layer.scope)).index_add(1, index, weight)

    def _places(self, layer: Layer) -> Tensor:
        """The column of every unit of a product: (K,)."""
        pairs = zip(layer.inputs, factor_units(layer), strict=True)
        places = {item.scope: self._starts[item] + units for item, units in pairs}
        column = torch.zeros(layer.units, dtype=torch.long)
        for scope in self._parts[layer.scope]:
            column = column * self._width(scope) + places[scope]
        return column


def _require_single_variables(circuit: Circuit) -> None:
    for layer in circuit.inputs:
        if not isinstance(layer.family, Family):
            raise StructureError(
                "over single variables",
                circuit.where(layer),
                "its functions of several variables are below a sum of several inputs, and cross terms count",
                "give the block one input layer that has all of its functions, and sum over that",
            )


def _members(circuit: Circuit) -> dict[Scope, list[Layer]]:
    """The layers over each scope that a product over a larger scope reads, or the root."""
    found: dict[Scope, dict[Layer, None]] = {}
    products = [layer for layer in circuit.layers if is_product(layer) and len(layer.inputs) > 1]
    for item in [item for layer in products for item in layer.inputs] + list(circuit.roots):
        found.setdefault(item.scope, {})[item] = None
    return {scope: list(layers) for scope, layers in found.items()}


def _families(circuit: Circuit) -> dict[int, list[Input]]:
    """The input layers of each variable, one for every distinct set of functions."""
    found: dict[int, list[Input]] = {}
    for layer in circuit.inputs:
        known = found.setdefault(layer.variable, [])
        if not any(have_same_functions(other, layer) for other in known):
            known.append(layer)
    return found


def _splits(circuit: Circuit) -> dict[Scope, list[Scope]]:
    products = (layer for layer in circuit.layers if is_product(layer) and len(layer.inputs) > 1)
    return {layer.scope: sorted((item.scope for item in layer.inputs), key=min) for layer in products}


def _matrix(circuit: Circuit, layer: Sum | Input, like: Tensor) -> Tensor:
    """W of a layer, the identity where it has none."""
    matrix = circuit.matrix(layer)
    if matrix is None:
        return torch.eye(layer.units, dtype=like.dtype, device=like.device)
    return matrix.to(like.dtype)


def _name(scope: Scope) -> str:
    return "x" + "_".join(map(str, sorted(scope)))


def _like(circuit: Circuit) -> Tensor:
    """An empty tensor of the precision and on the device of the weights, complex if the circuit is."""
    value = next(iter(circuit.weights.values()))
    real = value.dtype.to_real()
    return torch.empty(0, dtype=real.to_complex() if circuit.is_complex else real, device=value.device)
