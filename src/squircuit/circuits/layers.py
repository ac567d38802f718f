"""The four kinds of layers of a tensorized circuit (Def. "Tensorized circuit" of the paper).

Layers are immutable and refer to their inputs as objects, so a circuit is written down from the
inputs to the root in plain Python:

>>> from squircuit.families import Categorical
>>> x, y = Input(0, Categorical(2)), Input(1, Categorical(3))
>>> root = Sum([Kronecker([x, y])], units=1)
>>> root.scope, root.weight.shape
(frozenset({0, 1}), (1, 6))

A *scalar* circuit (Def. 1 of the paper) is one in which every layer has a single unit.
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from squircuit.circuits.arguments import (
    Weight,
    as_count,
    as_variables,
    check_family,
    family_parameters,
    input_weight,
    over,
    sum_weight,
)
from squircuit.circuits.parameter import Parameter
from squircuit.errors import ParameterError, StructureError
from squircuit.families import Family, InputFunctions
from squircuit.regions.scope import Scope, describe


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Layer(ABC):
    """A vector of ``units`` functions over the variables of ``scope``."""

    inputs: tuple[Layer, ...]
    scope: Scope
    units: int

    @property
    def kind(self) -> str:
        """Lower-case name of the kind: input, hadamard, kronecker or sum."""
        return type(self).__name__.lower()

    @property
    def label(self) -> str:
        """How messages speak of this layer."""
        return f"{self.kind} layer over {describe(self.scope)}"

    @property
    def size(self) -> int:
        """The number of input connections of the layer's units."""
        return self.units * len(self.inputs)

    def named_parameters(self) -> dict[str, Parameter]:
        """The layer's parameters by their role in it: ``weight``, or a name of its family's."""
        return {}

    def __deepcopy__(self, memo: dict[int, object]) -> Layer:
        return self  # immutable

    def __repr__(self) -> str:
        return f"<{self.label}, {self.units} units>"

    def _set(self, **fields: Any) -> None:
        # the one place where the fields of a frozen layer are written
        for name, value in fields.items():
            object.__setattr__(self, name, value)


@final
@dataclass(frozen=True, eq=False, repr=False, init=False)
class Input(Layer):
    """K functions of one variable or of a block of several: ℓ(x) = W φ(x), φ the n functions of a family.

    Args:
        variables: index of the variable, from 0; or those of a block, in the order of its coordinates.
        family: the n functions φ.
        units: K; with neither ``units`` nor ``weight`` the layer is φ itself (K = n, no weight).
        weight: parameter or value of shape (rows, n); drawn semi-unitary where absent and φ orthonormal.
        first_row: the layer uses rows first_row … first_row + K − 1 of the weight, so that several
            layers over one variable are mutually orthogonal blocks of one semi-unitary matrix (U1).
        parameters: the learnable parameters of the family, by name, or their first values; made here where
            absent.

    Example:
        >>> from squircuit.families import MultivariateGaussian
        >>> Input((0, 2), MultivariateGaussian(size=3, dimension=2))
        <input layer over {0,2}, 3 units>
    """

    variables: tuple[int, ...]
    family: InputFunctions
    weight: Parameter | None
    first_row: int
    parameters: Mapping[str, Parameter]

    def __init__(
        self,
        variables: int | Sequence[int],
        family: InputFunctions,
        units: int | None = None,
        weight: Weight = None,
        first_row: int = 0,
        parameters: Mapping[str, Parameter | Tensor] | None = None,
    ) -> None:
        places = as_variables(variables)
        where = over(places)
        units = None if units is None else as_count(units, f"{where}: units")
        check_family(where, places, family)
        mixing = input_weight(where, family, units, weight)
        if units is None:
            units = family.size if mixing is None else mixing.shape[0] - first_row
        self._set(inputs=(), scope=frozenset(places), units=units, variables=places, family=family)
        self._set(weight=mixing, first_row=first_row)
        self._set(parameters=family_parameters(family, parameters or {}))
        self._check()

    @property
    def variable(self) -> int:
        """The variable of a layer over one; of a block of several there is none."""
        if len(self.variables) > 1:
            raise StructureError(
                "over one variable",
                self.label,
                f"its functions are of {len(self.variables)} variables at once",
                "ask for its variables, or use layers over single variables",
            )
        return self.variables[0]

    def columns(self, x: Tensor) -> Tensor:
        """The columns at which the family is evaluated: rows (..., d) → (...,), or (..., D) of a block.

        Example:
            >>> import torch
            >>> from squircuit.families import Categorical, MultivariateGaussian
            >>> x = torch.tensor([[4, 5, 6]])
            >>> Input(2, Categorical(9)).columns(x), Input((2, 0), MultivariateGaussian(1, 2)).columns(x)
            (tensor([6]), tensor([[6, 4]]))
        """
        if isinstance(self.family, Family):
            return x[..., self.variables[0]]
        return x[..., list(self.variables)]

    def named_parameters(self) -> dict[str, Parameter]:
        mixing = {} if self.weight is None else {"weight": self.weight}
        return {**mixing, **self.parameters}

    def _check(self) -> None:
        where = self.label
        if self.weight is None:
            return
        rows, columns = self.weight.shape
        if columns != self.family.size:
            raise ParameterError(
                f"{where}: weight has {columns} columns, but the family has {self.family.size} functions"
                ". Fix: give it as many columns as there are functions."
            )
        if self.units < 1 or self.first_row < 0 or self.first_row + self.units > rows:
            raise ParameterError(
                f"{where}: rows {self.first_row} to {self.first_row + self.units - 1} are not in a weight "
                f"of {rows} rows"
                ". Fix: a smaller first_row, fewer units, or more rows."
            )


@dataclass(frozen=True, eq=False, repr=False, init=False)
class _Product(Layer):
    def __init__(self, inputs: Layer | Sequence[Layer]) -> None:
        layers = _as_layers(self.kind, inputs)
        self._set(inputs=layers, scope=frozenset().union(*(layer.scope for layer in layers)))
        self._set(units=self._width(layers))

    def _width(self, layers: tuple[Layer, ...]) -> int:
        return math.prod(layer.units for layer in layers)


@final
class Kronecker(_Product):
    """ℓ = ℓ₁ ⊗ … ⊗ ℓ_N: all products of one unit of each input, the first input's index slowest."""


@final
class Hadamard(_Product):
    """ℓ = ℓ₁ ⊙ … ⊙ ℓ_N: unit k is the product of the k-th units; all inputs have equal width."""

    def _width(self, layers: tuple[Layer, ...]) -> int:
        widths = [layer.units for layer in layers]
        if len(set(widths)) > 1:
            raise StructureError(
                "a Hadamard product",
                self.label,
                f"its inputs have different numbers of units, {widths}",
                "give them equal widths, or use Kronecker",
            )
        return widths[0]


@final
@dataclass(frozen=True, eq=False, repr=False, init=False)
class Sum(Layer):
    """ℓ = W [ℓ₁ … ℓ_N]: a matrix times the concatenation of its inputs.

    Args:
        inputs: one layer or several, all over the same variables.
        units: K1, the rows of W; taken from ``weight`` where that is given.
        weight: parameter or value of shape (K1, ΣK_i); a semi-unitary parameter where absent.
    """

    weight: Parameter

    def __init__(
        self, inputs: Layer | Sequence[Layer], units: int | None = None, weight: Weight = None
    ) -> None:
        layers = _as_layers("sum", inputs)
        units = None if units is None else as_count(units, "sum layer: units")
        self._set(
            inputs=layers, scope=frozenset().union(*(layer.scope for layer in layers)), units=units or 0
        )
        parameter = sum_weight(self.label, self.input_units, units, weight)
        self._set(units=parameter.shape[0], weight=parameter)
        if parameter.shape[1] != self.input_units:
            raise StructureError(
                "a sum",
                self.label,
                f"its weight has {parameter.shape[1]} columns, its inputs have "
                f"{[layer.units for layer in layers]} units",
                f"pass a weight with {self.input_units} columns",
            )

    @property
    def input_units(self) -> int:
        """K2, the total number of units of the inputs."""
        return sum(layer.units for layer in self.inputs)

    @property
    def size(self) -> int:
        return self.units * self.input_units

    def named_parameters(self) -> dict[str, Parameter]:
        return {"weight": self.weight}


def is_product(layer: Layer) -> bool:
    """A Hadamard or Kronecker layer."""
    return isinstance(layer, Hadamard | Kronecker)


def have_same_functions(a: Input, b: Input) -> bool:
    """Two input layers are over the same functions for all values of what is learnt."""
    return a.family == b.family and dict(a.parameters) == dict(b.parameters)


def are_apart(a: Input, b: Input) -> bool:
    """Two input layers take disjoint rows of one matrix over the same orthonormal functions."""
    disjoint = a.first_row + a.units <= b.first_row or b.first_row + b.units <= a.first_row
    one_matrix = a.weight is not None and a.weight is b.weight and have_same_functions(a, b)
    return one_matrix and disjoint and a.family.is_orthonormal


def factors(layer: Layer) -> tuple[Layer, ...]:
    """The inputs of a product; any other layer is a product of itself."""
    return layer.inputs if is_product(layer) else (layer,)


def summands(layer: Layer) -> tuple[Layer, ...]:
    """The inputs of a sum; any other layer is a sum of itself."""
    return layer.inputs if isinstance(layer, Sum) else (layer,)


def factor_units(layer: Layer) -> list[Tensor]:
    """Which unit of each of its inputs every unit of a product is made of: (K,) each.

    Example:
        >>> from squircuit.families import Categorical
        >>> factor_units(Kronecker([Input(0, Categorical(2)), Input(1, Categorical(3))]))
        [tensor([0, 0, 0, 1, 1, 1]), tensor([0, 1, 2, 0, 1, 2])]
    """
    units = torch.arange(layer.units)
    if not isinstance(layer, Kronecker):
        return [units] * len(layer.inputs)
    found = []
    for item in reversed(layer.inputs):  # the last input runs fastest
        found.append(units % item.units)
        units = units // item.units
    return found[::-1]


def copied(
    layer: Layer,
    inputs: Sequence[Layer],
    parameters: Mapping[Parameter, Parameter],
    family: InputFunctions | None = None,
) -> Layer:
    """The same layer over other inputs.

    Args:
        layer: what is copied.
        inputs: of the copy.
        parameters: those of the layer → those of the copy.
        family: of an input layer, where it is not the same.
    """
    if isinstance(layer, Input):
        weight = None if layer.weight is None else parameters[layer.weight]
        learnt = {name: parameters[p] for name, p in layer.parameters.items()}
        units = None if weight is None else layer.units
        return Input(layer.variables, family or layer.family, units, weight, layer.first_row, learnt)
    if isinstance(layer, Sum):
        return Sum(inputs, weight=parameters[layer.weight])
    return Hadamard(inputs) if isinstance(layer, Hadamard) else Kronecker(inputs)


def _as_layers(kind: str, inputs: Layer | Sequence[Layer]) -> tuple[Layer, ...]:
    layers = (inputs,) if isinstance(inputs, Layer) else tuple(inputs)
    if not layers:
        raise StructureError(f"a {kind} layer", kind, "it has no inputs", "pass at least one layer")
    for layer in layers:
        if not isinstance(layer, Layer):
            raise ParameterError(
                f"{kind} layer: input {layer!r} is not a layer"
                ". Fix: pass Input, Sum, Hadamard or Kronecker layers."
            )
    return layers
